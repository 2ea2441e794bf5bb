#include "pando/ir/graph.hpp"

#include <algorithm>
#include <unordered_set>

#include "pando/base/error.hpp"

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

std::vector<Tensor*> Graph::tensors() const {
  std::vector<Tensor*> result;
  result.reserve(tensors_.size());
  for (const auto& [id, tensor] : tensors_) result.push_back(tensor.get());
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
  return it == tensors_.end() ? nullptr : it->second.get();
}

Op* Graph::find_op(std::int64_t id) const {
  const auto it = op_storage_.find(id);
  return it == op_storage_.end() ? nullptr : it->second.get();
}

std::vector<Graph*> Graph::called_graphs() const {
  std::vector<Graph*> result;
  for (const Op* op : ops_) {
    for (Graph* callee : op->called_graphs) {
      if (std::find(result.begin(), result.end(), callee) == result.end()) {
        result.push_back(callee);
      }
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
  auto owned = std::make_unique<Tensor>(*this, id, num_tensors_made_, info, kind);
  Tensor* tensor = owned.get();
  if (!tensors_.try_emplace(tensor->id(), std::move(owned)).second) {
    throw InternalError(str_cat("a tensor called '", id, "' exists already"));
  }
  ++num_tensors_made_;
  if (kind != TensorKind::Activation && kind != TensorKind::GraphInput) {
    sources_.emplace(tensor->id(), tensor);
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
  std::erase(by_ref_, tensor);
  retire(tensor->id());
}

void Graph::remove_output(int index) { outputs_.erase(outputs_.begin() + index); }

bool Graph::is_by_ref(const Tensor* input) const {
  return std::find(by_ref_.begin(), by_ref_.end(), input) != by_ref_.end();
}

void Graph::set_by_ref(const Tensor* input, bool by_ref) {
  std::erase(by_ref_, input);
  if (by_ref) by_ref_.push_back(input);
}

Op& Graph::create_op(const OpDef& def, const std::vector<Tensor*>& inputs, Attributes attributes,
                     OpContext context, std::vector<Graph*> called_graphs,
                     const std::vector<std::string>& output_names) {
  check_attributes(def, attributes);
  auto owned = std::make_unique<Op>(*this, def, ir_->next_op_id());
  Op& op = *owned;
  op.attributes = std::move(attributes);
  op.context = std::move(context);
  op.called_graphs = std::move(called_graphs);
  std::vector<TensorInfo> infos;
  try {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      op.set_input(static_cast<int>(i), inputs[i]);
    }
    op.inputs_.resize(inputs.size(), nullptr);
    check_input_count(op);
    infos = def.infer(op);
    for (const TensorInfo& info : infos) {
      if (!has_sound_size(info)) refuse_size(info, describe(op));
    }
  } catch (...) {
    for (int i = 0; i < op.num_inputs(); ++i) op.set_input(i, nullptr);
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
  op_storage_.emplace(op.id(), std::move(owned));
  return op;
}

Op& Graph::clone_op(const Op& op, const std::function<Tensor*(const Tensor*)>& map_input) {
  auto owned = std::make_unique<Op>(*this, op.def(), op.id());
  Op& copy = *owned;
  copy.attributes = op.attributes;
  copy.context = op.context;
  copy.called_graphs = op.called_graphs;
  copy.after = op.after;
  copy.inputs_.resize(op.inputs().size(), nullptr);
  for (int i = 0; i < op.num_inputs(); ++i) {
    if (op.input(i) != nullptr) copy.set_input(i, map_input(op.input(i)));
  }
  for (const Tensor* output : op.outputs()) copy.add_output(output->id(), output->info);
  ops_.push_back(&copy);
  op_storage_.emplace(op.id(), std::move(owned));
  return copy;
}

Op& Graph::restore_op(const OpDef& def, std::int64_t id, const std::vector<Tensor*>& inputs,
                      const std::vector<std::pair<std::string, TensorInfo>>& outputs) {
  if (op_storage_.contains(id)) throw InternalError(str_cat("an op with id ", id, " exists"));
  Op& op = *op_storage_.emplace(id, std::make_unique<Op>(*this, def, id)).first->second;
  op.inputs_.resize(inputs.size(), nullptr);
  for (std::size_t i = 0; i < inputs.size(); ++i) op.set_input(static_cast<int>(i), inputs[i]);
  for (const auto& [tensor_id, info] : outputs) op.add_output(tensor_id, info);
  ops_.push_back(&op);
  return op;
}

Op& Graph::clone_unconnected(const Op& op) {
  auto owned = std::make_unique<Op>(*this, op.def(), ir_->next_op_id());
  Op& copy = *owned;
  copy.attributes = op.attributes;
  copy.context = op.context;
  copy.called_graphs = op.called_graphs;
  ops_.push_back(&copy);
  op_storage_.emplace(copy.id(), std::move(owned));
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
      if (output != nullptr) retire(output->id());
    }
    op->graph_ = &erased;
    op->after.clear();
    const auto it = op_storage_.find(op->id());
    erased.erased_ops_.push_back(std::move(it->second));
    op_storage_.erase(it);
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

void Graph::retire(const std::string& tensor_id) {
  const auto it = tensors_.find(tensor_id);
  Graph& erased = ir_->erased_graph();
  std::unique_ptr<Tensor> tensor = std::move(it->second);
  sources_.erase(tensor_id);
  tensors_.erase(it);
  tensor->graph_ = &erased;
  tensor->data.reset();
  erased.erased_tensors_.push_back(std::move(tensor));
}

void Graph::erase_tensor(Tensor& tensor) {
  internal_check(tensor.uses().empty() && tensor.producer() == nullptr,
                 "only a tensor without uses and producer can be erased");
  retire(tensor.id());
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
