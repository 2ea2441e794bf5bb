#include "pando/ir/op_maker.hpp"

#include <algorithm>

#include "pando/base/error.hpp"
#include "pando/ir/call_order.hpp"
#include "pando/ir/graph.hpp"

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
    AttributeType operator()(const Texts&) const { return AttributeType::TextList; }
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
  } else if (spec.type == AttributeType::TextList && std::holds_alternative<Ints>(*value) &&
             std::get<Ints>(*value).empty()) {
    attributes.set(spec.name, Texts{});
  }
}

void check_attributes(const OpDef& def, Attributes& attributes) {
  for (const AttributeSpec& spec : def.attributes) {
    fit_attribute(attributes, spec);
    const AttributeValue* value = attributes.find(spec.name);
    if (value == nullptr) {
      if (!spec.required) continue;
      throw ValueError(str_cat(def.name, ": attribute '", spec.name, "' is missing"));
    }
    if (type_of(*value) != spec.type) {
      throw ValueError(str_cat(def.name, ": attribute '", spec.name,
                               "' has the wrong type: ", attribute_text(*value)));
    }
  }
  for (const auto& [name, value] : attributes) {
    const bool known = std::any_of(def.attributes.begin(), def.attributes.end(),
                                   [&](const AttributeSpec& spec) { return spec.name == name; });
    if (!known) throw ValueError(str_cat(def.name, " has no attribute '", name, "'"));
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

void connect(Op& op, const std::vector<Tensor*>& inputs) {
  op.resize_inputs(static_cast<int>(inputs.size()));
  for (int i = 0; i < op.num_inputs(); ++i) op.set_input(i, inputs[static_cast<std::size_t>(i)]);
}

}  // namespace

OpMaker::OpMaker(Graph& graph) : graph_(graph), ops_(graph.ops_) {}

Op& OpMaker::create(const OpDef& def, const std::vector<Tensor*>& inputs, Attributes attributes,
                    OpContext context, std::vector<Graph*> called_graphs,
                    const std::vector<std::string>& output_names) {
  check_attributes(def, attributes);
  return add(def, inputs, std::move(attributes), std::move(context), std::move(called_graphs),
             output_names, CallCheck::Needed);
}

Op& OpMaker::copy(const Op& op, const std::vector<Tensor*>& inputs, OpContext context,
                  const std::vector<std::string>& output_names) {
  return add(op.def(), inputs, op.attributes, std::move(context), op.called_graphs, output_names,
             CallCheck::Done);
}

Op& OpMaker::add(const OpDef& def, const std::vector<Tensor*>& inputs, Attributes attributes,
                 OpContext context, std::vector<Graph*> called_graphs,
                 const std::vector<std::string>& output_names, CallCheck call_check) {
  Op& op = ops_.make(graph_, def, graph_.ir().next_op_id());
  op.attributes = std::move(attributes);
  op.context = std::move(context);
  op.called_graphs = std::move(called_graphs);
  std::vector<TensorInfo> infos;
  try {
    connect(op, inputs);
    check_input_count(op);
    if (const std::string fault = called_graphs_fault(op); !fault.empty()) {
      throw InternalError(str_cat(describe(op), " ", fault));
    }
    if (call_check == CallCheck::Needed) note_calls(op);
    infos = def.infer(op);
    for (const TensorInfo& info : infos) {
      if (!has_sound_size(info)) refuse_size(info, describe(op));
    }
  } catch (...) {
    for (int i = 0; i < op.num_inputs(); ++i) op.set_input(i, nullptr);
    ops_.discard_made();
    throw;
  }
  op.outputs_.reserve(infos.size());
  for (std::size_t i = 0; i < infos.size(); ++i) {
    op.add_output(graph_.unique_tensor_id(i < output_names.size() ? output_names[i]
                                                                  : str_cat(def.name, "_out")),
                  infos[i]);
  }
  ops_.insert(op);
  return op;
}

Op& OpMaker::append_like(const Op& op, std::int64_t id) {
  Op& copy = ops_.make(graph_, op.def(), id);
  ops_.append(copy);
  copy.attributes = op.attributes;
  copy.context = op.context;
  copy.called_graphs = op.called_graphs;
  return copy;
}

Op& OpMaker::clone(const Op& op, TensorMap<Tensor*>& copies) {
  Op& copy = append_like(op, op.id());
  copy.resize_inputs(op.num_inputs());
  for (int i = 0; i < op.num_inputs(); ++i) {
    if (op.input(i) != nullptr) copy.set_input(i, copies.at(op.input(i)));
  }
  copy.outputs_.reserve(op.outputs_.size());
  for (const Tensor* output : op.outputs()) {
    Tensor* made = graph_.tensors_.copy(graph_, *output);
    copy.append_output(*made);
    copies[output] = made;
  }
  return copy;
}

Op& OpMaker::clone_unconnected(const Op& op) {
  Op& copy = append_like(op, graph_.ir().next_op_id());
  try {
    note_calls(copy);
  } catch (...) {
    graph_.erase_ops({&copy});
    throw;
  }
  return copy;
}

Op& OpMaker::restore(const OpDef& def, std::int64_t id, const std::vector<Tensor*>& inputs,
                     const std::vector<std::pair<std::string, TensorInfo>>& outputs) {
  if (ops_.has(id)) throw InternalError(str_cat("an op with id ", id, " exists"));
  Op& op = ops_.make(graph_, def, id);
  ops_.append(op);
  connect(op, inputs);
  for (const auto& [tensor_id, info] : outputs) op.add_output(tensor_id, info);
  return op;
}

}  // namespace pando
