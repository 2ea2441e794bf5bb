// What the comparison of random programs relies on: the unrounded reference rounds nothing, the
// other one as the engine does.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/cpp/fuzz/harness.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"
#include "tests/oracle/oracle.hpp"

namespace pando::testing {
namespace {

class UnroundedReference : public ::testing::TestWithParam<const char*> {};

/// The value of an accumulator of the type after the second of two runs with these numbers.
oracle::Number accumulated(const char* type, oracle::Number number) {
  op_registry();
  Ir ir;
  Graph& main = ir.main_graph();
  Tensor* accumulator = variable(main, "v", {0.5F}, {});
  const TensorInfo info = accumulator->info;
  Tensor* source = main.add_stream("source", info);
  ir.add_stream(*source, StreamDirection::HostToDevice);
  OpBuilder ops(main, {});
  Tensor* init = ops.make(
      "Init", {}, {{"shape", Ints{}}, {"dtype", info.dtype}, {"init_type", std::string("undef")}});
  Tensor* loaded = ops.make("HostLoad", {init}, {{"stream", source->id()}});
  ops.op("Accumulate", {accumulator, loaded}, {{"type", std::string(type)}, {"factor", 0.75}});
  oracle::Oracle reference(ir, {.round_floats = false});
  reference.streams["source"] = {{number}};
  reference.run(2);
  return reference.variable(*accumulator)[0];
}

// Rounded state would hide from the comparison how far a program amplifies errors.
TEST_P(UnroundedReference, SeesWhatIsBelowTheResolutionOfTheDtype) {
  EXPECT_NE(accumulated(GetParam(), 3.0L), accumulated(GetParam(), 3.0L + 0x1p-40L));
}

// As the engine's threads do: a norm of tiny values is zero, and ratios of it another case.
TEST(RoundedReference, HasNoFloat32Denormals) {
  EXPECT_EQ(oracle::rounded(0x1p-127L, DType::Float32), 0.0L);
  EXPECT_EQ(oracle::rounded(-0x1p-126L, DType::Float32), -0x1p-126L);
  EXPECT_EQ(oracle::rounded(0x1p-24L, DType::Float16), 0x1p-24L);
}

/// An accumulator of 0.1 to which three rows are added, scaled: sums that float32 has to round.
oracle::Number sparsely_accumulated(bool sum_errors) {
  op_registry();
  Ir ir;
  Graph& main = ir.main_graph();
  Tensor* target = variable(main, "v", {0.1F}, {1, 1});
  OpBuilder ops(main, {});
  const std::vector<std::int32_t> rows(3, 0);
  Tensor* indices = ops.constant({DType::Int32, {3}, {}}, rows.data());
  Tensor* values = variable(main, "x", {0.3F, -0.7F, 0.9F}, {3, 1});
  ops.op("SparseAccumulate", {target, values, nullptr, indices},
         {{"axis", std::int64_t{0}}, {"factor", -0.75}});
  oracle::Oracle reference(ir, {.round_floats = true, .sum_errors = sum_errors});
  reference.run(1);
  return reference.variable(*target)[0];
}

// Else a loop that doubles the sum makes more of the engine's rounding than the bound allows.
TEST(RoundedReference, SumsOfScatteredRowsHaveTheErrorsOfFloat32) {
  const oracle::Number difference = sparsely_accumulated(true) - sparsely_accumulated(false);
  const oracle::Number terms = 0.1L + 0.75L * (0.3L + 0.7L + 0.9L);
  EXPECT_GT(std::fabs(difference), 0x1p-24L * terms);
  EXPECT_LT(std::fabs(difference), 0x1p-22L * terms);
}

/// The gradient of a softmax of two equal elements, which is 0: g - sum(g y) cancels.
oracle::Number cancelled(bool sum_errors) {
  op_registry();
  Ir ir;
  Graph& main = ir.main_graph();
  Tensor* y = variable(main, "y", {0.5F, 0.5F}, {2});
  Tensor* g = variable(main, "g", {0.3F, 0.3F}, {2});
  Tensor* result = variable(main, "v", {0.0F, 0.0F}, {2});
  OpBuilder ops(main, {});
  Tensor* dx = ops.make("SoftmaxGrad", {y, g}, {{"axis", std::int64_t{0}}});
  ops.op("CopyVarUpdate", {result, dx});
  oracle::Oracle reference(ir, {.round_floats = true, .sum_errors = sum_errors});
  reference.run(1);
  return reference.variable(*result)[0];
}

// Else nothing but 0 would be right.
TEST(RoundedReference, DifferencesOfSumsHaveTheErrorsOfFloat32) {
  EXPECT_EQ(cancelled(false), 0.0L);
  EXPECT_GT(std::fabs(cancelled(true)), 0x1p-25L * 0.3L);
  EXPECT_LT(std::fabs(cancelled(true)), 0x1p-22L * 0.6L);
}

// 208 squares of 2^32 - 3 are more than 2^64, and 2^32 - 3 is -3 modulo 2^32.
TEST(RoundedReference, IntegersOverflowInReductions) {
  op_registry();
  Ir ir;
  Graph& main = ir.main_graph();
  Tensor* value = variable(main, "x", {3.0F}, {});
  Tensor* result = variable(main, "v", {0.0F}, {});
  OpBuilder ops(main, {});
  Tensor* negative = ops.make("Neg", {ops.cast(value, DType::UInt32)});
  Tensor* many = ops.make("BroadcastTo", {negative}, {{"shape", Ints{208}}});
  Tensor* sum = ops.make("ReduceSumSquare", {many}, {{"axes", Ints{0}}, {"keepdims", false}});
  ops.op("CopyVarUpdate", {result, ops.cast(sum, DType::Float32)});
  oracle::Oracle reference(ir);
  reference.run(1);
  EXPECT_EQ(reference.variable(*result)[0], 208.0L * 9.0L);
}

// An op that it ran by the compiler's own expansion would hide the faults of that.
TEST(Reference, HasARuleOfItsOwnForEveryKind) {
  for (const OpDef* def : op_registry().all()) {
    EXPECT_TRUE(oracle::Oracle::has_rule(def->name))
        << def->name << ": add a rule to tests/oracle, written from the op's documentation";
  }
}

// Where a program divides nothing by nothing, engine and reference agree, and on nothing else.
TEST(Comparison, TakesNanForNanOnly) {
  op_registry();
  fuzz::FuzzProgram program;
  program.ir = std::make_unique<Ir>();
  Graph& main = program.ir->main_graph();
  Tensor* zero = variable(main, "v", {0.0F}, {});
  store(main, OpBuilder(main, {}).make("Div", {zero, zero}));
  const std::vector<fuzz::NamedBytes> inputs = fuzz::random_inputs(program);
  const fuzz::References wanted = fuzz::run_reference(program, inputs);
  fuzz::Results results = fuzz::run_engine(program, inputs, {1});
  EXPECT_EQ(fuzz::compare(program, results, wanted), "");
  const float number = 1.0F;
  std::memcpy(results.outputs[0].begin()->second.data(), &number, sizeof number);
  EXPECT_NE(fuzz::compare(program, results, wanted), "");
}

// A tie of float16 that the error of a sum turned into the unrounded value hid that it was rounded.
TEST(Comparison, AllowsForSumsThatAreExactBeforeTheyAreRounded) {
  op_registry();
  fuzz::FuzzProgram program;
  program.ir = std::make_unique<Ir>();
  const float number = 3.7773437F;  // float16; the other references take its neighbour
  program.variables = {variable(program.ir->main_graph(), "v", {number}, {})};
  const std::string id = program.variables.front()->id();
  fuzz::Results results;
  results.variables[id] = fuzz::Bytes(sizeof number);
  std::memcpy(results.variables[id].data(), &number, sizeof number);
  const auto reference = [&](oracle::Number value) {
    return fuzz::Reference{.outputs = {}, .variables = {{id, {value}}}};
  };
  fuzz::References wanted{reference(3.7792969L), reference(3.7792969L), std::nullopt};
  EXPECT_NE(fuzz::compare(program, results, wanted), "");
  wanted.exact_sums = reference(number);
  EXPECT_EQ(fuzz::compare(program, results, wanted), "");
}

// The gradient of attention reads the output of attention, which is rounded to bfloat16 before.
TEST(Comparison, FollowsTheRoundedOutputOfAttention) {
  op_registry();
  fuzz::FuzzProgram program;
  program.ir = std::make_unique<Ir>();
  Graph& main = program.ir->main_graph();
  const auto operand = [&](const std::vector<float>& values) {
    return variable(main, "v", values, {1, 1, static_cast<std::int64_t>(values.size()), 1});
  };
  Tensor* q = operand({0.5F, -1.0F});
  Tensor* k = operand({1.0F, -0.25F, 0.75F});
  Tensor* v = operand({2.0F, -3.0F, 0.5F});
  OpBuilder builder(main, {});
  const Op& forward =
      builder.op("ScaledDotProductAttention", {q, k, v, nullptr, nullptr}, {{"scale", 1.0}});
  Tensor* rounded = builder.make("Add", {forward.output(0), operand({0.125F, -0.25F})});
  const Op& gradient =
      builder.op("ScaledDotProductAttentionGrad",
                 {operand({1.0F, 3.0F}), q, k, v, rounded, forward.output(1), nullptr, nullptr},
                 {{"scale", 1.0}});
  for (int i = 0; i < 3; ++i) store(main, gradient.output(i));
  const std::vector<fuzz::NamedBytes> inputs = fuzz::random_inputs(program);
  EXPECT_EQ(fuzz::compare(program, fuzz::run_engine(program, inputs, {1}),
                          fuzz::run_reference(program, inputs)),
            "");
}

INSTANTIATE_TEST_SUITE_P(Accumulations, UnroundedReference,
                         ::testing::Values("Add", "DampenedAdd", "DampenedAddSquare", "DecayAdd",
                                           "DecayAddSquare", "MovingAverage", "MovingAverageSquare",
                                           "Infinity"));

}  // namespace
}  // namespace pando::testing
