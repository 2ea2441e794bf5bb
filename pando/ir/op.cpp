#include "pando/ir/op.hpp"

#include "pando/base/error.hpp"
#include "pando/ir/graph.hpp"
#include "pando/ir/op_def.hpp"

namespace pando {

void Op::set_input(int index, Tensor* tensor) {
  const auto i = static_cast<std::size_t>(index);
  if (i >= inputs_.size()) {
    if (tensor == nullptr) return;
    resize_input_list(i + 1);
  }
  if (Tensor* old = inputs_[i]) old->uses_.remove(links_[i]);
  inputs_[i] = tensor;
  if (tensor == nullptr) return;
  if (tensor->graph_ != graph_) {
    inputs_[i] = nullptr;
    throw InternalError("an op input must be a tensor of the op's graph");
  }
  tensor->uses_.push_back(links_[i]);
}

void Op::resize_input_list(std::size_t count) {
  inputs_.resize(count, nullptr);
  links_.reserve(graph_->ir().memory(), *this, count);
}

void Op::resize_inputs(int count) {
  internal_check(count >= 0, "the number of inputs must not be negative");
  for (int i = count; i < num_inputs(); ++i) set_input(i, nullptr);
  resize_input_list(static_cast<std::size_t>(count));
}

Tensor* Op::add_output(std::string tensor_id, const TensorInfo& info) {
  Tensor* tensor = graph_->add_activation(std::move(tensor_id), info);
  append_output(*tensor);
  return tensor;
}

void Op::append_output(Tensor& tensor) {
  tensor.producer_ = this;
  tensor.producer_index_ = num_outputs();
  outputs_.push_back(&tensor);
}

void Op::set_output(int index, Tensor* tensor) {
  internal_check(index >= 0, "an output index must not be negative");
  const auto i = static_cast<std::size_t>(index);
  if (tensor != nullptr && (tensor->graph_ != graph_ || tensor->kind() != TensorKind::Activation ||
                            tensor->producer_ != nullptr)) {
    throw InternalError(str_cat("output ", index, " of ", describe(*this),
                                " must be a tensor of its graph that no other op makes; given '",
                                tensor->id(), "'"));
  }
  if (i >= outputs_.size()) outputs_.resize(i + 1, nullptr);
  if (Tensor* old = outputs_[i]) {
    old->producer_ = nullptr;
    old->producer_index_ = -1;
  }
  outputs_[i] = tensor;
  if (tensor != nullptr) {
    tensor->producer_ = this;
    tensor->producer_index_ = index;
  }
  while (!outputs_.empty() && outputs_.back() == nullptr) outputs_.pop_back();
}

InputSet Op::modified_inputs() const {
  return def_->modified_inputs ? def_->modified_inputs(*this) : InputSet();
}

std::string describe(const Op& op) {
  std::string text = op.kind_name();
  if (!op.context.name.empty()) text += str_cat(" '", op.context.name, "'");
  text += str_cat(" (", op.kind_name(), ".", op.id(), ") in ",
                  op.graph().is_main() ? "the main graph" : "graph '" + op.graph().id() + "'");
  if (op.context.location.known()) {
    text += str_cat(", made at ", op.context.location.file, ":", op.context.location.line);
    if (!op.context.location.function.empty()) {
      text += str_cat(" (in ", op.context.location.function, ")");
    }
  }
  return text;
}

void wrong_input(const Op& op, const std::string& wanted) {
  std::string text = str_cat(describe(op), ": ", wanted, "; given");
  if (op.num_inputs() == 0) text += " no inputs";
  for (int i = 0; i < op.num_inputs(); ++i) {
    if (const Tensor* t = op.input(i)) {
      text += str_cat(i > 0 ? ", " : " ", "'", t->name(), "' ", info_text(t->info));
    }
  }
  throw Error(text);
}

}  // namespace pando
