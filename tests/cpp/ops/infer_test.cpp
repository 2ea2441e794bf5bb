// Shape and dtype rules and the words of their errors.
#include <gtest/gtest.h>

#include "pando/base/error.hpp"
#include "tests/cpp/ops/evaluate.hpp"

namespace pando::testing {
namespace {

/// The message of the E that building the op throws.
template <class E = Error>
std::string error_of(std::string_view kind, const std::vector<TensorInfo>& infos,
                     Attributes attributes = {}) {
  try {
    SingleOp single(kind, infos, std::move(attributes));
  } catch (const E& error) {
    return error.what();
  }
  return "no error";
}

/// The message of the Error that asking the op, once it is built, what it needs to run throws.
std::string execution_error_of(std::string_view kind, const std::vector<TensorInfo>& infos,
                               Attributes attributes = {}) {
  const SingleOp single(kind, infos, std::move(attributes));
  try {
    if (single.op->def().check_execution) single.op->def().check_execution(*single.op);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_NE(text.find(word), std::string::npos) << "'" << word << "' is not in: " << text;
  }
}

const TensorInfo kHalf = typed(DType::Float16, {2});
const TensorInfo kInt = typed(DType::Int32, {2});
const TensorInfo kBool = typed(DType::Bool, {2});
const TensorInfo kFloat8 = typed(DType::Float8_143, {2, 2});

TEST(Infer, BinaryDtypesMustBeEqual) {
  expect_words(error_of("Add", {f32({2}), kInt}),
               {"np broadcasting failed", "incompatible types float32 and int32", "[2]", "'x0'"});
  expect_words(error_of("AddLhsInplace", {kHalf, f32({2})}), {"incompatible types"});
}

TEST(Infer, BinaryShapesMustAlign) {
  expect_words(error_of("Mul", {f32({2, 3}), f32({2})}),
               {"np broadcasting failed on 'Op Mul", "frames [2, 3] and [2] are not aligned"});
}

TEST(Infer, MulTakesAFloat32Scale) {
  EXPECT_EQ(SingleOp("Mul", {kHalf, f32({})}).info().dtype, DType::Float16);
  EXPECT_EQ(SingleOp("Mul", {f32({1, 1}), kHalf}).info(), typed(DType::Float16, {1, 2}));
  expect_words(error_of("Mul", {kHalf, f32({2})}), {"incompatible types float16 and float32"});
  expect_words(error_of("Mul", {kInt, f32({})}), {"incompatible types"});
}

TEST(Infer, InPlaceKeepsTheShape) {
  EXPECT_EQ(SingleOp("AddLhsInplace", {f32({2, 3}), f32({3})}).info().shape, (Shape{2, 3}));
  expect_words(error_of("AddLhsInplace", {f32({3}), f32({2, 3})}),
               {"(2, 3) float32", "does not fit"});
  const SingleOp relu("ReluInplace", {f32({2})});
  EXPECT_EQ(relu.op->modified_inputs(), InputSet{0});
  EXPECT_EQ(relu.op->def().output_alias(*relu.op, 0), 0);
}

TEST(Infer, MetaShapesTravel) {
  TensorInfo sharded = f32({4});
  sharded.meta_shape = {3, 5};
  TensorInfo other = f32({4});
  other.meta_shape = {4, 4};
  EXPECT_EQ(SingleOp("Exp", {sharded}).info().meta_shape, (Shape{3, 5}));
  EXPECT_EQ(SingleOp("Add", {f32({4}), sharded}).info().meta_shape, (Shape{3, 5}));
  expect_words(error_of("Add", {sharded, other}), {"meta shape", "(3, 5)", "(4, 4)"});
}

TEST(Infer, DTypesThatOnlyExecutionNeedsAreLeftToIt) {
  expect_words(execution_error_of("Add", {kFloat8, kFloat8}), {"Add", "wanted", "float8_143"});
  expect_words(execution_error_of("Exp", {kFloat8}),
               {"wanted float16, bfloat16, float32 or float64"});
  expect_words(execution_error_of("Exp", {kInt}),
               {"Exp", "wanted float16, bfloat16, float32 or float64", "int32"});
  expect_words(execution_error_of("ExpInplace", {kInt}), {"ExpInplace", "int32"});
  expect_words(execution_error_of("ExpGrad", {kInt, kInt}), {"ExpGrad", "int32"});
  EXPECT_EQ(execution_error_of("Exp", {kHalf}), "no error");
  EXPECT_EQ(execution_error_of("Add", {kBool, kBool}), "no error");
  EXPECT_EQ(execution_error_of("Reshape", {kFloat8}, {{"shape", Ints{4}}}), "no error");
}

TEST(Infer, ComparedDTypesMayDifferWhileBuilding) {
  EXPECT_EQ(SingleOp("Equal", {kInt, f32({2})}).info(), typed(DType::Bool, {2}));
  expect_words(execution_error_of("Equal", {kInt, f32({2})}),
               {"incompatible types int32 and float32"});
  EXPECT_EQ(execution_error_of("Greater", {kInt, kInt}), "no error");
}

TEST(Infer, ComparisonsGiveBool) {
  EXPECT_EQ(SingleOp("Equal", {kInt, typed(DType::Int32, {3, 1})}).info(),
            typed(DType::Bool, {3, 2}));
  EXPECT_EQ(SingleOp("IsNaN", {f32({2})}).info().dtype, DType::Bool);
  expect_words(execution_error_of("And", {kBool, kInt}), {"wanted bool at input 1"});
  expect_words(execution_error_of("Where", {kInt, f32({2}), f32({2})}), {"wanted bool at input 0"});
  expect_words(error_of("Where", {kBool, f32({2}), kHalf}), {"incompatible types"});
}

TEST(Infer, Casts) {
  expect_words(error_of("Cast", {f32({2})}, {{"dtype", DType::Float8_143}}),
               {"pow2scale_cast_to_fp8"});
  const TensorInfo scale = typed(DType::Int32, {});
  EXPECT_EQ(
      SingleOp("Pow2ScaleThenCast", {kHalf, scale}, {{"dtype", DType::Float8_152}}).info().dtype,
      DType::Float8_152);
  EXPECT_EQ(
      SingleOp("CastThenPow2Scale", {kFloat8, scale}, {{"dtype", DType::Float16}}).info().dtype,
      DType::Float16);
  expect_words(error_of("CastThenPow2Scale", {kHalf, scale}, {{"dtype", DType::Float16}}),
               {"float8"});
  expect_words(error_of("Pow2ScaleThenCast", {kHalf, kInt}, {{"dtype", DType::Float8_152}}),
               {"scalar int32 log2 scale"});
}

TEST(Infer, ShapeOps) {
  expect_words(error_of("Reshape", {f32({2, 3})}, {{"shape", Ints{4}}}), {"6 elements", "(4,)"});
  EXPECT_EQ(SingleOp("Transpose", {f32({2, 3, 4})}, {{"permutation", Ints{2, 0, 1}}}).info().shape,
            (Shape{4, 2, 3}));
  expect_words(error_of("Transpose", {f32({2, 3})}, {{"permutation", Ints{0, 0}}}),
               {"permutation", "[0, 0]"});
  expect_words(
      error_of("Slice", {f32({4})}, {{"starts", Ints{2}}, {"steps", Ints{1}}, {"counts", Ints{3}}}),
      {"start 2", "count 3", "(4,)"});
  expect_words(error_of("Slice", {f32({4, 4})},
                        {{"starts", Ints{2}}, {"steps", Ints{1}}, {"counts", Ints{3}}}),
               {"'starts'", "2 dimensions"});
  EXPECT_EQ(SingleOp("Subsample", {f32({5, 4})}, {{"strides", Ints{2, 3}}}).info().shape,
            (Shape{3, 2}));
  expect_words(error_of("Subsample", {f32({5})}, {{"strides", Ints{0}}}), {"strides"});
  expect_words(error_of("BroadcastTo", {f32({2})}, {{"shape", Ints{3}}}), {"cannot broadcast"});
}

TEST(Infer, Joins) {
  EXPECT_EQ(
      SingleOp("Concat", {f32({2, 1}), f32({2, 4})}, {{"axis", std::int64_t{1}}}).info().shape,
      (Shape{2, 5}));
  expect_words(error_of("Concat", {f32({2}), kInt}, {{"axis", std::int64_t{0}}}),
               {"All inputs to a concat operation must have the same type"});
  expect_words(error_of("Concat", {f32({2, 1}), f32({3, 1})}, {{"axis", std::int64_t{1}}}),
               {"differ in axis 1 only"});
  expect_words(error_of("Concat", {f32({2})}, {{"axis", std::int64_t{1}}}), {"out of range"});
  const SingleOp split("Split", {f32({5})}, {{"axis", std::int64_t{0}}, {"sizes", Ints{2, 3}}});
  EXPECT_EQ(split.info(1).shape, Shape{3});
  expect_words(error_of("Split", {f32({5})}, {{"axis", std::int64_t{0}}, {"sizes", Ints{2, 2}}}),
               {"sum to 5", "[2, 2]"});
}

TEST(Infer, Reductions) {
  const auto shape_of = [](Ints axes, bool keepdims) {
    return SingleOp("ReduceSum", {f32({2, 3, 4})}, {{"axes", axes}, {"keepdims", keepdims}})
        .info()
        .shape;
  };
  EXPECT_EQ(shape_of({0, 2}, false), Shape{3});
  EXPECT_EQ(shape_of({0, 2}, true), (Shape{1, 3, 1}));
  EXPECT_EQ(shape_of({}, false), (Shape{2, 3, 4}));
  expect_words(error_of("ReduceMax", {f32({2})}, {{"axes", Ints{1}}, {"keepdims", false}}),
               {"rank 1", "[1]"});
  const SingleOp median("ReduceMedian", {kInt}, {{"axes", Ints{0}}, {"keepdims", false}});
  EXPECT_EQ(median.info(1).dtype, DType::Int32);
}

TEST(Infer, MatMulFollowsNumPy) {
  const auto shape_of = [](const Shape& lhs, const Shape& rhs) {
    return SingleOp("MatMul", {f32(lhs), f32(rhs)}).info().shape;
  };
  EXPECT_EQ(shape_of({2, 3}, {3, 4}), (Shape{2, 4}));
  EXPECT_EQ(shape_of({3}, {3}), Shape{});
  EXPECT_EQ(shape_of({3}, {5, 3, 4}), (Shape{5, 4}));
  EXPECT_EQ(shape_of({5, 2, 3}, {3}), (Shape{5, 2}));
  EXPECT_EQ(shape_of({5, 1, 2, 3}, {7, 3, 4}), (Shape{5, 7, 2, 4}));
  expect_words(error_of("MatMul", {f32({2, 3}), f32({2, 4})}),
               {"contracting dimensions unequal", "[2, 3]", "[2, 4]"});
  expect_words(error_of("MatMul", {f32({}), f32({2, 4})}), {"doesn't support scalar tensor"});
  expect_words(error_of("MatMul", {kFloat8, kFloat8}), {"matmul_pow2scaled"});
  EXPECT_EQ(SingleOp("MatMul", {kFloat8, kFloat8, typed(DType::Int32, {})}).info(),
            typed(DType::Float16, {2, 2}));
  EXPECT_EQ(SingleOp("MatMul", {typed(DType::Float16, {2, 2}), typed(DType::Float16, {2, 2})},
                     {{"output_type", DType::Float32}})
                .info()
                .dtype,
            DType::Float32);
}

TEST(Infer, MatMulOfSeveralDTypesHasTheLeftOne) {
  const TensorInfo half = typed(DType::Float16, {2, 2}), ints = typed(DType::Int32, {2, 2});
  EXPECT_EQ(SingleOp("MatMul", {half, f32({2, 2})}).info(), half);
  EXPECT_EQ(SingleOp("MatMul", {f32({2, 2}), half}).info(), f32({2, 2}));
  EXPECT_EQ(SingleOp("MatMul", {ints, half}).info(), ints);
  EXPECT_EQ(execution_error_of("MatMul", {half, f32({2, 2})}), "no error");
  expect_words(execution_error_of("MatMul", {ints, half}), {"MatMul", "int32", "at input 0"});
  expect_words(execution_error_of("MatMul", {half, half}, {{"output_type", DType::Int32}}),
               {"output_type", "int32"});
}

TEST(Infer, Init) {
  const SingleOp init(
      "Init", {},
      {{"shape", Ints{2}}, {"dtype", DType::Int8}, {"init_type", std::string("undef")}});
  EXPECT_EQ(init.info(), typed(DType::Int8, {2}));
  expect_words(
      error_of<ValueError>(
          "Init", {},
          {{"shape", Ints{2}}, {"dtype", DType::Int8}, {"init_type", std::string("ones")}}),
      {"Unknown init_type: ones"});
}

TEST(Registry, EveryRecordIsComplete) {
  for (const OpDef* def : op_registry().all()) {
    EXPECT_FALSE(def->doc.empty()) << def->name;
    EXPECT_TRUE(def->infer) << def->name;
    EXPECT_TRUE(def->gradient || def->differentiable_inputs.empty()) << def->name;
    EXPECT_FALSE(def->view && def->scalar_body) << def->name;
  }
}

}  // namespace
}  // namespace pando::testing
