#include "pando/ir/graph.hpp"

#include <algorithm>
#include <unordered_set>

#include "pando/base/error.hpp"
#include "pando/ir/call_order.hpp"

namespace pando {
namespace {

AttributeType type_of(const AttributeValue& value) {
  struct Visitor {
    AttributeType operator()(bool) const { return AttributeType::Flag; }
    AttributeType operator()(std::int64_t) const { return AttributeType::Integer; }
    AttributeType operator()(double) const { return AttributeType::Number; }
    AttributeType operator()(const std::string&) const { return AttributeType::Text; }
    AttributeType operator()(DType) const { return AttributeType::DTypeName; }
    AttributeType operator()(const Ints&) const { return AttributeType::IntList; }
    AttributeType operator()(const Floats&) const { return AttributeType::NumberList; }
  };
  return std::visit(Visitor{}, value);
}

/// Integers stand for numbers and empty lists for lists of the other type.
void fit_attribute(Attributes& attributes, const AttributeSpec& spec) {
  const AttributeValue* value = attributes.find(spec.name);
  if (value == nullptr || type_of(*value) == spec.type) return;
  if (spec.type == AttributeType::Number && std::holds_alternative<std::int64_t>(*value)) {
    attributes.set(spec.name, static_cast<double>(std::get<std::int64_t>(*value)));
  } else if (spec.type == AttributeType::NumberList && std::holds_alternative<Ints>(*value)) {
    const Ints& ints = std::get<Ints>(*value);
    attributes.set(spec.name, Floats(ints.begin(), ints.end()));
  } else if (spec.type == AttributeType::IntList && std::holds_alternative<Floats>(*value) &&
             std::get<Floats>(*value).empty()) {
    attributes.set(spec.name, Ints{});
  }
}

void check_attributes(const OpDef& def, Attributes& attributes) {
  for (const AttributeSpec& spec : def.attributes) {
    fit_attribute(attributes, spec);
    const AttributeValue* value = attributes.find(spec.name);
    if (value == nullptr) {
      if (!spec.required) continue;
      throw InternalError(str_cat(def.name, ": attribute '", spec.name, "' is missing"));
    }
    if (type_of(*value) != spec.type) {
      throw InternalError(str_cat(def.name, ": attribute '", spec.name,
                                  "' has the wrong type: ", attribute_text(*value)));
    }
  }
  for (const auto& [name, value] : attributes) {
    const bool known = std::any_of(def.attributes.begin(), def.attributes.end(),
                                   [&](const AttributeSpec& spec) { return spec.name == name; });
    if (!known) throw InternalError(str_cat(def.name, " has no attribute '", name, "'"));
  }
}

void check_input_count(const Op& op) {
  const OpDef& def = op.def();
  const bool too_many = def.max_inputs >= 0 && op.num_inputs() > def.max_inputs;
  if (op.num_inputs() < def.min_inputs || too_many) {
    wrong_input(
        op, str_cat("wanted ", def.min_inputs,
                    def.max_inputs < 0 ? " or more" : str_cat(" to ", def.max_inputs), " inputs"));
  }
}

}  // namespace

Graph::Graph(Ir& ir, std::string id)
    : ir_(&ir),
      id_(std::move(id)),
      tensors_made_(&ir.memory_),
      ops_made_(&ir.memory_),
      tensors_(&ir.memory_),
      sources_(&ir.memory_),
      ops_by_id_(&ir.memory_) {}

std::vector<Tensor*> Graph::tensors() const {
  std::vector<Tensor*> result;
  result.reserve(tensors_.size());
  for (const auto& [id, tensor] : tensors_) result.push_back(tensor);
  std::sort(result.begin(), result.end(),
            [](const Tensor* a, const Tensor* b) { return a->id() < b->id(); });
  return result;
}

std::vector<Tensor*> Graph::sources() const {
  std::vector<Tensor*> result;
  result.reserve(sources_.size());
  for (const auto& [id, tensor] : sources_) result.push_back(tensor);
  return result;
}

Tensor* Graph::find_tensor(std::string_view id) const {
  const auto it = tensors_.find(id);
  return it == tensors_.end() ? nullptr : it->second;
}

Op* Graph::find_op(std::int64_t id) const {
  const auto it = ops_by_id_.find(id);
  return it == ops_by_id_.end() ? nullptr : it->second;
}

std::vector<Graph*> Graph::called_graphs() const {
  std::vector<Graph*> result;
  std::unordered_set<const Graph*> known;
  for (const Op* op : ops_) {
    for (Graph* callee : op->called_graphs) {
      if (known.insert(callee).second) result.push_back(callee);
    }
  }
  return result;
}

std::string Graph::unique_tensor_id(std::string_view scoped_name) {
  std::string id = is_main() ? "" : id_ + "/";
  id += scoped_name.empty() ? std::string_view("t") : scoped_name;
  if (!tensors_.contains(id)) return id;
  std::string candidate;
  do {
    candidate = str_cat(id, "__t", ir_->next_tensor_suffix());
  } while (tensors_.contains(candidate));
  return candidate;
}

Tensor* Graph::insert_tensor(const std::string& id, const TensorInfo& info, TensorKind kind) {
  if (!has_sound_size(info)) refuse_size(info, str_cat("tensor '", id, "'"));
  Tensor* tensor = &tensors_made_.emplace_back(*this, id, tensors_made_.size(), info, kind);
  if (!tensors_.try_emplace(tensor->id(), tensor).second) {
    tensors_made_.pop_back();
    throw InternalError(str_cat("a tensor called '", id, "' exists already"));
  }
  if (kind != TensorKind::Activation && kind != TensorKind::GraphInput) {
    // Copies make them in order.
    sources_.emplace_hint(sources_.end(), tensor->id(), tensor);
  }
  return tensor;
}

Tensor* Graph::add_input(const std::string& id, const TensorInfo& info, bool by_ref) {
  Tensor* tensor = insert_tensor(id, info, TensorKind::GraphInput);
  inputs_.push_back(tensor);
  set_by_ref(tensor, by_ref);
  return tensor;
}

Tensor* Graph::add_variable(const std::string& id, const TensorInfo& info,
                            std::shared_ptr<HostArray> data) {
  if (!is_main()) throw ValueError("variables can only be made in the main graph");
  Tensor* tensor = insert_tensor(id, info, TensorKind::Variable);
  tensor->data = std::move(data);
  return tensor;
}

Tensor* Graph::add_constant(const std::string& id, const TensorInfo& info,
                            std::shared_ptr<HostArray> data) {
  Tensor* tensor = insert_tensor(id, info, TensorKind::Constant);
  tensor->data = std::move(data);
  return tensor;
}

Tensor* Graph::add_stream(const std::string& id, const TensorInfo& info) {
  return insert_tensor(id, info, TensorKind::Stream);
}

Tensor* Graph::add_activation(const std::string& id, const TensorInfo& info) {
  return insert_tensor(id, info, TensorKind::Activation);
}

void Graph::mark_output(Tensor* tensor) {
  internal_check(contains(*tensor), "a graph output must be a tensor of the graph");
  outputs_.push_back(tensor);
}

void Graph::set_outputs(std::vector<Tensor*> outputs) { outputs_ = std::move(outputs); }

void Graph::set_input_order(std::vector<Tensor*> inputs) {
  internal_check(inputs.size() == inputs_.size(), "an input order must name every input once");
  inputs_ = std::move(inputs);
}

void Graph::remove_input(int index) {
  Tensor* tensor = inputs_[static_cast<std::size_t>(index)];
  internal_check(tensor->uses().empty(), "a graph input that is used cannot be removed");
  inputs_.erase(inputs_.begin() + index);
  retire(*tensor);
}

void Graph::remove_output(int index) { outputs_.erase(outputs_.begin() + index); }

void Graph::set_by_ref(Tensor* input, bool by_ref) {
  internal_check(contains(*input) && input->kind() == TensorKind::GraphInput,
                 "only an input of the graph is passed by reference");
  input->by_ref_ = by_ref;
}

Op& Graph::create_op(const OpDef& def, const std::vector<Tensor*>& inputs, Attributes attributes,
                     OpContext context, std::vector<Graph*> called_graphs,
                     const std::vector<std::string>& output_names) {
  check_attributes(def, attributes);
  Op& op = ops_made_.emplace_back(*this, def, ir_->next_op_id());
  op.attributes = std::move(attributes);
  op.context = std::move(context);
  op.called_graphs = std::move(called_graphs);
  std::vector<TensorInfo> infos;
  try {
    op.connect(inputs);
    check_input_count(op);
    note_calls(op);
    infos = def.infer(op);
    for (const TensorInfo& info : infos) {
      if (!has_sound_size(info)) refuse_size(info, describe(op));
    }
  } catch (...) {
    for (int i = 0; i < op.num_inputs(); ++i) op.set_input(i, nullptr);
    ops_made_.pop_back();
    throw;
  }
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const std::string fallback = str_cat(def.name, "_out");
    op.add_output(unique_tensor_id(i < output_names.size() ? output_names[i] : fallback), infos[i]);
  }
  if (insertion_point_ == nullptr) {
    ops_.push_back(&op);
  } else {
    ops_.insert(ops_.begin() + static_cast<std::ptrdiff_t>(insertion_index_), &op);
    ++insertion_index_;
  }
  ops_by_id_.emplace(op.id(), &op);
  return op;
}

void Graph::reserve_like(const Graph& other) {
  tensors_.reserve(other.tensors_.size());
  ops_by_id_.reserve(other.ops_by_id_.size());
  ops_.reserve(other.ops_.size());
}

Op& Graph::make_op(const OpDef& def, std::int64_t id) {
  Op& op = ops_made_.emplace_back(*this, def, id);
  if (!ops_by_id_.emplace(id, &op).second) {
    ops_made_.pop_back();
    throw InternalError(str_cat("an op with id ", id, " exists"));
  }
  ops_.push_back(&op);
  return op;
}

Op& Graph::clone_op(const Op& op, const std::function<Tensor*(const Tensor*)>& map_input) {
  Op& copy = make_op(op.def(), op.id());
  copy.attributes = op.attributes;
  copy.context = op.context;
  copy.called_graphs = op.called_graphs;
  copy.after = op.after;
  copy.inputs_.resize(op.inputs().size(), nullptr);
  for (int i = 0; i < op.num_inputs(); ++i) {
    if (op.input(i) != nullptr) copy.set_input(i, map_input(op.input(i)));
  }
  copy.outputs_.reserve(op.outputs().size());
  for (const Tensor* output : op.outputs()) copy.add_output(output->id(), output->info);
  return copy;
}

Op& Graph::restore_op(const OpDef& def, std::int64_t id, const std::vector<Tensor*>& inputs,
                      const std::vector<std::pair<std::string, TensorInfo>>& outputs) {
  Op& op = make_op(def, id);
  op.connect(inputs);
  for (const auto& [tensor_id, info] : outputs) op.add_output(tensor_id, info);
  return op;
}

Op& Graph::clone_unconnected(const Op& op) {
  Op& copy = make_op(op.def(), ir_->next_op_id());
  copy.attributes = op.attributes;
  copy.context = op.context;
  copy.called_graphs = op.called_graphs;
  try {
    note_calls(copy);
  } catch (...) {
    erase_op(copy);
    throw;
  }
  return copy;
}

void Graph::set_insertion_point(Op* op) {
  insertion_point_ = op;
  if (op == nullptr) return;
  const auto at = std::find(ops_.begin(), ops_.end(), op);
  internal_check(at != ops_.end(), "ops can only be inserted before an op of the graph");
  insertion_index_ = static_cast<std::size_t>(at - ops_.begin());
}

void Graph::erase_ops(const std::vector<Op*>& ops) {
  for (Op* op : ops) {
    for (Tensor* output : op->outputs()) {
      if (output == nullptr) continue;
      internal_check(output->uses().empty(), "an op whose output is used cannot be erased");
      internal_check(std::find(outputs_.begin(), outputs_.end(), output) == outputs_.end(),
                     "an op that makes a graph output cannot be erased");
    }
    for (int i = 0; i < op->num_inputs(); ++i) op->set_input(i, nullptr);
  }
  erase_from_order(ops);
  Graph& erased = ir_->erased_graph();
  for (Op* op : ops) {
    for (Tensor* output : op->outputs()) {
      if (output != nullptr) retire(*output);
    }
    op->graph_ = &erased;
    op->after.clear();
    ops_by_id_.erase(op->id());
  }
}

/// Order through an erased op survives: who came after it comes after its predecessors.
void Graph::erase_from_order(const std::vector<Op*>& ops) {
  const std::unordered_set<const Op*> erased(ops.begin(), ops.end());
  if (insertion_point_ != nullptr && erased.contains(insertion_point_)) insertion_point_ = nullptr;
  std::erase_if(ops_, [&](const Op* op) { return erased.contains(op); });
  for (Op* op : ops_) {
    for (std::size_t i = 0; i < op->after.size();) {
      const Op* earlier = op->after[i];
      if (!erased.contains(earlier)) {
        ++i;
        continue;
      }
      op->after.erase(op->after.begin() + static_cast<std::ptrdiff_t>(i));
      for (Op* before : earlier->after) {
        if (std::find(op->after.begin(), op->after.end(), before) == op->after.end()) {
          op->after.push_back(before);
        }
      }
    }
  }
  if (insertion_point_ != nullptr) set_insertion_point(insertion_point_);
}

void Graph::retire(Tensor& tensor) {
  sources_.erase(tensor.id());
  tensors_.erase(tensor.id());
  tensor.graph_ = &ir_->erased_graph();
  tensor.data.reset();
}

void Graph::erase_tensor(Tensor& tensor) {
  internal_check(tensor.uses().empty() && tensor.producer() == nullptr,
                 "only a tensor without uses and producer can be erased");
  retire(tensor);
}

void Graph::replace_uses(Tensor& from, Tensor& to) {
  const std::vector<Use> uses = from.uses();
  for (const Use& use : uses) use.op->set_input(use.index, &to);
  std::replace(outputs_.begin(), outputs_.end(), &from, &to);
}

void Graph::reorder(std::vector<Op*> order) {
  internal_check(order.size() == ops_.size(), "an order must name every op once");
  ops_ = std::move(order);
  set_insertion_point(insertion_point_);
}

}  // namespace pando
