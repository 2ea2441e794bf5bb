// Which virtual device and tile set a tensor is on while its graph is built.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "pando/ir/graph.hpp"

namespace pando {

/// The virtual device of output `index` of an op; nullopt: the op has none.
std::optional<std::int64_t> output_device(const Op& op, int index);
/// The virtual device on which an op wants input `index`.
std::optional<std::int64_t> input_device(const Op& op, int index);

/// The virtual device that the producer gives, else the first use that has one.
std::optional<std::int64_t> device_of(const Tensor& tensor);
/// Whether the producer, else the first use that moves nothing, is on the IO tiles; nullopt where
/// nothing tells.
std::optional<bool> is_on_io_tiles(const Tensor& tensor);

/// Whether an op of `graph` may take them together: all are tensors of the graph, and those whose
/// device and tile set are known are on the same.
bool can_be_inputs(const Graph& graph, const std::vector<Tensor*>& tensors);

}  // namespace pando
