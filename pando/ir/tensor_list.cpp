#include "pando/ir/tensor_list.hpp"

#include <algorithm>

#include "pando/base/error.hpp"
#include "pando/ir/graph.hpp"

namespace pando {

std::vector<Tensor*> TensorList::all() const {
  std::vector<Tensor*> result = by_id_.all();
  std::sort(result.begin(), result.end(),
            [](const Tensor* a, const Tensor* b) { return a->id() < b->id(); });
  return result;
}

std::vector<Tensor*> TensorList::sources() const {
  std::vector<Tensor*> result;
  result.reserve(sources_.size());
  for (const auto& [id, tensor] : sources_) result.push_back(tensor);
  return result;
}

Tensor* TensorList::add(Graph& graph, std::string id, const TensorInfo& info, TensorKind kind) {
  if (!has_sound_size(info)) refuse_size(info, str_cat("tensor '", id, "'"));
  const std::string& kept = graph.ir().tensor_ids().add(std::move(id));
  Tensor* tensor = &made_.emplace_back(graph, kept, made_.size(), info, kind);
  if (!by_id_.insert(*tensor)) {
    made_.pop_back();
    throw InternalError(str_cat("a tensor called '", kept, "' exists already"));
  }
  if (kind != TensorKind::Activation && kind != TensorKind::GraphInput) {
    // Copies make them in order.
    sources_.emplace_hint(sources_.end(), tensor->id(), tensor);
  }
  return tensor;
}

Tensor* TensorList::copy(Graph& graph, const Tensor& tensor) {
  Tensor& copy = made_.emplace_back(graph, tensor.id(), made_.size(), tensor.info, tensor.kind());
  copy.data = tensor.data;
  copy.by_ref_ = tensor.by_ref_;
  if (tensor.settings_ != nullptr) copy.set_settings(*tensor.settings_);
  return &copy;
}

void TensorList::find_copies(const TensorList& other, const TensorMap<Tensor*>& copies) {
  by_id_.insert_copies(other.by_id_, copies);
  for (const auto& [id, tensor] : other.sources_) {
    sources_.emplace_hint(sources_.end(), id, copies.at(tensor));
  }
}

void TensorList::move_out(Tensor& tensor, Graph& owner) {
  sources_.erase(tensor.id());
  by_id_.erase(tensor.id());
  tensor.graph_ = &owner;
  tensor.data.reset();
}

}  // namespace pando
