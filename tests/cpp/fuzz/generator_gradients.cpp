// Random graphs of differentiable ops, and their gradients.
#include <algorithm>
#include <cmath>
#include <set>

#include "pando/transforms/autodiff.hpp"
#include "tests/cpp/fuzz/generator.hpp"

namespace pando::fuzz {
namespace {

/// What nobody keeps track of: gradients are clipped.
constexpr double kUnknownBound = 1e4;

/// The inputs of a graph that some of these results depend on.
std::vector<Tensor*> reached_inputs(const Graph& graph, const std::vector<Tensor*>& results) {
  std::set<const Tensor*> needed(results.begin(), results.end());
  const std::vector<Op*>& ops = graph.ops();
  for (auto it = ops.rbegin(); it != ops.rend(); ++it) {
    const std::vector<Tensor*>& outputs = (*it)->outputs();
    const bool is_needed = std::any_of(outputs.begin(), outputs.end(),
                                       [&](const Tensor* t) { return needed.contains(t); });
    if (is_needed) needed.insert((*it)->inputs().begin(), (*it)->inputs().end());
  }
  std::vector<Tensor*> inputs;
  for (Tensor* input : graph.inputs()) {
    if (needed.contains(input)) inputs.push_back(input);
  }
  return inputs;
}

std::vector<Slot> slots_of(const std::vector<Tensor*>& tensors) {
  std::vector<Slot> slots;
  for (const Tensor* tensor : tensors) slots.push_back({tensor->dtype(), tensor->shape(), false});
  return slots;
}

}  // namespace

void GraphGenerator::add_differentiable_ops(int count) {
  const auto limit = static_cast<std::size_t>(count) + graph_.ops().size();
  while (graph_.ops().size() < limit) {
    drop_large();
    differentiable_op();
  }
}

/// Nothing whose slope jumps where two values are close: rounding would choose the side.
void GraphGenerator::differentiable_op() {
  const Candidate x = clipped(choose(pool_), kEntryBound);
  switch (pick(6)) {
    case 0:
      return view_op();
    case 1:
      return join_op();
    case 2:
      return normalise_op();
    case 3:
      return matmul_op();
    case 4:
      return differentiable_unary_op(x);
    default:
      return differentiable_binary_op(x);
  }
}

void GraphGenerator::differentiable_unary_op(const Candidate& x) {
  const Shape& shape = x.tensor->shape();
  static const std::vector<std::string> kSmooth = {
      "Sin", "Cos", "Tanh", "Gelu", "GeluErf", "Swish", "Sigmoid", "Neg", "Atan", "Erf", "Erfc"};
  static const std::vector<std::string> kReductions = {"ReduceSum", "ReduceMean", "ReduceSumSquare",
                                                       "ReduceLogSumExp"};
  if (shape.empty() || flip()) {
    bounded(op(choose(kSmooth), {x.tensor}).output(0), {false, kEntryBound});
    return;
  }
  const std::int64_t axis = pick(static_cast<int>(shape.size()));
  const auto size = static_cast<double>(shape[static_cast<std::size_t>(axis)]);
  switch (pick(3)) {
    case 0:
      bounded(op("CumSum", {x.tensor}, {{"axis", axis}, {"reverse", flip()}}).output(0),
              {false, kEntryBound * size});
      return;
    case 1: {
      Tensor* indices = random_indices(shape[static_cast<std::size_t>(axis)]);
      bounded(op("Gather", {x.tensor, indices}, {{"axis", axis}}).output(0), {false, kEntryBound});
      return;
    }
    default:
      bounded(op(choose(kReductions), {x.tensor}, {{"axes", Ints{axis}}, {"keepdims", flip()}})
                  .output(0),
              {false, kEntryBound * kEntryBound * size + 8.0});
  }
}

void GraphGenerator::differentiable_binary_op(const Candidate& x) {
  const auto partners = where([&](const Candidate& c) {
    const auto shape = broadcast_shapes(c.tensor->shape(), x.tensor->shape());
    return shape && num_elements(*shape) <= 600;
  });
  const Candidate y = clipped(choose(partners), kEntryBound);
  std::vector<Tensor*> operands = {x.tensor, y.tensor};
  if (flip()) std::swap(operands[0], operands[1]);
  static const std::vector<std::string> kKinds = {"Add", "Sub", "Mul", "Where", "Div", "Pow"};
  const std::string& kind = choose(kKinds);
  const double square = kEntryBound * kEntryBound;
  if (kind == "Where") {
    operands.insert(operands.begin(), constant(DType::Bool, x.tensor->shape(), true));
  } else if (kind == "Div") {
    operands[1] = op("Exp", {op("Tanh", {operands[1]}).output(0)}).output(0);
  } else if (kind == "Pow") {
    operands[1] = builder_.constant(flip() ? 2.0 : 3.0, DType::Float32);
  }
  bounded(op(kind, operands).output(0), {false, kind == "Pow" ? square * kEntryBound : square});
}

/// Results of ops, and inputs or one result twice where graphs may return those.
std::vector<Tensor*> GraphGenerator::chosen_results(int count) {
  const std::vector<Tensor*>& inputs = graph_.inputs();
  std::vector<Tensor*> results;
  for (int i = 0; i < count; ++i) {
    Tensor* result = choose(pool_).tensor;
    const bool is_input = std::find(inputs.begin(), inputs.end(), result) != inputs.end();
    const bool is_known = std::find(results.begin(), results.end(), result) != results.end();
    if ((!is_input && !is_known) || is_on(Family::GradientOutputs)) results.push_back(result);
  }
  if (results.empty()) results.push_back(op("Sin", {choose(pool_).tensor}).output(0));
  return results;
}

void GraphGenerator::gradient_op() {
  if (site_.depth >= kMaxDepth || program_.differentiated.size() > 4) return unary_op();
  std::vector<Slot> slots;
  for (int i = pick(3); i >= 0; --i) slots.push_back({DType::Float32, random_shape(), false});
  Graph& forward = program_.ir->create_graph("forward");
  GraphGenerator generator(program_, random_, forward, {site_.depth + 1, site_.stage, false});
  generator.add_inputs(slots);
  generator.add_differentiable_ops(2 + pick(8));
  const std::vector<Tensor*> results = generator.chosen_results(1 + pick(3));
  forward.set_outputs(results);
  const GradGraphInfo info =
      autodiff(forward, results, reached_inputs(forward, results)).at(&forward);

  std::vector<Tensor*> arguments, gradients;
  for (const Slot& slot : slots) arguments.push_back(of_slot(slot, false).tensor);
  const Op& call = op("Call", arguments, {}, {&forward});
  for (const ExpectedConnection& expected : info.expected_inputs) {
    const Tensor* tensor = expected.forward_tensor;
    if (expected.type == ConnectionType::FwdGrad) {
      gradients.push_back(of_slot({tensor->dtype(), tensor->shape(), false}, false).tensor);
      continue;
    }
    const auto input = std::find(forward.inputs().begin(), forward.inputs().end(), tensor);
    const auto output = std::find(forward.outputs().begin(), forward.outputs().end(), tensor);
    gradients.push_back(
        input != forward.inputs().end()
            ? arguments[static_cast<std::size_t>(input - forward.inputs().begin())]
            : call.outputs()[static_cast<std::size_t>(output - forward.outputs().begin())]);
  }
  const Op& back = op("Call", gradients, {}, {info.gradient_graph});
  for (const Op* made : {&call, &back}) {
    for (Tensor* output : made->outputs()) bounded(output, {false, kUnknownBound});
  }
  program_.differentiated.push_back({&forward, slots, {}, site_});
  program_.differentiated.push_back(
      {info.gradient_graph, slots_of(info.gradient_graph->inputs()), {}, site_});
}

}  // namespace pando::fuzz
