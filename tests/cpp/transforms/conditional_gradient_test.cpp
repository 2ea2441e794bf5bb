// Gradients through conditionals and loops with a condition, run by the reference, against
// differences of the forward graph.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "pando/base/error.hpp"
#include "pando/ops/ops.hpp"
#include "pando/transforms/autodiff.hpp"
#include "pando/transforms/expand.hpp"
#include "tests/oracle/oracle.hpp"

namespace pando::testing {
namespace {

using oracle::Number;
using Numbers = std::vector<Number>;
/// Values of the inputs of a graph, in their order.
using Values = std::vector<Numbers>;

const TensorInfo kVector{DType::Float32, {3}, {}};
const TensorInfo kFlag{DType::Bool, {}, {}};

class ConditionalGradient : public ::testing::Test {
 protected:
  ConditionalGradient() { op_registry(); }

  Graph& graph(const std::string& name, const std::vector<TensorInfo>& inputs) {
    Graph& made = ir_.create_graph(name);
    for (const TensorInfo& info : inputs) made.add_input(made.unique_tensor_id("x"), info);
    return made;
  }

  static Op& conditional(Graph& in, const std::vector<Tensor*>& inputs, std::int64_t num_then,
                         Graph& then_graph, Graph& else_graph) {
    return in.create_op(op_registry().get("If"), inputs, {{"num_then_inputs", num_then}}, {},
                        {&then_graph, &else_graph});
  }

  /// outputs = (sin(x0) * x1, x0 * x0)
  Graph& sine_branch() {
    Graph& branch = graph("sine", {kVector, kVector});
    OpBuilder ops(branch, {});
    const auto& x = branch.inputs();
    branch.mark_output(ops.make("Mul", {ops.make("Sin", {x[0]}), x[1]}));
    branch.mark_output(ops.make("Mul", {x[0], x[0]}));
    return branch;
  }

  /// outputs = (exp(x0), x1)
  Graph& exponential_branch() {
    Graph& branch = graph("exponential", {kVector, kVector});
    branch.mark_output(OpBuilder(branch, {}).make("Exp", {branch.inputs()[0]}));
    branch.mark_output(branch.inputs()[1]);
    return branch;
  }

  Tensor* stream(const TensorInfo& info, StreamDirection direction, const std::string& name) {
    Graph& main = ir_.main_graph();
    Tensor* handle = main.add_stream(main.unique_tensor_id(name), info);
    ir_.add_stream(*handle, direction);
    return handle;
  }

  Tensor* load(const TensorInfo& info, std::vector<std::string>& ids) {
    Tensor* handle = stream(info, StreamDirection::HostToDevice, "in");
    ids.push_back(handle->id());
    OpBuilder ops(ir_.main_graph(), {});
    Tensor* init = ops.make(
        "Init", {},
        {{"shape", Ints(info.shape)}, {"dtype", info.dtype}, {"init_type", std::string("undef")}});
    return ops.make("HostLoad", {init}, {{"stream", handle->id()}});
  }

  void store(Tensor* tensor, std::vector<std::string>& ids) {
    Tensor* handle = stream(tensor->info, StreamDirection::DeviceToHost, "out");
    ids.push_back(handle->id());
    OpBuilder(ir_.main_graph(), {}).op("HostStore", {tensor}, {{"stream", handle->id()}});
  }

  /// The main graph: `forward` and its gradient with respect to `required`, called.
  void build_main(Graph& forward, const std::vector<Tensor*>& required) {
    const std::size_t num_outputs = forward.outputs().size();
    const GradGraphInfo info = autodiff(forward, forward.outputs(), required).at(&forward);
    Graph& main = ir_.main_graph();
    std::map<const Tensor*, Tensor*> values, gradients;
    std::vector<Tensor*> arguments;
    for (Tensor* input : forward.inputs()) {
      arguments.push_back(values[input] = load(input->info, input_ids_));
    }
    const OpDef& call = op_registry().get("Call");
    const Op& run = main.create_op(call, arguments, {}, {}, {&forward});
    for (std::size_t i = 0; i < forward.outputs().size(); ++i) {
      Tensor* output = forward.outputs()[i];
      values[output] = run.outputs()[i];
      if (i >= num_outputs) continue;
      store(run.outputs()[i], output_ids_);
      gradients[output] = load(output->info, weight_ids_);
    }
    arguments.clear();
    for (const ExpectedConnection& expected : info.expected_inputs) {
      const bool is_value = expected.type == ConnectionType::Fwd;
      arguments.push_back((is_value ? values : gradients).at(expected.forward_tensor));
    }
    const Op& back = main.create_op(call, arguments, {}, {}, {info.gradient_graph});
    for (Tensor* gradient : back.outputs()) store(gradient, gradient_ids_);
    for (const Tensor* tensor : required) {
      const auto& inputs = forward.inputs();
      required_.push_back(static_cast<std::size_t>(std::find(inputs.begin(), inputs.end(), tensor) -
                                                   inputs.begin()));
    }
  }

  std::map<std::string, Numbers> run(const Values& inputs, const Values& weights) {
    oracle::Oracle reference(ir_, {.round_floats = false});
    for (const auto& s : ir_.streams()) {
      const auto size = static_cast<std::size_t>(s->handle->info.num_elements());
      reference.streams[s->handle->id()] = {Numbers(size)};
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      reference.streams[input_ids_[i]] = {inputs[i]};
    }
    for (std::size_t i = 0; i < weights.size(); ++i) {
      reference.streams[weight_ids_[i]] = {weights[i]};
    }
    reference.run();
    std::map<std::string, Numbers> results;
    for (const auto* ids : {&output_ids_, &gradient_ids_}) {
      for (const std::string& id : *ids) results[id] = reference.streams.at(id)[0];
    }
    return results;
  }

  Number weighted_output(const Values& inputs, const Values& weights) {
    const auto results = run(inputs, weights);
    Number sum = 0;
    for (std::size_t k = 0; k < weights.size(); ++k) {
      for (std::size_t i = 0; i < weights[k].size(); ++i) {
        sum += weights[k][i] * results.at(output_ids_[k])[i];
      }
    }
    return sum;
  }

  void expect_gradients_equal_differences(const Values& inputs) {
    Values weights;
    for (std::size_t k = 0; k < weight_ids_.size(); ++k) {
      const auto start = static_cast<Number>(k);
      weights.push_back({0.5L + start, -1.25L, 0.75L - start});
    }
    const auto results = run(inputs, weights);
    constexpr Number kStep = 1e-6L;
    ASSERT_EQ(gradient_ids_.size(), required_.size());
    for (std::size_t k = 0; k < required_.size(); ++k) {
      for (std::size_t i = 0; i < inputs[required_[k]].size(); ++i) {
        Values up = inputs, down = inputs;
        up[required_[k]][i] += kStep;
        down[required_[k]][i] -= kStep;
        const Number difference =
            (weighted_output(up, weights) - weighted_output(down, weights)) / (2 * kStep);
        EXPECT_NEAR(static_cast<double>(results.at(gradient_ids_[k])[i]),
                    static_cast<double>(difference),
                    1e-9 * std::max(1.0, std::abs(static_cast<double>(difference))))
            << "input " << required_[k] << " element " << i;
      }
    }
  }

  Ir ir_;
  std::vector<std::string> input_ids_, output_ids_, weight_ids_, gradient_ids_;
  std::vector<std::size_t> required_;
};

const Numbers kA = {0.5L, -1.5L, 2.0L};
const Numbers kB = {1.25L, 0.25L, -0.75L};
const Numbers kC = {-0.5L, 3.0L, 0.125L};
const Numbers kD = {2.5L, -2.0L, 1.0L};

TEST_F(ConditionalGradient, InputsOfTheOtherBranchGetZeros) {
  Graph& forward = graph("forward", {kFlag, kVector, kVector, kVector});
  const auto x = forward.inputs();
  const Op& branch =
      conditional(forward, {x[0], x[1], x[2], x[1], x[3]}, 2, sine_branch(), exponential_branch());
  for (Tensor* output : branch.outputs()) forward.mark_output(output);
  build_main(forward, {x[1], x[2], x[3]});
  for (const Number flag : {1.0L, 0.0L}) {
    expect_gradients_equal_differences({{flag}, kA, kB, kC});
    const Values weights(2, Numbers{1, 1, 1});
    const auto results = run({{flag}, kA, kB, kC}, weights);
    EXPECT_EQ(results.at(gradient_ids_[1]) == Numbers(3, 0), flag == 0);
    EXPECT_EQ(results.at(gradient_ids_[2]) == Numbers(3, 0), flag == 1);
  }
}

TEST_F(ConditionalGradient, HiddenConditionAndArgumentsAreExposed) {
  Graph& forward = graph("forward", {kVector, kVector, kVector});
  const auto x = forward.inputs();
  OpBuilder ops(forward, {});
  Tensor* sum = ops.make("ReduceSum", {x[0]}, {{"axes", Ints{0}}, {"keepdims", false}});
  Tensor* flag = ops.make("Greater", {sum, ops.constant(0.0, DType::Float32)});
  Tensor* scaled = ops.make("Mul", {x[0], x[1]});
  const Op& branch = conditional(forward, {flag, scaled, x[2], x[2], scaled}, 2, sine_branch(),
                                 exponential_branch());
  forward.mark_output(ops.make("Mul", {branch.output(0), scaled}));
  build_main(forward, {x[0], x[1], x[2]});
  expect_gradients_equal_differences({kA, kB, kC});
  Numbers negative = kA;
  for (Number& value : negative) value = -value;
  expect_gradients_equal_differences({negative, kB, kC});
}

TEST_F(ConditionalGradient, OneGraphAsBothBranchesAndOneTensorTwice) {
  Graph& forward = graph("forward", {kFlag, kVector, kVector});
  const auto x = forward.inputs();
  Graph& branch = sine_branch();
  const Op& op = conditional(forward, {x[0], x[1], x[1], x[1], x[2]}, 2, branch, branch);
  forward.mark_output(op.output(0));
  build_main(forward, {x[1], x[2]});
  expect_gradients_equal_differences({{1}, kA, kB});
  expect_gradients_equal_differences({{0}, kA, kB});
}

TEST_F(ConditionalGradient, ThroughNestedConditionalsAndCalls) {
  Graph& sine = sine_branch();
  Graph& calls = graph("calls", {kVector, kVector});
  const Op& call = calls.create_op(op_registry().get("Call"),
                                   {calls.inputs()[1], calls.inputs()[0]}, {}, {}, {&sine});
  calls.mark_output(call.output(1));
  calls.mark_output(OpBuilder(calls, {}).make("Tanh", {call.output(0)}));
  Graph& outer = graph("outer", {kFlag, kVector, kVector, kVector});
  const auto y = outer.inputs();
  const Op& inner =
      conditional(outer, {y[0], y[1], y[2], y[2], y[3]}, 2, calls, exponential_branch());
  for (Tensor* output : inner.outputs()) outer.mark_output(output);
  Graph& forward = graph("forward", {kFlag, kFlag, kVector, kVector, kVector, kVector});
  const auto x = forward.inputs();
  const Op& op = conditional(forward, {x[0], x[1], x[2], x[3], x[4], x[4], x[5]}, 4, outer, sine);
  for (Tensor* output : op.outputs()) forward.mark_output(output);
  build_main(forward, {x[2], x[3], x[4], x[5]});
  for (const Number first : {1.0L, 0.0L}) {
    for (const Number second : {1.0L, 0.0L}) {
      SCOPED_TRACE(static_cast<double>(2 * first + second));
      expect_gradients_equal_differences({{first}, {second}, kA, kB, kC, kD});
    }
  }
}

TEST_F(ConditionalGradient, BranchesWithoutGradientGiveZeros) {
  Graph& constant = graph("constant", {});
  OpBuilder ops(constant, {});
  constant.mark_output(ops.constant(1.0, DType::Float32, {3}));
  Graph& detached = graph("detached", {kVector});
  detached.mark_output(OpBuilder(detached, {}).make("Detach", {detached.inputs()[0]}));
  Graph& square = graph("square", {kVector});
  square.mark_output(OpBuilder(square, {}).make("Mul", {square.inputs()[0], square.inputs()[0]}));

  Graph& forward = graph("forward", {kFlag, kVector});
  const auto x = forward.inputs();
  const Op& one = conditional(forward, {x[0], x[1]}, 1, square, constant);
  forward.mark_output(one.output(0));
  build_main(forward, {x[1]});
  expect_gradients_equal_differences({{1}, kA});
  expect_gradients_equal_differences({{0}, kA});

  Graph& neither = graph("neither", {kFlag, kVector});
  const auto y = neither.inputs();
  const Op& op = conditional(neither, {y[0], y[1]}, 1, detached, constant);
  neither.mark_output(op.output(0));
  EXPECT_THROW(autodiff(neither, neither.outputs(), std::vector{y[1]}), Error);
}

/// A body that carries x and gives sin(x) * y + x / 2, where all iterations share y, as long as the
/// sum of its squares is below `limit`.
Graph& wave_body(Ir& ir, double limit) {
  Graph& body = ir.create_graph("wave");
  body.add_input(body.unique_tensor_id("iteration"), {DType::Int32, {}, {}});
  body.add_input(body.unique_tensor_id("condition"), kFlag);
  Tensor* x = body.add_input(body.unique_tensor_id("x"), kVector);
  Tensor* y = body.add_input(body.unique_tensor_id("y"), kVector);
  OpBuilder ops(body, {});
  Tensor* half = ops.make("Mul", {x, ops.constant(0.5, DType::Float32)});
  Tensor* next = ops.make("Add", {ops.make("Mul", {ops.make("Sin", {x}), y}), half});
  Tensor* squares = ops.make("ReduceSum", {ops.make("Mul", {next, next})},
                             {{"axes", Ints{0}}, {"keepdims", false}});
  body.mark_output(ops.make("Greater", {ops.constant(limit, DType::Float32), squares}));
  body.mark_output(next);
  return body;
}

Op& while_loop(Graph& in, const std::vector<Tensor*>& inputs, std::int64_t most, Graph& body) {
  std::vector<Tensor*> operands = {nullptr};
  operands.insert(operands.end(), inputs.begin(), inputs.end());
  return in.create_op(op_registry().get("While"), operands, {{"max_iterations", most}}, {},
                      {&body});
}

bool keeps_a_history(const Ir& ir) {
  for (const Graph* graph : ir.graphs()) {
    for (const Op* op : graph->ops()) {
      if (op->attributes.has("history")) return true;
    }
  }
  return false;
}

struct LoopCase {
  double limit;
  std::int64_t most;
};

class LoopGradient : public ConditionalGradient, public ::testing::WithParamInterface<LoopCase> {};

TEST_P(LoopGradient, GoesBackAsManyIterationsAsRan) {
  Graph& forward = graph("forward", {kFlag, kVector, kVector});
  const auto x = forward.inputs();
  Tensor* start = OpBuilder(forward, {}).make("Mul", {x[1], x[2]});
  Graph& body = wave_body(ir_, GetParam().limit);
  const Op& loop = while_loop(forward, {x[0], start, x[2]}, GetParam().most, body);
  forward.mark_output(loop.output(0));
  build_main(forward, {x[1], x[2]});
  for (const Number flag : {1.0L, 0.0L}) {
    expect_gradients_equal_differences({{flag}, kA, kB});
    expect_gradients_equal_differences({{flag}, kC, kD});
  }
}

TEST_P(LoopGradient, AnExpandedHistoryHoldsTheSame) {
  Graph& forward = graph("forward", {kFlag, kVector, kVector});
  const auto x = forward.inputs();
  Tensor* start = OpBuilder(forward, {}).make("Mul", {x[1], x[2]});
  Graph& body = wave_body(ir_, GetParam().limit);
  const Op& loop = while_loop(forward, {x[0], start, x[2]}, GetParam().most, body);
  forward.mark_output(loop.output(0));
  build_main(forward, {x[1], x[2]});
  const Values inputs = {{1}, kA, kB}, weights(1, Numbers{0.5L, -1.25L, 0.75L});
  const auto wanted = run(inputs, weights);
  ASSERT_EQ(keeps_a_history(ir_), GetParam().most > 0);
  for (Graph* each : ir_.graphs()) expand(*each);
  EXPECT_FALSE(keeps_a_history(ir_));
  EXPECT_EQ(run(inputs, weights), wanted);
}

INSTANTIATE_TEST_SUITE_P(Cases, LoopGradient,
                         ::testing::Values(LoopCase{0, 5}, LoopCase{4, 5}, LoopCase{1e9, 5},
                                           LoopCase{4, 1}, LoopCase{4, 0}));

/// The inner loop runs as often as its own condition says, in each iteration of the outer one.
TEST_F(ConditionalGradient, ThroughLoopsInLoopsAndBranches) {
  Graph& inner = wave_body(ir_, 3.0);
  Graph& outer = graph("outer", {{DType::Int32, {}, {}}, kFlag, kVector, kVector});
  const auto in = outer.inputs();
  OpBuilder ops(outer, {});
  const Op& waves = while_loop(outer, {in[1], ops.make("Cos", {in[2]}), in[3]}, 4, inner);
  outer.mark_output(ops.make("Greater", {ops.constant(2.0, DType::Int32), in[0]}));
  outer.mark_output(ops.make("Mul", {waves.output(0), in[2]}));
  Graph& branch = graph("branch", {kFlag, kVector, kVector});
  const auto b = branch.inputs();
  branch.mark_output(while_loop(branch, {b[0], b[1], b[2]}, 6, outer).output(0));
  branch.mark_output(b[1]);
  Graph& forward = graph("forward", {kFlag, kVector, kVector});
  const auto x = forward.inputs();
  const Op& chosen =
      conditional(forward, {x[0], x[0], x[1], x[2], x[1], x[2]}, 3, branch, exponential_branch());
  forward.mark_output(chosen.output(0));
  build_main(forward, {x[1], x[2]});
  expect_gradients_equal_differences({{1}, kA, kB});
  expect_gradients_equal_differences({{0}, kA, kB});
}

TEST_F(ConditionalGradient, ALoopWithoutABoundIsRefused) {
  Graph& forward = graph("forward", {kFlag, kVector, kVector});
  const auto x = forward.inputs();
  Op& loop = while_loop(forward, {x[0], x[1], x[2]}, 5, wave_body(ir_, 4.0));
  loop.attributes.erase("max_iterations");
  forward.mark_output(loop.output(0));
  try {
    autodiff(forward, {}, {});
    FAIL() << "wanted an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("needs max_iterations"), std::string::npos);
  }
}

}  // namespace
}  // namespace pando::testing
