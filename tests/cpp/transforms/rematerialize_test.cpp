#include "pando/transforms/rematerialize.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "pando/backends/cpu/cpu_target.hpp"
#include "pando/compile/pipeline.hpp"
#include "pando/ir/text_printer.hpp"
#include "pando/session/compiler.hpp"
#include "pando/transforms/expand.hpp"
#include "tests/cpp/fuzz/generator.hpp"
#include "tests/cpp/fuzz/harness.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

constexpr std::int64_t kLayers = 6;
const Shape kImages = {4, 16, 24, 24}, kFilters = {16, 16, 3, 3};

/// Layers of convolution, batch norm and relu, then their gradients, the last layer first.
void build_training(Ir& ir) {
  op_registry();
  Graph& main = ir.main_graph();
  OpBuilder builder(main, {});
  const auto values = [&](const Shape& shape) {
    const auto count = static_cast<std::size_t>(num_elements(shape));
    return variable(main, "v", std::vector<float>(count, 0.5F), shape);
  };
  const Attributes conv = {{"strides", Ints{1, 1}},
                           {"pads", Ints{1, 1, 1, 1}},
                           {"dilations", Ints{1, 1}},
                           {"groups", std::int64_t{1}}};
  struct Layer {
    Tensor *input, *filters, *scale;
    const Op *conv, *norm;
    Tensor* output;
  };
  std::vector<Layer> layers;
  Tensor* data = builder.make("Add", {values(kImages), values({})});
  for (std::int64_t i = 0; i < kLayers; ++i) {
    Layer layer{data, values(kFilters), values({16}), nullptr, nullptr, nullptr};
    layer.conv = &builder.op("Conv", {data, layer.filters}, conv);
    layer.norm =
        &builder.op("BatchNormalizationTraining",
                    {layer.conv->output(0), layer.scale, values({16})}, {{"epsilon", 1e-5}});
    data = layer.output = builder.make("Relu", {layer.norm->output(0)});
    layers.push_back(layer);
  }
  Tensor* gradient = builder.make("Mul", {data, data});
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    gradient = builder.make("ReluGrad", {gradient, layer->output});
    gradient =
        builder
            .op("BatchNormalizationTrainingGrad", {gradient, layer->conv->output(0), layer->scale,
                                                   layer->norm->output(1), layer->norm->output(3)})
            .output(0);
    Attributes weights = conv, images = conv;
    weights.set("weight_shape", Ints(kFilters));
    images.set("input_shape", Ints(kImages));
    store(main, builder.make("ConvWeightsGrad", {layer->input, gradient}, weights));
    gradient = builder.make("ConvDataGrad", {layer->filters, gradient}, images);
  }
}

TEST(Rematerialize, ActivationsAfterBatchNormAreNotKept) {
  Ir ir;
  build_training(ir);
  const auto target = make_cpu_target(1);
  StageTimes times;
  const Program program = compile(ir, *target, {}, times);
  // The inputs of batch norm are kept, and one layer works with a few more; not two of each layer.
  const std::int64_t activation = num_elements(kImages) * 4;
  EXPECT_LE(program.memory.peak_frame_bytes, (kLayers + 4) * activation);
}

TEST(Rematerialize, LeavesWhatIsSmallOrGainsLittle) {
  Ir ir;
  build_training(ir);
  for (Graph* graph : ir.graphs()) expand(*graph);
  const std::string before = print_ir(ir);
  rematerialize(ir.main_graph(), {.least_bytes = std::int64_t{1} << 30});
  EXPECT_EQ(print_ir(ir), before);
  rematerialize(ir.main_graph(), {.least_gain = 1.0});
  EXPECT_EQ(print_ir(ir), before);
  rematerialize(ir.main_graph(), {});
  EXPECT_NE(print_ir(ir), before);
}

// A variable that is written has another value afterwards: the op is run again before that, if it
// is after the peak.
TEST(Rematerialize, DoesNotReadWhatWasWritten) {
  enum class Write { None, BeforePeak, AfterPeak };
  for (const Write write : {Write::None, Write::BeforePeak, Write::AfterPeak}) {
    op_registry();
    Ir ir;
    Graph& main = ir.main_graph();
    OpBuilder builder(main, {});
    Tensor* v = variable(main, "v", std::vector<float>(64, 1.0F), {64});
    Tensor* early = builder.make("Relu", {v});
    store(main, builder.make("Exp", {early}));
    Op* written = nullptr;
    if (write == Write::BeforePeak) written = &builder.op("AddLhsInplace", {v, v});
    Tensor* large = builder.make("Concat", {v, v, v, v}, {{"axis", std::int64_t{0}}});
    store(main, large);
    if (write == Write::AfterPeak) written = &builder.op("AddLhsInplace", {v, v});
    Tensor* late = builder.make("Neg", {early});
    store(main, late);
    const std::size_t ops = main.ops().size();
    rematerialize(main, {.least_bytes = 0, .least_gain = 0});
    EXPECT_EQ(main.ops().size(), write == Write::BeforePeak ? ops : ops + 1);
    if (write != Write::AfterPeak) continue;
    EXPECT_EQ(late->producer()->input(0)->producer()->next(), written);
  }
}

// What is read late is a view that was made early.
TEST(Rematerialize, RepeatsViewsOfWhatItRepeats) {
  op_registry();
  Ir ir;
  Graph& main = ir.main_graph();
  OpBuilder builder(main, {});
  Tensor* v = variable(main, "v", std::vector<float>(64, 1.0F), {64});
  Tensor* early = builder.make("Relu", {v});
  Tensor* rows = builder.reshape(early, {8, 8});
  Tensor* matrices = builder.reshape(rows, {2, 4, 8});
  Tensor* unused_late = builder.reshape(early, {4, 16});
  store(main, builder.make("Exp", {unused_late}));
  store(main, builder.make("Concat", {v, v, v, v}, {{"axis", std::int64_t{0}}}));
  Tensor* negative = builder.make("Neg", {matrices});
  Tensor* positive = builder.make("Abs", {rows});
  store(main, negative);
  store(main, positive);
  const std::size_t ops = main.ops().size();
  rematerialize(main, {.least_bytes = 0, .least_gain = 0});
  EXPECT_EQ(main.ops().size(), ops + 3);
  const Tensor* repeated = positive->producer()->input(0);
  EXPECT_NE(repeated, rows);
  EXPECT_EQ(negative->producer()->input(0)->producer()->input(0), repeated);
  EXPECT_NE(repeated->producer()->input(0), early);
}

// Rows of a matrix that was turned are a copy, which costs memory and is cheap.
TEST(Rematerialize, RepeatsCopies) {
  op_registry();
  Ir ir;
  Graph& main = ir.main_graph();
  OpBuilder builder(main, {});
  Tensor* v = variable(main, "v", std::vector<float>(64, 1.0F), {4, 16});
  Tensor* rows = builder.make("Add", {v, v});
  Tensor* turned = builder.make("Transpose", {rows}, {{"permutation", Ints{1, 0}}});
  Tensor* flat = builder.reshape(turned, {64});
  store(main, builder.make("Exp", {flat}));
  store(main, builder.make("Concat", {v, v, v, v}, {{"axis", std::int64_t{0}}}));
  Tensor* late = builder.make("Neg", {flat});
  store(main, late);
  store(main, builder.make("Neg", {rows}));
  const std::size_t ops = main.ops().size();
  rematerialize(main, {.least_bytes = 0, .least_gain = 0});
  EXPECT_EQ(main.ops().size(), ops + 1);
  EXPECT_EQ(late->producer()->input(0)->producer()->input(0), turned);
  EXPECT_NE(late->producer()->input(0), flat);
}

// The statistics of a norm are small and stay; its rows are computed again.
TEST(Rematerialize, RepeatsTheFirstOfSeveralOutputs) {
  op_registry();
  Ir ir;
  Graph& main = ir.main_graph();
  OpBuilder builder(main, {});
  const Shape rows = {16, 64};
  Tensor* v = variable(main, "v", std::vector<float>(1024, 1.0F), rows);
  Tensor* w = variable(main, "w", std::vector<float>(64, 1.0F), {64});
  const Op& norm =
      builder.op("GroupNormalization", {v, w, w}, {{"num_groups", std::int64_t{1}}, {"eps", 1e-5}});
  store(main, builder.make("Exp", {norm.output(0)}));
  store(main, builder.make("Concat", {v, v, v, v}, {{"axis", std::int64_t{0}}}));
  Tensor* late = builder.make("Neg", {norm.output(0)});
  Tensor* mean = builder.make("Neg", {norm.output(1)});
  store(main, late);
  store(main, mean);
  const std::size_t ops = main.ops().size();
  rematerialize(main, {.least_bytes = 0, .least_gain = 0});
  EXPECT_EQ(main.ops().size(), ops + 1);
  EXPECT_NE(late->producer()->input(0)->producer(), &norm);
  EXPECT_EQ(mean->producer()->input(0)->producer(), &norm);
}

/// Puts a relu after every pointwise op and lets all but its last reader read that: then there is
/// much to repeat.
void add_relus(Graph& graph) {
  const std::vector<Op*> ops = graph.ops();
  std::map<const Op*, std::size_t> positions;
  for (std::size_t i = 0; i < ops.size(); ++i) positions[ops[i]] = i;
  for (Op* op : ops) {
    if (!op->def().scalar_body || op->num_outputs() != 1 || op->modifies() ||
        !is_floating_point(op->output(0)->dtype())) {
      continue;
    }
    Tensor* value = op->output(0);
    std::vector<Use> uses(value->uses().begin(), value->uses().end());
    if (uses.size() < 2) continue;
    std::sort(uses.begin(), uses.end(),
              [&](const Use& a, const Use& b) { return positions.at(a.op) < positions.at(b.op); });
    graph.set_insertion_point(op->next());
    Tensor* relu = OpBuilder(graph, op->context).make("Relu", {value});
    graph.set_insertion_point(nullptr);
    for (std::size_t i = 0; i + 1 < uses.size(); ++i) uses[i].op->set_input(uses[i].index, relu);
  }
}

/// Equal to the bit, with NaN where there was NaN.
void expect_same(const std::map<std::string, fuzz::Numbers>& a,
                 const std::map<std::string, fuzz::Numbers>& b, std::uint64_t seed) {
  for (const auto& [id, numbers] : a) {
    const fuzz::Numbers& others = b.at(id);
    ASSERT_EQ(numbers.size(), others.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      EXPECT_TRUE(numbers[i] == others[i] || (std::isnan(numbers[i]) && std::isnan(others[i])))
          << "seed " << seed << ", " << id << ", element " << i;
    }
  }
}

/// The ops that 400 random programs got, each of which gives what it gave before.
std::size_t count_repeated(const std::function<void(Graph&)>& repeat,
                           fuzz::Reference fuzz::References::*kept) {
  std::size_t repeated = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const fuzz::FuzzProgram program = fuzz::random_program(seed, seed % 2 == 0);
    for (Graph* graph : program.ir->graphs()) {
      expand(*graph);
      add_relus(*graph);
    }
    const std::vector<fuzz::NamedBytes> inputs = fuzz::random_inputs(program);
    const fuzz::Reference before = fuzz::run_reference(program, inputs).*kept;
    for (Graph* graph : program.ir->graphs()) {
      const std::size_t ops = graph->ops().size();
      repeat(*graph);
      repeated += graph->ops().size() - ops;
    }
    const fuzz::Reference after = fuzz::run_reference(program, inputs).*kept;
    for (std::size_t run = 0; run < before.outputs.size(); ++run) {
      expect_same(before.outputs[run], after.outputs[run], seed);
    }
    expect_same(before.variables, after.variables, seed);
  }
  return repeated;
}

TEST(Rematerialize, RandomProgramsGiveTheSame) {
  const auto repeat = [](Graph& graph) {
    rematerialize(graph, {.least_bytes = 0, .least_gain = 0});
  };
  EXPECT_GT(count_repeated(repeat, &fuzz::References::rounded), 50U);
}

TEST(Rematerialize, RandomProgramsThatDoNotFitGiveTheSame) {
  // All that the first half of a graph makes is taken for what is alive at the peak.
  const auto repeat = [](Graph& graph) {
    MemoryExcess excess = {.bytes = std::int64_t{1} << 40};
    const std::vector<Op*> ops = graph.ops();
    for (std::size_t i = 0; i < ops.size() / 2; ++i) {
      for (const Tensor* output : ops[i]->outputs()) excess.alive_at_peak.insert(output->id());
    }
    rematerialize(graph, {.least_bytes = 0, .excess = &excess});
  };
  // The other reference gives every sum an error of its own.
  EXPECT_GT(count_repeated(repeat, &fuzz::References::unrounded), 500U);
}

/// Layers of a matrix product and GELU, and their gradients.
void build_perceptron(Ir& ir, std::int64_t layers, std::int64_t rows, std::int64_t width) {
  op_registry();
  Graph& main = ir.main_graph();
  OpBuilder builder(main, {});
  const auto values = [&](const Shape& shape) {
    const auto count = static_cast<std::size_t>(num_elements(shape));
    return variable(main, "v", std::vector<float>(count, 0.01F), shape);
  };
  struct Layer {
    Tensor *input, *weights, *product;
  };
  std::vector<Layer> built;
  Tensor* data = builder.make("Add", {values({rows, width}), values({})});
  for (std::int64_t i = 0; i < layers; ++i) {
    Layer layer{data, values({width, 4 * width}), nullptr};
    layer.product =
        builder.make("Add", {builder.make("MatMul", {data, layer.weights}), values({4 * width})});
    Tensor* narrow = values({4 * width, width});
    data = builder.make(
        "Add", {data, builder.make("MatMul", {builder.make("Gelu", {layer.product}), narrow})});
    built.push_back(layer);
  }
  const auto turned = [&](Tensor* t) {
    return builder.make("Transpose", {t}, {{"permutation", Ints{1, 0}}});
  };
  Tensor* gradient = builder.make("Mul", {data, data});
  for (auto layer = built.rbegin(); layer != built.rend(); ++layer) {
    Tensor* wide = builder.make("MatMul", {gradient, values({width, 4 * width})});
    wide = builder.make("GeluGrad", {wide, layer->product});
    store(main, builder.make("MatMul", {turned(layer->input), wide}));
    gradient =
        builder.make("Add", {gradient, builder.make("MatMul", {wide, turned(layer->weights)})});
  }
}

TEST(Rematerialize, ProductsAreRepeatedUntilTheProgramFits) {
  constexpr std::int64_t kHidden = 8, kRows = 256, kWidth = 64;
  Ir ir;
  build_perceptron(ir, kHidden, kRows, kWidth);
  std::ptrdiff_t products = 0;
  const auto frame_within = [&](std::int64_t limit) {
    CompilerOptions options;
    options.memory_limit_bytes = limit;
    options.after_stage = [&](const std::string&, const Ir& compiled) {
      const std::vector<Op*>& ops = compiled.main_graph().ops();
      products = std::count_if(ops.begin(), ops.end(),
                               [](const Op* op) { return op->kind_name() == "MatMul"; });
    };
    CompileReport report;
    const Compiler compiler(make_cpu_target(1), options);
    return compiler.compile(ir, report)->program().memory.peak_frame_bytes;
  };
  frame_within(0);
  const std::ptrdiff_t before = products;
  // A target may prepare weights, which programs over their limits give up before anything else.
  CompileOptions plain;
  plain.prepares_weights = false;
  StageTimes stages;
  const MemoryReport plain_memory = compile(*ir.clone(), *make_cpu_target(1), plain, stages).memory;
  const std::int64_t weights = plain_memory.persistent_bytes, peak = plain_memory.peak_frame_bytes;
  const std::int64_t activation = kRows * 4 * kWidth * 4;
  EXPECT_LE(frame_within(weights + peak - 3 * activation), peak - 3 * activation);
  EXPECT_EQ(products, before + 3);
  // All but those of the last layers, which the peak has at once.
  EXPECT_LE(frame_within(weights + peak - 6 * activation), peak - 6 * activation);
  EXPECT_THROW(frame_within(weights + activation), OutOfMemory);
}

}  // namespace
}  // namespace pando::testing
