#include "pando/transforms/graph_calls.hpp"

#include <set>

#include "pando/base/error.hpp"
#include "pando/ir/loop_arguments.hpp"
#include "pando/transforms/dependencies.hpp"

namespace pando {
namespace {

/// Indices, from `first` on, of the by-reference inputs of `graph` after the first `skip`.
Ints by_ref_indices(const Graph& graph, std::size_t skip) {
  Ints result;
  for (std::size_t i = skip; i < graph.inputs().size(); ++i) {
    if (graph.inputs()[i]->is_by_ref()) result.push_back(static_cast<std::int64_t>(i));
  }
  return result;
}

OpContext named(const OpContext& context, const std::string& name) {
  OpContext result = context;
  result.name = context.name.empty() ? name : str_cat(context.name, "/", name);
  return result;
}

}  // namespace

std::vector<std::string> names_of(const std::vector<Tensor*>& tensors) {
  std::vector<std::string> names;
  names.reserve(tensors.size());
  for (const Tensor* tensor : tensors) names.emplace_back(tensor->name());
  return names;
}

Op& create_call(Graph& caller, Graph& callee, const std::vector<Tensor*>& inputs,
                const OpContext& context) {
  return caller.create_op(
      Registry::instance().get("Call"), inputs, {{"modified", by_ref_indices(callee, 0)}},
      named(context, "call--" + callee.id()), {&callee}, names_of(callee.outputs()));
}

std::vector<Tensor*> call(Graph& caller, Graph& callee, const std::vector<Tensor*>& inputs,
                          const OpContext& context) {
  return create_call(caller, callee, inputs, context).outputs();
}

LoopBody::LoopBody(Ir& ir, const std::string& base)
    : graph_(&ir.create_graph(base + "__loop_wrapper")) {
  graph_->add_input(graph_->unique_tensor_id("Iterator___"), {DType::Int32, {}, {}});
  graph_->add_input(graph_->unique_tensor_id("LoopCond___"), {DType::Bool, {}, {}});
}

Tensor* LoopBody::add_input(const Tensor& like, bool by_ref) {
  return graph_->add_input(graph_->unique_tensor_id(like.name()), like.info, by_ref);
}

std::vector<Tensor*> LoopBody::finish(Graph& caller, std::int64_t count,
                                      const std::vector<Tensor*>& inputs,
                                      const std::vector<Tensor*>& carried,
                                      const OpContext& context) {
  constexpr std::size_t skipped = kLoopControlInputs;
  internal_check(inputs.size() + skipped == graph_->inputs().size(),
                 "a loop must get one tensor per input of its body");
  std::vector<Tensor*> outputs = {graph_->inputs()[1]};
  outputs.insert(outputs.end(), carried.begin(), carried.end());
  graph_->set_outputs(std::move(outputs));
  std::vector<Tensor*> operands(skipped, nullptr);
  operands.insert(operands.end(), inputs.begin(), inputs.end());
  Op& loop =
      caller.create_op(Registry::instance().get("Loop"), operands,
                       {{"trip_count", count}, {"modified", by_ref_indices(*graph_, skipped)}},
                       named(context, "loop--" + graph_->id()), {graph_}, names_of(carried));
  return loop.outputs();
}

void put_in_sequence(Graph& graph) {
  for (std::size_t i = 1; i < graph.ops().size(); ++i) {
    graph.ops()[i]->run_after(*graph.ops()[i - 1]);
  }
}

Tensor* Outliner::copy_of(const Tensor* tensor) const {
  const auto it = copies_.find(tensor);
  return it == copies_.end() ? nullptr : it->second;
}

Tensor* Outliner::lookup(Tensor* tensor) {
  Tensor*& copy = copies_[tensor];
  if (copy != nullptr) return copy;
  const std::string id = target_->unique_tensor_id(tensor->name());
  if (tensor->kind() == TensorKind::Constant) {
    return copy = target_->add_constant(id, tensor->info, tensor->data);
  }
  arguments_.push_back(tensor);
  return copy = target_->add_input(id, tensor->info);
}

void Outliner::copy(const Op& op) {
  std::vector<Tensor*> inputs;
  for (Tensor* input : op.inputs()) inputs.push_back(input == nullptr ? nullptr : lookup(input));
  Op& copied = target_->create_op(op.def(), inputs, op.attributes, op.context, op.called_graphs,
                                  names_of(op.outputs()));
  // Calls may have outputs that were added when the callee got more.
  internal_check(copied.num_outputs() == op.num_outputs(), "a copied op must have equal outputs");
  for (int i = 0; i < op.num_outputs(); ++i) {
    copied.output(i)->info.meta_shape = op.output(i)->info.meta_shape;
    copies_[op.output(i)] = copied.output(i);
  }
  for (const Op* earlier : op.after()) {
    if (Op* before = copied_ops_.at(earlier)) copied.run_after(*before);
  }
  copied_ops_[&op] = &copied;
}

void Outliner::mark_written_inputs() {
  const std::vector<bool> written = modified_graph_inputs(*target_, AliasClasses(*target_));
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (written[i]) target_->inputs()[i]->set_by_ref(true);
  }
}

void erase_moved_ops(Graph& graph, const std::vector<Op*>& ops) {
  std::set<Tensor*> constants;
  for (const Op* op : ops) {
    for (Tensor* input : op->inputs()) {
      if (input != nullptr && input->kind() == TensorKind::Constant) constants.insert(input);
    }
  }
  graph.erase_ops({ops.rbegin(), ops.rend()});
  for (Tensor* constant : constants) {
    if (constant->uses().empty() && !constant->is_graph_output()) graph.erase_tensor(*constant);
  }
}

}  // namespace pando
