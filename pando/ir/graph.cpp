#include "pando/ir/graph.hpp"

#include <algorithm>
#include <mutex>
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

/// Keeps each op once, in the order of their ids.
void keep_distinct(std::vector<Op*>& ops) {
  std::sort(ops.begin(), ops.end(), [](const Op* a, const Op* b) { return a->id() < b->id(); });
  ops.erase(std::unique(ops.begin(), ops.end()), ops.end());
}

}  // namespace

Graph::Graph(Ir& ir, std::string id)
    : ir_(&ir),
      id_(std::move(id)),
      tensors_made_(&ir.memory_),
      ops_made_(&ir.memory_),
      sources_(&ir.memory_),
      ops_by_id_(&ir.memory_) {}

std::vector<Tensor*> Graph::tensors() const {
  std::vector<Tensor*> result = tensors_.all();
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

Tensor* Graph::find_tensor(std::string_view id) const { return tensors_.find(id); }

Op* Graph::find_op(std::int64_t id) const {
  const auto it = ops_by_id_.find(id);
  return it == ops_by_id_.end() ? nullptr : it->second;
}

std::vector<Graph*> Graph::called_graphs() const {
  std::vector<Graph*> result;
  std::unordered_set<const Graph*> known;
  for (const Op* op = first_op_; op != nullptr; op = op->next()) {
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
  if (!tensors_.insert(*tensor)) {
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

void Graph::remove_input(int index) {
  Tensor* tensor = inputs_[static_cast<std::size_t>(index)];
  internal_check(tensor->uses().empty(), "a graph input that is used cannot be removed");
  inputs_.erase(inputs_.begin() + index);
  retire(*tensor);
}

void Graph::remove_output(int index) {
  --outputs_[static_cast<std::size_t>(index)]->times_output_;
  outputs_.erase(outputs_.begin() + index);
}

void Graph::set_by_ref(Tensor* input, bool by_ref) {
  internal_check(contains(*input) && input->kind() == TensorKind::GraphInput,
                 "only an input of the graph is passed by reference");
  input->by_ref_ = by_ref;
}

Op& Graph::create_op(const OpDef& def, const std::vector<Tensor*>& inputs, Attributes attributes,
                     OpContext context, std::vector<Graph*> called_graphs,
                     const std::vector<std::string>& output_names) {
  check_attributes(def, attributes);
  return add_op(def, inputs, std::move(attributes), std::move(context), std::move(called_graphs),
                output_names, CallCheck::Needed);
}

Op& Graph::copy_op(const Op& op, const std::vector<Tensor*>& inputs, OpContext context,
                   const std::vector<std::string>& output_names) {
  return add_op(op.def(), inputs, op.attributes, std::move(context), op.called_graphs, output_names,
                CallCheck::Done);
}

Op& Graph::add_op(const OpDef& def, const std::vector<Tensor*>& inputs, Attributes attributes,
                  OpContext context, std::vector<Graph*> called_graphs,
                  const std::vector<std::string>& output_names, CallCheck call_check) {
  Op& op = ops_made_.emplace_back(*this, def, ir_->next_op_id());
  op.attributes = std::move(attributes);
  op.context = std::move(context);
  op.called_graphs = std::move(called_graphs);
  std::vector<TensorInfo> infos;
  try {
    op.connect(inputs);
    check_input_count(op);
    if (call_check == CallCheck::Needed) note_calls(op);
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
    op.add_output(
        unique_tensor_id(i < output_names.size() ? output_names[i] : str_cat(def.name, "_out")),
        infos[i]);
  }
  link_before(op, insertion_point_);
  ops_by_id_.emplace(op.id(), &op);
  return op;
}

void Graph::reserve_like(const Graph& other) {
  tensors_.reserve(other.tensors_.size());
  ops_by_id_.reserve(other.ops_by_id_.size());
  ops_.reserve(other.num_ops_);
}

Op& Graph::make_op(const OpDef& def, std::int64_t id) {
  Op& op = ops_made_.emplace_back(*this, def, id);
  if (!ops_by_id_.emplace(id, &op).second) {
    ops_made_.pop_back();
    throw InternalError(str_cat("an op with id ", id, " exists"));
  }
  link_before(op, nullptr);
  return op;
}

Op& Graph::clone_op(const Op& op, const std::function<Tensor*(const Tensor*)>& map_input) {
  Op& copy = make_op(op.def(), op.id());
  copy.attributes = op.attributes;
  copy.context = op.context;
  copy.called_graphs = op.called_graphs;
  copy.resize_input_list(op.inputs().size());
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
  internal_check(op == nullptr || &op->graph() == this,
                 "ops can only be inserted before an op of the graph");
  insertion_point_ = op;
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
  erase_from_order(ops);
  Graph& erased = ir_->erased_graph();
  for (Op* op : ops) {
    for (Tensor* output : op->outputs()) {
      if (output != nullptr) retire(*output);
    }
    op->graph_ = &erased;
    ops_by_id_.erase(op->id());
  }
}

void Graph::erase_from_order(const std::vector<Op*>& ops) {
  for (Op* op : ops) {
    if (op == insertion_point_) insertion_point_ = nullptr;
    unlink(*op);
  }
  bridge_order(ops);
}

/// Order through an erased op survives: who came after it comes after its predecessors.
void Graph::bridge_order(const std::vector<Op*>& erased) {
  const auto in_no_order = [](const Op* op) {
    return op->after_.empty() && op->followers_.empty();
  };
  if (std::all_of(erased.begin(), erased.end(), in_no_order)) return;
  const std::unordered_set<const Op*> gone(erased.begin(), erased.end());
  std::vector<Op*> followers, earlier_ops;
  for (Op* op : erased) {
    followers.insert(followers.end(), op->followers_.begin(), op->followers_.end());
    earlier_ops.insert(earlier_ops.end(), op->after_.begin(), op->after_.end());
  }
  keep_distinct(followers);
  keep_distinct(earlier_ops);
  for (Op* op : followers) {
    if (gone.contains(op)) continue;
    for (std::size_t i = 0; i < op->after_.size();) {
      const Op* earlier = op->after_[i];
      if (!gone.contains(earlier)) {
        ++i;
        continue;
      }
      op->after_.erase(op->after_.begin() + static_cast<std::ptrdiff_t>(i));
      for (Op* before : earlier->after_) {
        if (std::find(op->after_.begin(), op->after_.end(), before) == op->after_.end()) {
          op->run_after(*before);
        }
      }
    }
  }
  for (Op* op : earlier_ops) {
    std::erase_if(op->followers_, [&](const Op* follower) { return gone.contains(follower); });
  }
  for (Op* op : erased) {
    op->after_.clear();
    op->followers_.clear();
  }
}

void Graph::link_before(Op& op, Op* next) {
  op.next_ = next;
  op.previous_ = next == nullptr ? last_op_ : next->previous_;
  (op.previous_ == nullptr ? first_op_ : op.previous_->next_) = &op;
  (next == nullptr ? last_op_ : next->previous_) = &op;
  ++num_ops_;
  if (next != nullptr) {
    is_listed_.store(false, std::memory_order_relaxed);
  } else if (is_listed_.load(std::memory_order_relaxed)) {
    ops_.push_back(&op);
  }
}

void Graph::unlink(Op& op) {
  if (&op == last_op_ && is_listed_.load(std::memory_order_relaxed)) {
    ops_.pop_back();
  } else {
    is_listed_.store(false, std::memory_order_relaxed);
  }
  (op.previous_ == nullptr ? first_op_ : op.previous_->next_) = op.next_;
  (op.next_ == nullptr ? last_op_ : op.next_->previous_) = op.previous_;
  op.previous_ = op.next_ = nullptr;
  --num_ops_;
}

/// Several threads may ask for the ops of a graph that none of them changes.
void Graph::list_ops() const {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (is_listed_.load(std::memory_order_relaxed)) return;
  ops_.clear();
  ops_.reserve(num_ops_);
  for (Op* op = first_op_; op != nullptr; op = op->next_) ops_.push_back(op);
  is_listed_.store(true, std::memory_order_release);
}

UseList::Link* Graph::make_link(const Use& use) {
  void* memory = ir_->memory_.allocate(sizeof(UseList::Link), alignof(UseList::Link));
  return new (memory) UseList::Link{use};
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
  if (&from == &to) return;
  while (!from.uses().empty()) {
    const Use use = from.uses().front();
    use.op->set_input(use.index, &to);
  }
  if (!from.is_graph_output()) return;
  std::replace(outputs_.begin(), outputs_.end(), &from, &to);
  to.times_output_ += std::exchange(from.times_output_, 0);
}

void Graph::reorder(std::vector<Op*> order) {
  internal_check(order.size() == num_ops_, "an order must name every op once");
  ops_ = std::move(order);
  Op* previous = nullptr;
  for (Op* op : ops_) {
    op->previous_ = previous;
    (previous == nullptr ? first_op_ : previous->next_) = op;
    previous = op;
  }
  last_op_ = previous;
  if (previous != nullptr) previous->next_ = nullptr;
  is_listed_.store(true, std::memory_order_relaxed);
}

}  // namespace pando
