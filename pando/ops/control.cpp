// Ops that run other graphs. Their gradients are made by autodiff itself.
#include <algorithm>
#include <numeric>

#include "pando/ir/loop_arguments.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

/// Op inputs first, first + 1, ... must match callee inputs skip, skip + 1, ... Those that are not
/// connected yet are not looked at: compile() refuses them.
void check_arguments(const Op& op, const Graph& callee, int first, int count, int skip) {
  const auto expected = static_cast<int>(callee.inputs().size()) - skip;
  if (count != expected) {
    wrong_input(op,
                str_cat("wanted ", expected, " inputs for graph '", callee.id(), "', got ", count));
  }
  for (int i = 0; i < count; ++i) {
    if (op.input(first + i) == nullptr) continue;
    const TensorInfo& given = input_info(op, first + i);
    const auto at = static_cast<std::size_t>(skip) + static_cast<std::size_t>(i);
    const Tensor* wanted = callee.inputs()[at];
    if (given.dtype == wanted->dtype() && given.shape == wanted->shape()) continue;
    throw Error(str_cat(op.kind_name(), "Op input (@", first + i,
                        ") does not match callee input tensor '", wanted->id(), "': wanted ",
                        info_text(wanted->info), ", given '", op.input(first + i)->name(), "' ",
                        info_text(given), " in ", describe(op)));
  }
}

std::vector<TensorInfo> infos_of(const std::vector<Tensor*>& tensors, std::size_t first) {
  std::vector<TensorInfo> infos;
  for (std::size_t i = first; i < tensors.size(); ++i) infos.push_back(tensors[i]->info);
  return infos;
}

/// Attribute "modified", and the inputs whose callee input is by reference.
InputSet modified_arguments(const Op& op) {
  InputSet result;
  if (const AttributeValue* modified = op.attributes.find("modified")) {
    for (std::int64_t index : std::get<Ints>(*modified)) result.insert(static_cast<int>(index));
  }
  int index = 0;
  for (const Tensor* input : op.called_graphs[0]->inputs()) {
    if (input->is_by_ref()) result.insert(index);
    ++index;
  }
  return result;
}

void check_modified(const Op& op) {
  if (!op.attributes.has("modified")) return;
  for (std::int64_t index : op.attributes.ints("modified")) {
    if (index < 0 || index >= op.num_inputs() || op.input(static_cast<int>(index)) == nullptr) {
      wrong_input(op, str_cat("input ", index, " is marked modified but is not connected"));
    }
  }
}

std::vector<TensorInfo> infer_call(const Op& op) {
  const Graph& callee = *op.called_graphs[0];
  check_arguments(op, callee, 0, op.num_inputs(), 0);
  check_modified(op);
  return infos_of(callee.outputs(), 0);
}

constexpr int kConditionInput = 1;

void check_loop_header(const Op& op, const Graph& wrapper) {
  const auto is_scalar = [](const Tensor* t, DType dtype) {
    return t->shape().empty() && t->dtype() == dtype;
  };
  const bool valid = wrapper.inputs().size() >= kLoopControlInputs && !wrapper.outputs().empty() &&
                     is_scalar(wrapper.inputs()[0], DType::Int32) &&
                     is_scalar(wrapper.inputs()[1], DType::Bool) &&
                     is_scalar(wrapper.outputs()[0], DType::Bool);
  if (!valid) {
    throw InternalError(str_cat(describe(op), ": graph '", wrapper.id(),
                                "' does not have the form of a loop body"));
  }
}

/// What loops have in common: the form of the body and what it takes and gives.
void check_loop(const Op& op) {
  const Graph& wrapper = *op.called_graphs[0];
  check_loop_header(op, wrapper);
  check_arguments(op, wrapper, kLoopControlInputs,
                  std::max(op.num_inputs() - kLoopControlInputs, 0), kLoopControlInputs);
  check_modified(op);
  for (std::size_t i = 1; i < wrapper.outputs().size(); ++i) {
    const std::size_t carried = i - 1 + kLoopControlInputs;
    if (carried >= wrapper.inputs().size()) {
      throw Error(str_cat(describe(op), ": output ", i - 1, " of graph '", wrapper.id(),
                          "' has no input to be carried to"));
    }
    const TensorInfo& next = wrapper.outputs()[i]->info;
    const TensorInfo& input = wrapper.inputs()[carried]->info;
    if (next.shape == input.shape && next.dtype == input.dtype) continue;
    throw Error(str_cat(describe(op), ": output ", i - 1, " ", info_text(next),
                        " is carried to input '", wrapper.inputs()[carried]->name(), "' ",
                        info_text(input), ": wanted equal shapes and dtypes"));
  }
}

std::vector<TensorInfo> infer_loop(const Op& op) {
  const std::int64_t count = op.attributes.integer("trip_count");
  if (count < 0) throw ValueError(str_cat("Repeat count must be >= 0. Provided ", count));
  check_loop(op);
  return infos_of(op.called_graphs[0]->outputs(), 1);
}

bool is_bounded(const Op& op) { return op.attributes.has("max_iterations"); }

/// What the loop keeps of a carried value: a row per iteration.
TensorInfo history_info(const TensorInfo& carried, std::int64_t rows) {
  Shape shape = carried.shape;
  shape.insert(shape.begin(), rows);
  return {carried.dtype, std::move(shape), {}};
}

std::vector<TensorInfo> infer_while(const Op& op) {
  check_loop(op);
  const std::vector<Tensor*>& outputs = op.called_graphs[0]->outputs();
  const auto carried = static_cast<int>(outputs.size()) - 1;
  require_shape(op, kConditionInput, {});
  require_bool(op, kConditionInput);
  if (is_bounded(op) && op.attributes.integer("max_iterations") < 0) {
    throw ValueError(str_cat(describe(op), ": max_iterations must be >= 0, given ",
                             op.attributes.integer("max_iterations")));
  }
  for (const int index : modified_arguments(op)) {
    if (index >= kLoopControlInputs + carried) continue;
    throw NotSupported(str_cat(describe(op), ": input ", index, " of graph '",
                               op.called_graphs[0]->id(),
                               "' is carried to the next iteration and taken by reference: give "
                               "its value as an output, or carry another one"));
  }
  std::vector<TensorInfo> infos = infos_of(outputs, 1);
  if (!op.attributes.has("history")) return infos;
  if (op.attributes.integer_or("max_iterations", 0) < 1) {
    wrong_input(op, "wanted max_iterations of 1 or more, as attribute history needs");
  }
  infos.push_back({DType::Int32, {}, {}});
  for (const std::int64_t k : op.attributes.ints("history")) {
    if (k < 0 || k >= carried)
      wrong_input(op, str_cat("there is no carried value ", k, " for history"));
    infos.push_back(
        history_info(infos[static_cast<std::size_t>(k)], op.attributes.integer("max_iterations")));
  }
  return infos;
}

/// The body of a loop that keeps a history: it stores what it gets in the rows that it takes last,
/// and counts its iterations in the value that it carries last.
Graph& recording_body(const Op& op, const std::vector<Tensor*>& rows) {
  Graph& body = *op.called_graphs[0];
  Graph& graph = body.ir().create_graph(body.id() + "_recording");
  const auto carried = body.outputs().size() - 1;
  const auto add_inputs = [&](std::size_t first, std::size_t end) {
    std::vector<Tensor*> added;
    for (std::size_t i = first; i < end; ++i) {
      const Tensor* like = body.inputs()[i];
      const std::string id = graph.unique_tensor_id(like->name());
      added.push_back(graph.add_input(id, like->info, like->is_by_ref()));
    }
    return added;
  };
  std::vector<Tensor*> arguments = add_inputs(0, kLoopControlInputs + carried);
  graph.add_input(graph.unique_tensor_id("count"), {DType::Int32, {}, {}});
  for (Tensor* other : add_inputs(kLoopControlInputs + carried, body.inputs().size())) {
    arguments.push_back(other);
  }
  OpBuilder builder(graph, op.context);
  const Ints& kept = op.attributes.ints("history");
  for (std::size_t i = 0; i < kept.size(); ++i) {
    Tensor* all = graph.add_input(graph.unique_tensor_id("history"), rows[i]->info, true);
    Tensor* value = arguments[static_cast<std::size_t>(kLoopControlInputs + kept[i])];
    Shape row = value->shape();
    row.insert(row.begin(), 1);
    builder.make("DynamicUpdateInplace", {all, arguments[0], builder.reshape(value, row)},
                 {{"axes", Ints{0}}, {"sizes", Ints{1}}});
  }
  Ints modified;
  for (std::size_t i = 0; i < body.inputs().size(); ++i) {
    if (body.inputs()[i]->is_by_ref()) modified.push_back(static_cast<std::int64_t>(i));
  }
  const Op& call = graph.create_op(Registry::instance().get("Call"), arguments,
                                   {{"modified", modified}}, op.context, {&body});
  std::vector<Tensor*> outputs = call.outputs();
  outputs.push_back(
      builder.make("Add", {arguments[0], builder.constant(1, DType::Int32)}, {}, "count"));
  graph.set_outputs(std::move(outputs));
  return graph;
}

/// A loop with a history is one whose body writes it.
std::vector<Tensor*> expand_while(OpBuilder& builder, const Op& op) {
  if (!op.attributes.has("history")) return {};
  const auto carried = op.called_graphs[0]->outputs().size() - 1;
  std::vector<Tensor*> rows;
  for (std::size_t i = carried + 1; i < op.outputs().size(); ++i) {
    const TensorInfo& info = op.outputs()[i]->info;
    rows.push_back(builder.make(
        "Init", {},
        {{"shape", info.shape}, {"dtype", info.dtype}, {"init_type", std::string("undef")}}));
  }
  Graph& body = recording_body(op, rows);
  std::vector<Tensor*> inputs = op.inputs();
  inputs.insert(inputs.begin() + static_cast<std::ptrdiff_t>(kLoopControlInputs + carried),
                builder.constant(0, DType::Int32));
  inputs.insert(inputs.end(), rows.begin(), rows.end());
  Attributes attributes = op.attributes;
  attributes.erase("history");
  if (attributes.has("modified")) {
    Ints modified = attributes.ints("modified");
    for (std::int64_t& index : modified) ++index;  // behind the count
    attributes.set("modified", modified);
  }
  Op& loop =
      builder.graph().create_op(op.def(), inputs, std::move(attributes), op.context, {&body});
  std::vector<Tensor*> results = loop.outputs();
  results.insert(results.end(), rows.begin(), rows.end());
  return results;
}

std::vector<TensorInfo> infer_if(const Op& op) {
  require_one_element(op, 0);
  const Graph& then_graph = *op.called_graphs[0];
  const Graph& else_graph = *op.called_graphs[1];
  const auto num_then = static_cast<int>(op.attributes.integer("num_then_inputs"));
  check_arguments(op, then_graph, 1, num_then, 0);
  check_arguments(op, else_graph, 1 + num_then, op.num_inputs() - 1 - num_then, 0);
  if (then_graph.outputs().size() != else_graph.outputs().size()) {
    throw ValueError(str_cat(describe(op), ": the branches have ", then_graph.outputs().size(),
                             " and ", else_graph.outputs().size(),
                             " outputs: wanted equally many"));
  }
  for (std::size_t i = 0; i < then_graph.outputs().size(); ++i) {
    const TensorInfo& a = then_graph.outputs()[i]->info;
    const TensorInfo& b = else_graph.outputs()[i]->info;
    if (a.shape == b.shape && a.dtype == b.dtype) continue;
    throw Error(str_cat(describe(op), ": output ", i, " is ", info_text(a), " in graph '",
                        then_graph.id(), "' and ", info_text(b), " in graph '", else_graph.id(),
                        "': wanted equal shapes and dtypes"));
  }
  return infos_of(then_graph.outputs(), 0);
}

}  // namespace

void register_control_ops(Registry& registry) {
  registry.add({.name = "Call",
                .doc =
                    "Runs the called graph. Inputs and outputs are those of the graph, in order. "
                    "Inputs in attribute modified, and by-reference inputs, are written back.",
                .min_inputs = 0,
                .max_inputs = -1,
                .attributes = {optional(ints_attribute("modified"))},
                .infer = infer_call,
                .modified_inputs = modified_arguments,
                .num_called_graphs = 1,
                .is_call = true,
                .differentiates_callees = true});
  registry.add(
      {.name = "Loop",
       .doc = "Runs the called graph attribute trip_count times. Its inputs are the "
              "iteration (int32), a condition (bool) and inputs 2.. of the op; its outputs "
              "the condition and the values carried to inputs 2.. of the next iteration, "
              "which are the outputs of the op. Inputs 0 and 1 are not connected. Inputs "
              "in attribute modified, and by-reference inputs, are written back.",
       .min_inputs = 0,
       .max_inputs = -1,
       .attributes = {integer_attribute("trip_count"), optional(ints_attribute("modified"))},
       .infer = infer_loop,
       .modified_inputs = modified_arguments,
       .num_called_graphs = 1,
       .is_loop = true});
  registry.add(
      {.name = "While",
       .doc = "Runs the called graph while its condition is true: input 1 (bool scalar) says so "
              "before the first iteration, output 0 of the graph before each other one. Attribute "
              "max_iterations: the most iterations; not given: any number. Inputs and outputs are "
              "those of Loop; what is carried is passed by value. With attribute history (carried "
              "values by number) more outputs follow: the number of iterations (int32), and for "
              "each of those values a row per iteration of what it got, max_iterations of them; "
              "rows of iterations that did not run are undefined. Gradients need max_iterations.",
       .min_inputs = kLoopControlInputs,
       .max_inputs = -1,
       .attributes = {optional(integer_attribute("max_iterations")),
                      optional(ints_attribute("history")), optional(ints_attribute("modified"))},
       .infer = infer_while,
       .modified_inputs = modified_arguments,
       .expand = expand_while,
       .num_called_graphs = 1,
       .is_loop = true,
       .differentiates_callees = true});
  registry.add({.name = "If",
                .doc =
                    "Runs the first called graph if input 0 (bool, one element) is true, else the "
                    "second. Inputs 1.. are those of the first graph (attribute num_then_inputs "
                    "of them), then those of the second.",
                .max_inputs = -1,
                .attributes = {integer_attribute("num_then_inputs")},
                .infer = infer_if,
                .check_execution = [](const Op& op) { require_bool(op, 0); },
                .num_called_graphs = 2,
                .differentiates_callees = true});
}

}  // namespace pando
