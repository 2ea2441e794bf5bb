#include "pando/ir/graph.hpp"

#include <algorithm>

#include "pando/base/error.hpp"
#include "pando/ir/numbered_map.hpp"
#include "pando/ir/op_maker.hpp"

namespace pando {
namespace {

/// `Op::after` of the ops of `to`, which are copies of those of `from` in the same order.
void clone_order(const Graph& from, const Graph& to) {
  const auto is_free = [](const Op* op) { return op->after().empty(); };
  if (std::all_of(from.ops().begin(), from.ops().end(), is_free)) return;
  OpMap<Op*> copies;
  for (std::size_t i = 0; i < from.ops().size(); ++i) copies[from.ops()[i]] = to.ops()[i];
  for (const Op* op : from.ops()) {
    for (const Op* earlier : op->after()) copies.at(op)->run_after(*copies.at(earlier));
  }
}

}  // namespace

Graph::Graph(Ir& ir, std::string id)
    : ir_(&ir), id_(std::move(id)), ops_(ir.memory()), tensors_(ir.memory()) {}

std::string Graph::unique_tensor_id(std::string_view scoped_name) {
  std::string id = is_main() ? "" : id_ + "/";
  id += scoped_name.empty() ? std::string_view("t") : scoped_name;
  if (tensors_.find(id) == nullptr) return id;
  std::string candidate;
  do {
    candidate = str_cat(id, "__t", ir_->next_tensor_suffix());
  } while (tensors_.find(candidate) != nullptr);
  return candidate;
}

Tensor* Graph::add_input(std::string id, const TensorInfo& info, bool by_ref) {
  Tensor* tensor = tensors_.add(*this, std::move(id), info, TensorKind::GraphInput);
  inputs_.push_back(tensor);
  tensor->set_by_ref(by_ref);
  return tensor;
}

Tensor* Graph::add_variable(std::string id, const TensorInfo& info,
                            std::shared_ptr<HostArray> data) {
  if (!is_main()) throw ValueError("variables can only be made in the main graph");
  Tensor* tensor = tensors_.add(*this, std::move(id), info, TensorKind::Variable);
  tensor->data = std::move(data);
  return tensor;
}

Tensor* Graph::add_constant(std::string id, const TensorInfo& info,
                            std::shared_ptr<HostArray> data) {
  Tensor* tensor = tensors_.add(*this, std::move(id), info, TensorKind::Constant);
  tensor->data = std::move(data);
  return tensor;
}

Tensor* Graph::add_stream(std::string id, const TensorInfo& info) {
  return tensors_.add(*this, std::move(id), info, TensorKind::Stream);
}

Tensor* Graph::add_activation(std::string id, const TensorInfo& info) {
  return tensors_.add(*this, std::move(id), info, TensorKind::Activation);
}

void Graph::mark_output(Tensor* tensor) {
  internal_check(&tensor->graph() == this, "a graph output must be a tensor of the graph");
  outputs_.push_back(tensor);
  ++tensor->times_output_;
}

void Graph::set_outputs(std::vector<Tensor*> outputs) {
  for (Tensor* tensor : outputs_) --tensor->times_output_;
  outputs_ = std::move(outputs);
  for (Tensor* tensor : outputs_) ++tensor->times_output_;
}

void Graph::set_input_order(std::vector<Tensor*> inputs) {
  internal_check(inputs.size() == inputs_.size(), "an input order must name every input once");
  inputs_ = std::move(inputs);
}

Op& Graph::create_op(const OpDef& def, const std::vector<Tensor*>& inputs, Attributes attributes,
                     OpContext context, std::vector<Graph*> called_graphs,
                     const std::vector<std::string>& output_names) {
  return OpMaker(*this).create(def, inputs, std::move(attributes), std::move(context),
                               std::move(called_graphs), output_names);
}

void Graph::set_insertion_point(Op* op) {
  internal_check(op == nullptr || &op->graph() == this,
                 "ops can only be inserted before an op of the graph");
  ops_.set_insertion_point(op);
}

void Graph::erase_ops(const std::vector<Op*>& ops) {
  for (Op* op : ops) {
    for (Tensor* output : op->outputs()) {
      if (output == nullptr) continue;
      internal_check(output->uses().empty(), "an op whose output is used cannot be erased");
      internal_check(!output->is_graph_output(),
                     "an op that makes a graph output cannot be erased");
    }
    for (int i = 0; i < op->num_inputs(); ++i) op->set_input(i, nullptr);
  }
  AfterEdges::bridge(ops);
  Graph& erased = ir_->erased_graph();
  for (Op* op : ops) {
    for (Tensor* output : op->outputs()) {
      if (output != nullptr) tensors_.move_out(*output, erased);
    }
    ops_.move_out(*op, erased);
  }
}

void Graph::erase_tensor(Tensor& tensor) {
  internal_check(tensor.uses().empty() && tensor.producer() == nullptr,
                 "only a tensor without uses and producer can be erased");
  if (tensor.kind() == TensorKind::GraphInput) std::erase(inputs_, &tensor);
  tensors_.move_out(tensor, ir_->erased_graph());
}

void Graph::copy_contents(const Graph& from, const GraphMap& graphs, TensorMap<Tensor*>& tensors) {
  differentiable = from.differentiable;
  was_called = from.was_called;
  ops_.reserve(from.ops_.size());
  for (const Tensor* input : from.inputs_) {
    inputs_.push_back(tensors[input] = tensors_.copy(*this, *input));
  }
  for (const Tensor* source : from.tensors_.sources()) {
    tensors[source] = tensors_.copy(*this, *source);
  }
  for (const Op* op : from.ops()) {
    Op& copy = OpMaker(*this).clone(*op, tensors);
    for (Graph*& callee : copy.called_graphs) callee = graphs.at(callee);
  }
  tensors_.find_copies(from.tensors_, tensors);
  clone_order(from, *this);
  for (const Tensor* output : from.outputs_) mark_output(tensors.at(output));
}

}  // namespace pando
