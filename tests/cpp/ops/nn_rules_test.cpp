// Shapes, errors and gradient rules of the neural-network op families.
#include "tests/cpp/ops/nn_fixture.hpp"

namespace pando::nn_test {
namespace {

class NnRules : public Fixture {
 protected:
  Shape shape_of(const std::string& kind, const std::vector<Tensor*>& inputs,
                 Attributes attributes = {}) {
    return op(kind, inputs, std::move(attributes)).output(0)->shape();
  }
};

std::string text(const char* value) { return value; }

void expect_not_executable(const Op& op, const std::string& word) {
  try {
    op.def().check_execution(op);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    return;
  }
  ADD_FAILURE() << op.kind_name() << " may run";
}

TEST_F(NnRules, ConvolutionSizes) {
  Tensor* t = input({2, 4, 9, 8});
  Tensor* w = input({6, 4, 3, 3});
  EXPECT_EQ(shape_of("Conv", {t, w}), (Shape{2, 6, 7, 6}));
  EXPECT_EQ(shape_of("Conv", {t, w}, {{"strides", Ints{2, 2}}, {"pads", Ints{1, 0, 1, 0}}}),
            (Shape{2, 6, 5, 3}));
  EXPECT_EQ(shape_of("Conv", {t, w}, {{"strides", Ints{2, 3}}, {"pad_type", text("same_upper")}}),
            (Shape{2, 6, 5, 3}));
  EXPECT_EQ(shape_of("Conv", {t, input({6, 2, 3, 3})}, {{"groups", std::int64_t{2}}}),
            (Shape{2, 6, 7, 6}));
  EXPECT_THROW(op("Conv", {t, input({6, 3, 3, 3})}), Error);
  EXPECT_THROW(op("Conv", {t, w}, {{"strides", Ints{2}}}), Error);
  EXPECT_THROW(op("Conv", {t, w, input({}, DType::Int32)}), TypeError);
}

TEST_F(NnRules, SamePaddingPutsTheOddElementWhereItBelongs) {
  Tensor* t = input({1, 1, 4});
  Tensor* w = input({1, 1, 2});
  for (const auto& [type, pads] :
       {std::pair{text("same_upper"), Ints{0, 1}}, std::pair{text("same_lower"), Ints{1, 0}}}) {
    Op& conv = op("Conv", {t, w}, {{"pad_type", type}});
    ir_.main_graph().mark_output(conv.output(0));
    expand(ir_.main_graph());
    const Op& made = *ir_.main_graph().outputs().back()->producer();
    EXPECT_EQ(made.attributes.ints("pads"), pads) << type;
    EXPECT_FALSE(made.attributes.has("pad_type"));
  }
}

TEST_F(NnRules, TransposedConvolutionSizes) {
  Tensor* t = input({2, 4, 5, 5});
  Tensor* w = input({4, 3, 3, 3});
  EXPECT_EQ(shape_of("ConvTranspose", {t, w}, {{"strides", Ints{2, 2}}}), (Shape{2, 3, 11, 11}));
  EXPECT_EQ(
      shape_of("ConvTranspose", {t, w}, {{"strides", Ints{2, 2}}, {"output_shape", Ints{10, 10}}}),
      (Shape{2, 3, 10, 10}));
  EXPECT_THROW(op("ConvTranspose", {t, w}, {{"dilations", Ints{2, 2}}}), Error);
  const Attributes nothing{{"pads", Ints{4, 0, 3, 0}}};
  EXPECT_EQ(shape_of("ConvTranspose", {t, w}, nothing), (Shape{2, 3, 0, 7}));
  expect_not_executable(op("ConvTranspose", {t, w}, nothing), "windows that fit");
  EXPECT_THROW(op("ConvTranspose", {t, w}, {{"pads", Ints{4, 0, 4, 0}}}), Error);
}

TEST_F(NnRules, PoolSizes) {
  Tensor* t = input({1, 2, 7, 7});
  const Ints kernel{2, 2};
  EXPECT_EQ(shape_of("MaxPool", {t}, {{"kernel_size", kernel}}), (Shape{1, 2, 6, 6}));
  EXPECT_EQ(shape_of("MaxPool", {t}, {{"kernel_size", kernel}, {"strides", Ints{2, 2}}}),
            (Shape{1, 2, 3, 3}));
  EXPECT_EQ(shape_of("AveragePool", {t},
                     {{"kernel_size", kernel}, {"strides", Ints{2, 2}}, {"ceil_mode", true}}),
            (Shape{1, 2, 4, 4}));
  EXPECT_THROW(op("MaxPool", {t}, {{"kernel_size", Ints{2}}}), Error);
  // Sizes follow the formulas; what kernels lack is refused when the op is to run.
  const Attributes padded{{"kernel_size", kernel}, {"out_pads", Ints{1, 1, 0, 2}}};
  EXPECT_EQ(shape_of("MaxPool", {t}, padded), (Shape{1, 2, 7, 9}));
  expect_not_executable(op("MaxPool", {t}, padded), "out_pads");
  const Attributes spread{{"kernel_size", kernel}, {"in_dilations", Ints{2, 3}}};
  EXPECT_EQ(shape_of("AveragePool", {t}, spread), (Shape{1, 2, 12, 18}));
  expect_not_executable(op("AveragePool", {t}, spread), "in_dilations");
  EXPECT_EQ(shape_of("MaxPool", {t}, {{"kernel_size", Ints{8, 1}}}), (Shape{1, 2, 0, 7}));
  expect_not_executable(op("MaxPool", {t}, {{"kernel_size", Ints{8, 1}}}), "windows that fit");
  EXPECT_THROW(op("MaxPool", {t}, {{"kernel_size", Ints{9, 1}}}), Error);
}

TEST_F(NnRules, IndexingShapes) {
  const std::int64_t one = 1;
  Tensor* t = input({3, 5, 4});
  Tensor* indices = input({2, 6}, DType::Int32);
  EXPECT_EQ(shape_of("Gather", {t, indices}, {{"axis", one}}), (Shape{3, 2, 6, 4}));
  EXPECT_EQ(shape_of("Gather", {t, input({3, 7}, DType::UInt32)},
                     {{"axis", one}, {"group_size", std::int64_t{3}}}),
            (Shape{3, 7, 4}));
  EXPECT_EQ(shape_of("OneHot", {indices, input({2})},
                     {{"axis", std::int64_t{-1}}, {"num_classes", std::int64_t{9}}}),
            (Shape{2, 6, 9}));
  EXPECT_EQ(shape_of("DynamicSlice", {t, input({1}, DType::UInt32)},
                     {{"axes", Ints{1}}, {"sizes", Ints{2}}}),
            (Shape{3, 2, 4}));
  EXPECT_EQ(shape_of("ScatterReduce", {t, input({5}, DType::Int32)},
                     {{"reduction", text("sum")}, {"axis", one}, {"axis_size", std::int64_t{8}}}),
            (Shape{3, 8, 4}));
  expect_not_executable(op("Gather", {t, input({2})}, {{"axis", one}}), "integer");
  EXPECT_THROW(op("Gather", {t, indices}, {{"axis", std::int64_t{3}}}), Error);
  EXPECT_THROW(op("ScatterReduce", {t, input({3, 5}, DType::Int32)},
                  {{"reduction", text("sum")}, {"axis", one}, {"axis_size", std::int64_t{8}}}),
               Error);
}

TEST_F(NnRules, DynamicSlicesCheckTheirUpdateWhenTheyRun) {
  Tensor* t = input({3, 5, 4});
  Tensor* index = input({1}, DType::UInt32);
  const Attributes slice{{"axes", Ints{1}}, {"sizes", Ints{2}}};
  for (const char* kind : {"DynamicUpdate", "DynamicUpdateInplace"}) {
    Op& update = op(kind, {t, index, input({3, 3, 4})}, slice);
    EXPECT_EQ(update.output(0)->info, t->info);
    expect_not_executable(update, "(3, 2, 4)");
  }
  expect_not_executable(op("DynamicSlice", {t, input({1})}, slice), "int32 or uint32");
  EXPECT_THROW(op("DynamicSlice", {t, input({2}, DType::UInt32)},
                  {{"axes", Ints{1, 1}}, {"sizes", Ints{2, 2}}}),
               Error);
}

TEST_F(NnRules, LossesCheckLabelsAndReduction) {
  Tensor* probs = input({8, 10}, DType::Float16);
  Tensor* labels = input({8}, DType::Int32);
  Op& loss =
      op("NlllWithSoftmaxGradDirect", {probs, labels, input({})}, {{"reduction", text("mean")}});
  EXPECT_EQ(loss.output(0)->shape(), Shape{});
  EXPECT_EQ(loss.output(1)->info, probs->info);
  EXPECT_EQ(shape_of("Nll", {probs, labels}, {{"reduction", text("none")}}), Shape{8});
  EXPECT_THROW(op("Nll", {probs, input({8})}, {{"reduction", text("mean")}}), Error);
  EXPECT_THROW(op("Nll", {probs, input({7}, DType::Int32)}, {{"reduction", text("mean")}}), Error);
  EXPECT_THROW(op("Nll", {probs, labels}, {{"reduction", text("max")}}), ValueError);
  const Attributes none{{"reduction", text("none")}};
  Op& reshaped =
      op("NlllWithSoftmaxGradDirect", {probs, input({2, 4}, DType::Int32), input({})}, none);
  EXPECT_EQ(reshaped.output(0)->shape(), (Shape{2, 4}));
  expect_not_executable(op("NlllWithSoftmaxGradDirect", {probs, input({8}), input({})}, none),
                        "integer");
  EXPECT_THROW(op("NlllWithSoftmaxGradDirect", {probs, input({7}, DType::Int32), input({})}, none),
               Error);
}

TEST_F(NnRules, BandsAreOfMatricesAndLeaveNoRowEmpty) {
  Tensor* t = input({2, 4, 3});
  const auto banded = [](std::int64_t axis, const Ints& band) {
    return Attributes{{"axis", axis}, {"band", band}};
  };
  EXPECT_EQ(shape_of("Softmax", {t}, banded(2, {1, 0})), t->shape());
  EXPECT_EQ(shape_of("SoftmaxGrad", {t, t}, banded(2, {9, 9})), t->shape());
  EXPECT_THROW(op("Softmax", {t}, banded(1, {1, 0})), Error);
  EXPECT_THROW(op("Softmax", {t}, banded(2, {1})), Error);
  EXPECT_THROW(op("Softmax", {input({3})}, banded(0, {1, 0})), Error);
  EXPECT_THROW(op("Softmax", {t}, banded(2, {0, 0})), Error);  // the fourth row has no column
  EXPECT_THROW(op("SoftmaxGrad", {t, t}, banded(2, {4, -1})), Error);
  for (const double scale : {0.0, -1.0, HUGE_VAL}) {
    EXPECT_THROW(op("Softmax", {t}, {{"axis", std::int64_t{2}}, {"scale", scale}}), Error);
  }
  const Attributes lower = {{"lhs_band", Ints{4, 0}}};
  EXPECT_EQ(shape_of("MatMul", {t, input({2, 3, 5})}, lower), (Shape{2, 4, 5}));
  EXPECT_THROW(op("MatMul", {t, input({3, 5})}, lower), Error);
  EXPECT_THROW(op("MatMul", {t, input({2, 3, 5})}, {{"out_band", Ints{4}}}), Error);
}

TEST_F(NnRules, NormalisationStatistics) {
  Tensor* t = input({6, 8, 5}, DType::Float16);
  Tensor* w = input({8}, DType::Float16);
  const Attributes groups{{"num_groups", std::int64_t{2}}, {"eps", 1e-5}};
  Op& norm = op("GroupNormalization", {t, w, w}, groups);
  EXPECT_EQ(norm.output(1)->shape(), Shape{12});
  EXPECT_EQ(norm.output(2)->dtype(), DType::Float16);
  EXPECT_THROW(op("GroupNormalization", {t, input({5}, DType::Float16), w}, groups), Error);
}

TEST_F(NnRules, BatchNormalizationFormula) {
  Tensor* t = input({1, 2, 2}, DType::Float32, {1, 2, 3, 4});
  const auto channel = [&](double a, double b) { return input({2}, DType::Float32, {a, b}); };
  Op& norm =
      op("BatchNormalization", {t, channel(2, 3), channel(0.5, 1), channel(1, 2), channel(4, 9)},
         {{"epsilon", 0.0}});
  EXPECT_TRUE(norm.def().gradient_is_error);
  EXPECT_EQ(run(norm.output(0)), (Values{0.5, 1.5, 2, 3}));
}

TEST_F(NnRules, ResizeSizesAndErrors) {
  Tensor* t = input({1, 2, 5, 4});
  const auto attributes = [](const char* mode) {
    return Attributes{{"scales", Floats{1, 1, 1.5, 2}},
                      {"mode", text(mode)},
                      {"nearest_mode", text("round_prefer_floor")},
                      {"coordinate_transformation_mode", text("half_pixel")}};
  };
  EXPECT_EQ(shape_of("Resize", {t}, attributes("nearest")), (Shape{1, 2, 7, 8}));
  Op& linear = op("Resize", {t}, attributes("linear"));
  EXPECT_THROW(OneOpGradient(linear, {input(linear.output(0)->shape())}), Error);
  EXPECT_THROW(op("Resize", {t}, attributes("area")), ValueError);
}

// Every gradient has the shape and dtype of its input, and everything expands to kernels, views and
// pointwise ops with outputs of unchanged shape.
struct GradientCase {
  std::string kind;
  std::vector<TensorInfo> inputs;
  Attributes attributes;
};

TensorInfo f32(Shape shape) { return {DType::Float32, std::move(shape), {}}; }
TensorInfo i32(Shape shape) { return {DType::Int32, std::move(shape), {}}; }

std::vector<GradientCase> gradient_cases() {
  const std::int64_t one = 1;
  const TensorInfo seed{DType::UInt32, {2}, {}};
  const Attributes cubic{{"scales", Floats{1, 1, 2, 2}},
                         {"mode", text("cubic")},
                         {"nearest_mode", text("floor")},
                         {"coordinate_transformation_mode", text("align_corners")}};
  const Attributes roi{
      {"output_size", Ints{2, 3}}, {"spatial_scale", 1.0}, {"sampling_ratio", one}};
  const Attributes window{{"kernel_size", Ints{3, 3}}, {"pad_type", text("same_lower")}};
  const Attributes slice{{"axes", Ints{1}}, {"sizes", Ints{2}}};
  const auto scatter = [&](const char* reduction) {
    return Attributes{{"reduction", text(reduction)}, {"axis", one}};
  };
  return {
      {"Softmax", {f32({3, 4})}, {{"axis", one}}},
      {"Nll", {f32({3, 4}), i32({3})}, {{"reduction", text("mean")}}},
      {"Conv", {f32({2, 4, 5, 5}), f32({6, 2, 3, 3})}, {{"groups", std::int64_t{2}}}},
      {"MaxPool", {f32({1, 2, 5, 5})}, window},
      {"AveragePool", {f32({1, 2, 5, 5})}, window},
      {"GroupNormalization",
       {f32({3, 4}), f32({4}), f32({4})},
       {{"num_groups", one}, {"eps", 0.1}}},
      {"Resize", {f32({1, 2, 3, 4})}, cubic},
      {"RoiAlign", {f32({1, 2, 8, 8}), f32({5, 4}), i32({5})}, roi},
      {"Gather", {f32({3, 5}), i32({2, 2})}, {{"axis", one}}},
      {"TiedGather", {f32({3, 5}), i32({2})}, {{"axis", one}}},
      {"Scatter", {f32({3, 5}), i32({3, 2}), f32({3, 2})}, {{"axis", one}}},
      {"ScatterReduce", {f32({3, 5}), i32({5}), f32({3, 7})}, scatter("sum")},
      {"ScatterReduce", {f32({3, 5}), i32({5}), f32({3, 7})}, scatter("max")},
      {"ScatterReduce", {f32({3, 5}), i32({5}), f32({3, 7})}, scatter("none")},
      {"OneHot", {i32({3}), f32({2})}, {{"num_classes", one}, {"axis", std::int64_t{0}}}},
      {"DynamicSlice", {f32({3, 5}), i32({1})}, slice},
      {"DynamicUpdate", {f32({3, 5}), i32({1}), f32({3, 2})}, slice},
      {"TopK", {f32({3, 5})}, {{"axis", one}, {"k", one}, {"largest", true}, {"sorted", true}}},
      {"CumSum", {f32({3, 5})}, {{"axis", one}}},
      {"Dropout", {f32({3, 5}), seed}, {{"p", 0.5}}},
      {"ShapedDropout", {f32({3, 5}), seed}, {{"shape", Ints{5}}, {"ratio", 0.5}}},
  };
}

TEST(NnGradients, HaveTheShapeOfTheirInputsAndExpand) {
  for (const GradientCase& each : gradient_cases()) {
    SCOPED_TRACE(each.kind);
    Ir ir;
    Graph& graph = ir.main_graph();
    std::vector<Tensor*> inputs;
    for (const TensorInfo& info : each.inputs) {
      inputs.push_back(graph.add_input(graph.unique_tensor_id("x"), info));
    }
    Op& op = OpBuilder(graph, {}).op(op_registry().get(each.kind).name, inputs, each.attributes);
    Tensor* g = graph.add_input(graph.unique_tensor_id("g"), op.output(0)->info);
    OneOpGradient gradient(op, {g});
    for (int index : op.def().differentiable_inputs) {
      ASSERT_TRUE(gradient.gradients.contains(index)) << index;
      Tensor* made = gradient.gradients.at(index);
      EXPECT_EQ(made->info, inputs[static_cast<std::size_t>(index)]->info) << index;
      graph.mark_output(made);
    }
    for (Tensor* output : op.outputs()) graph.mark_output(output);
    std::vector<Shape> shapes;
    for (const Tensor* output : graph.outputs()) shapes.push_back(output->shape());
    expand(graph);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      EXPECT_EQ(graph.outputs()[i]->shape(), shapes[i]) << "output " << i;
    }
  }
}

TEST(NnRegistry, EveryKindIsDocumentedAndInfers) {
  for (const OpDef* def : op_registry().all()) {
    EXPECT_FALSE(def->doc.empty()) << def->name;
    EXPECT_TRUE(def->infer) << def->name;
  }
}

}  // namespace
}  // namespace pando::nn_test
