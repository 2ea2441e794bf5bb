// Random calls, loops and conditionals.
#include <algorithm>

#include "tests/cpp/fuzz/generator.hpp"

namespace pando::fuzz {

void GraphGenerator::control_op() {
  if (site_.depth >= kMaxDepth || program_.bodies.size() > 12) return unary_op();
  switch (pick(4)) {
    case 0:
      return repeat_op();
    case 1:
      return if_op();
    default:
      return call_op();
  }
}

/// Adds slots that are equal to others, so that one tensor may be returned for both.
void GraphGenerator::repeat_some(std::vector<Slot>& slots) {
  if (!is_on(Family::Outputs) || !flip(0.4)) return;
  for (int i = pick(2); i >= 0; --i) {
    const Slot slot = choose(slots);
    slots.push_back(slot);
  }
}

/// Perhaps one of the other outputs, or an input as it is.
Tensor* GraphGenerator::output_of_slot(const Slot& slot, const std::vector<Tensor*>& others) {
  if (!is_on(Family::Outputs) || flip(0.4)) return coerced(slot).tensor;
  const std::vector<Tensor*>& inputs = graph_.inputs();
  const auto fitting = where([&](const Candidate& c) {
    const bool is_known = std::find(others.begin(), others.end(), c.tensor) != others.end() ||
                          std::find(inputs.begin(), inputs.end(), c.tensor) != inputs.end();
    return is_known && c.tensor->dtype() == slot.dtype && c.tensor->shape() == slot.shape &&
           class_of(c).bound <= kEntryBound && (class_of(c).exact || !slot.exact);
  });
  return fitting.empty() ? coerced(slot).tensor : choose(fitting).tensor;
}

Body GraphGenerator::new_body(const std::vector<Slot>& inputs, const std::vector<Slot>& outputs,
                              bool together) {
  Graph& graph = program_.ir->create_graph("body");
  const Site site{site_.depth + 1, site_.stage, site_.together && together};
  GraphGenerator generator(program_, random_, graph, site);
  generator.add_inputs(inputs);
  generator.add_random_ops(2 + pick(14));
  generator.settle();
  generator.set_outputs(outputs);
  exchanges_ = exchanges_ || generator.exchanges();
  program_.bodies.push_back({&graph, inputs, outputs, site, generator.exchanges()});
  return program_.bodies.back();
}

/// Arguments of a call: by-reference ones are writable and lie in storages of their own.
std::vector<Tensor*> GraphGenerator::arguments_of(const Body& body,
                                                  std::vector<Candidate>& chosen) {
  std::vector<int> written;
  std::vector<Tensor*> tensors;
  for (const Slot& slot : body.inputs) {
    Candidate argument = of_slot(slot, slot.by_ref);
    if (slot.by_ref) {
      if (std::find(written.begin(), written.end(), argument.storage) != written.end()) {
        argument = load(slot.dtype, slot.shape, slot.exact);
      }
      written.push_back(argument.storage);
    }
    chosen.push_back(argument);
    tensors.push_back(argument.tensor);
  }
  return tensors;
}

void GraphGenerator::finish_call(const Op& call, const Body& body,
                                 const std::vector<Candidate>& arguments) {
  for (std::size_t i = 0; i < body.inputs.size(); ++i) {
    if (!body.inputs[i].by_ref) continue;
    double& bound = storages_[static_cast<std::size_t>(arguments[i].storage)].bound;
    bound = std::max(bound, kEntryBound);
  }
  for (std::size_t i = 0; i < body.outputs.size(); ++i) {
    add(call.outputs()[i], {body.outputs[i].exact, kEntryBound});
  }
}

namespace {

/// Inputs that the callee writes back, at op input indices. The flag of the graph input alone is
/// enough; call sites of the Python front end also list them.
void mark_modified(Attributes& attributes, const Body& body, int first) {
  Ints modified;
  for (std::size_t i = 0; i < body.inputs.size(); ++i) {
    if (body.inputs[i].by_ref) modified.push_back(first + static_cast<std::int64_t>(i));
  }
  if (!modified.empty()) attributes.set("modified", modified);
}

}  // namespace

void GraphGenerator::call_op() {
  // Only finished bodies are listed, so there is no recursion.
  std::vector<Body> known;
  std::copy_if(program_.bodies.begin(), program_.bodies.end(), std::back_inserter(known),
               [&](const Body& body) {
                 return body.site.stage == site_.stage && (site_.together || !body.exchanges);
               });
  Body body;
  if (flip() && !known.empty()) {
    body = choose(known);
    exchanges_ = exchanges_ || body.exchanges;
  }
  if (body.graph == nullptr) {
    std::vector<Slot> inputs, outputs;
    for (int i = pick(4); i >= 0; --i) {
      inputs.push_back(random_slot());
      inputs.back().by_ref = flip(0.35);
    }
    for (int i = pick(3); i >= 0; --i) outputs.push_back(random_slot());
    if (is_on(Family::Outputs) && flip(0.4)) {
      outputs.push_back(choose(inputs));
      outputs.back().by_ref = false;
    }
    repeat_some(outputs);
    body = new_body(inputs, outputs, true);
  }
  std::vector<Candidate> arguments;
  const std::vector<Tensor*> tensors = arguments_of(body, arguments);
  call(body, tensors, arguments);
}

void GraphGenerator::call(const Body& body, const std::vector<Tensor*>& tensors,
                          const std::vector<Candidate>& arguments) {
  Attributes attributes;
  if (flip()) mark_modified(attributes, body, 0);
  finish_call(op("Call", tensors, attributes, {body.graph}), body, arguments);
}

void GraphGenerator::repeat_op() {
  std::vector<Slot> carried, inputs;
  for (int i = pick(3); i >= 0; --i) carried.push_back(random_slot());
  repeat_some(carried);
  const bool is_while = is_on(Family::Whiles) && flip();
  // What the body makes of it says whether there is another iteration.
  if (is_while) carried.push_back({DType::Bool, {}, true});
  inputs = carried;
  for (Slot& slot : inputs) slot.by_ref = !is_while && flip(0.15);
  for (int i = pick(3); i > 0; --i) {
    inputs.push_back(random_slot());
    inputs.back().by_ref = flip();
  }
  loop(inputs, carried, {}, is_while);
}

void GraphGenerator::loop(const std::vector<Slot>& inputs, const std::vector<Slot>& carried,
                          std::vector<Candidate> arguments, bool is_while) {
  // Replicas end a loop by themselves: they do not meet in it.
  const Body body = new_body(inputs, carried, !is_while);
  std::vector<Tensor*> tensors;
  if (arguments.empty()) {
    tensors = arguments_of(body, arguments);
  } else {
    for (const Candidate& argument : arguments) tensors.push_back(argument.tensor);
  }
  Graph& wrapper = program_.ir->create_graph("loop_wrapper");
  wrapper.add_input(wrapper.unique_tensor_id("Iterator___"), {DType::Int32, {}, {}});
  Tensor* condition =
      wrapper.add_input(wrapper.unique_tensor_id("LoopCond___"), {DType::Bool, {}, {}});
  std::vector<Tensor*> inner;
  for (const Slot& slot : inputs) {
    inner.push_back(
        wrapper.add_input(wrapper.unique_tensor_id("in"), {slot.dtype, slot.shape, {}}));
  }
  Attributes call_attributes;
  mark_modified(call_attributes, body, 0);
  OpContext context;
  context.device = site_.stage % kPipelineDevices;
  const Op& call = wrapper.create_op(Registry::instance().get("Call"), inner, call_attributes,
                                     context, {body.graph});
  wrapper.mark_output(is_while ? call.output(static_cast<int>(carried.size()) - 1) : condition);
  for (Tensor* output : call.outputs()) wrapper.mark_output(output);

  tensors.insert(tensors.begin(), 2, nullptr);
  if (is_while) tensors[1] = tensors[1 + carried.size()];
  Attributes attributes = {{is_while ? "max_iterations" : "trip_count", std::int64_t{pick(5)}}};
  mark_modified(attributes, body, 2);
  finish_call(op(is_while ? "While" : "Loop", tensors, attributes, {&wrapper}), body, arguments);
}

void GraphGenerator::if_op() {
  const auto flags = where([](const Candidate& c) {
    return c.tensor->dtype() == DType::Bool && c.tensor->info.num_elements() == 1;
  });
  const Candidate condition =
      flags.empty() || flip(0.3) ? load(DType::Bool, {}, true) : choose(flags);
  std::vector<Slot> outputs;
  for (int i = pick(2); i >= 0; --i) outputs.push_back(random_slot());
  repeat_some(outputs);
  std::vector<Tensor*> tensors = {condition.tensor};
  std::vector<Graph*> graphs;
  std::int64_t num_then = 0;
  Body last;
  for (int branch = 0; branch < 2; ++branch) {
    std::vector<Slot> inputs;
    for (int i = pick(3); i >= 0; --i) inputs.push_back(random_slot());
    last = new_body(inputs, outputs, false);
    graphs.push_back(last.graph);
    std::vector<Candidate> arguments;
    const std::vector<Tensor*> added = arguments_of(last, arguments);
    tensors.insert(tensors.end(), added.begin(), added.end());
    if (branch == 0) num_then = static_cast<std::int64_t>(added.size());
  }
  Op& made = op("If", tensors, {{"num_then_inputs", num_then}}, graphs);
  last.inputs.clear();
  finish_call(made, last, {});
}

}  // namespace pando::fuzz
