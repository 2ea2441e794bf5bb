#include "pando/ir/tensor_place.hpp"

namespace pando {
namespace {

bool moves(const Op& op) { return op.def().moves_devices || op.kind() == OpKind::IoTileCopy; }

/// Whether all tensors of which `place` tells one give the same.
template <class Place>
bool agree(const std::vector<Tensor*>& tensors, Place place) {
  decltype(place(*tensors.front())) first;
  for (const Tensor* tensor : tensors) {
    const auto placed = place(*tensor);
    if (first && placed && *placed != *first) return false;
    if (!first) first = placed;
  }
  return true;
}

}  // namespace

std::optional<std::int64_t> output_device(const Op& op, int index) {
  if (op.def().moves_devices) return op.attributes.integer("destination");
  if (op.def().has_tensor_devices) {
    return op.attributes.ints("devices").at(static_cast<std::size_t>(index));
  }
  return op.context.device;
}

std::optional<std::int64_t> input_device(const Op& op, int index) {
  return op.def().moves_devices ? op.attributes.integer("source") : output_device(op, index);
}

std::optional<std::int64_t> device_of(const Tensor& tensor) {
  if (tensor.producer() != nullptr) {
    return output_device(*tensor.producer(), tensor.producer_index());
  }
  for (const Use& use : tensor.uses()) {
    if (const auto device = input_device(*use.op, use.index)) return device;
  }
  return std::nullopt;
}

std::optional<bool> is_on_io_tiles(const Tensor& tensor) {
  const Tensor* source = &tensor;
  int copies = 0;  // each changes the side
  while (source->producer() != nullptr && source->producer()->kind() == OpKind::IoTileCopy) {
    ++copies;
    source = source->producer()->input(0);
  }
  std::optional<bool> found;
  if (const Op* producer = source->producer()) {
    found = producer->context.io_tiles;
  } else {
    for (const Use& use : source->uses()) {
      if (moves(*use.op)) continue;
      found = use.op->context.io_tiles;
      break;
    }
  }
  // A copy of what is nowhere is on the compute tiles.
  return copies == 0 ? found : std::optional(found.value_or(true) != (copies % 2 == 1));
}

bool can_be_inputs(const Graph& graph, const std::vector<Tensor*>& tensors) {
  for (const Tensor* tensor : tensors) {
    if (tensor == nullptr || &tensor->graph() != &graph) return false;
  }
  return tensors.size() < 2 || (agree(tensors, device_of) && agree(tensors, is_on_io_tiles));
}

}  // namespace pando
