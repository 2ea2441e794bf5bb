// Tensors: the values that flow between ops of one graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pando/base/dtype.hpp"
#include "pando/base/shape.hpp"
#include "pando/base/variable_settings.hpp"
#include "pando/ir/use_list.hpp"

namespace pando {

class Graph;

/// Element type and per-replica shape. `meta_shape` is the unsharded shape of a replica-sharded
/// tensor, empty otherwise.
struct TensorInfo {
  DType dtype = DType::Float32;
  SharedShape shape;
  SharedShape meta_shape;

  std::int64_t num_elements() const { return pando::num_elements(shape); }
  std::size_t bytes() const {
    return static_cast<std::size_t>(num_elements()) * dtype_bytes(dtype);
  }
  bool operator==(const TensorInfo&) const = default;
};

/// Whether every size is 0 or more and `count` tensors fit the address space of a process (sums of
/// their bytes then fit 64 bits).
bool has_sound_size(const TensorInfo& info, std::int64_t count = 1);
/// Throws ValueError for a negative size and OutOfMemory for too many bytes. `owner` names the
/// tensor.
[[noreturn]] void refuse_size(const TensorInfo& info, const std::string& owner,
                              std::int64_t count = 1);

/// `(2, 3) float32`.
std::string info_text(const TensorInfo& info);

/// Host memory of a variable or constant in C order. The bytes may belong to somebody else (a
/// memory-mapped array): `owner` keeps them alive.
struct HostArray {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<void> owner;

  static std::shared_ptr<HostArray> allocate(std::size_t bytes);
  static std::shared_ptr<HostArray> copy_of(const void* source, std::size_t bytes);
};

enum class TensorKind : std::uint8_t { Activation, GraphInput, Variable, Constant, Stream };

/// Created and owned by a Graph; the address is stable.
class Tensor {
 public:
  /// `id` must stay where it is.
  Tensor(Graph& graph, const std::string& id, std::size_t number, const TensorInfo& tensor_info,
         TensorKind kind)
      : info(tensor_info), graph_(&graph), id_(&id), number_(number), kind_(kind) {}
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  /// Unique in the Ir: the graph id, a slash (none for the main graph) and the name.
  const std::string& id() const { return *id_; }
  /// The id without the graph prefix; name scopes stay.
  std::string_view name() const;
  Graph& graph() const { return *graph_; }
  /// How many tensors were made in its graph before it (see TensorMap).
  std::size_t number() const { return number_; }
  TensorKind kind() const { return kind_; }

  /// The op that makes this tensor and which of its outputs it is; nullptr for inputs, variables,
  /// constants and streams.
  Op* producer() const { return producer_; }
  int producer_index() const { return producer_index_; }
  const UseList& uses() const { return uses_; }
  /// Whether it is an output of its graph.
  bool is_graph_output() const { return times_output_ > 0; }

  /// Inputs of graphs: whether a call may write the caller's tensor.
  bool is_by_ref() const { return by_ref_; }
  void set_by_ref(bool by_ref);

  DType dtype() const { return info.dtype; }
  const Shape& shape() const { return info.shape; }
  /// The defaults for all but variables.
  const VariableSettings& settings() const;
  void set_settings(const VariableSettings& settings);

  TensorInfo info;
  /// Variables and constants: the host value.
  std::shared_ptr<HostArray> data;

 private:
  friend class Graph;
  friend class Op;
  friend class TensorList;
  Graph* graph_;
  const std::string* id_;  // in Ir::tensor_ids
  std::size_t number_;
  TensorKind kind_;
  Op* producer_ = nullptr;
  int producer_index_ = -1;
  bool by_ref_ = false;           // graph inputs
  std::size_t times_output_ = 0;  // how often its graph lists it
  UseList uses_;
  std::unique_ptr<const VariableSettings> settings_;  // nullptr: the defaults
};

}  // namespace pando
