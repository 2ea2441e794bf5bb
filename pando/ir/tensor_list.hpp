// The tensors of one graph.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

#include "pando/ir/numbered_map.hpp"
#include "pando/ir/tensor.hpp"
#include "pando/ir/tensor_table.hpp"

namespace pando {

/// Makes tensors and finds them by id.
class TensorList {
 public:
  /// What is made is freed with `memory`.
  explicit TensorList(std::pmr::memory_resource& memory) : made_(&memory), sources_(&memory) {}

  std::size_t size() const { return by_id_.size(); }
  /// nullptr when absent.
  Tensor* find(std::string_view id) const { return by_id_.find(id); }
  /// Sorted by id.
  std::vector<Tensor*> all() const;
  /// Variables, constants and streams, sorted by id.
  std::vector<Tensor*> sources() const;

  /// A taken id throws InternalError; a size that no tensor can have ValueError or OutOfMemory.
  Tensor* add(Graph& graph, std::string id, const TensorInfo& info, TensorKind kind);
  /// A tensor like one of another Ir whose ids that of `graph` shares. It is not found before
  /// `find_copies`.
  Tensor* copy(Graph& graph, const Tensor& tensor);
  /// This list, which was empty, finds the copies of the tensors of `other`. Not all need to have
  /// one.
  void find_copies(const TensorList& other, const TensorMap<Tensor*>& copies);
  /// The tensor, which stays readable but for its data, belongs to `owner` from now on, without
  /// being found there.
  void move_out(Tensor& tensor, Graph& owner);

 private:
  std::pmr::list<Tensor> made_;  // all that ever were
  TensorTable by_id_;
  std::pmr::map<std::string_view, Tensor*> sources_;  // by id, which the tensor itself keeps
};

}  // namespace pando
