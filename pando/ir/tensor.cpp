#include "pando/ir/tensor.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

#include "pando/base/error.hpp"
#include "pando/ir/graph.hpp"

namespace pando {

std::string info_text(const TensorInfo& info) {
  return str_cat(shape_text(info.shape), " ", info.dtype);
}

namespace {
constexpr std::int64_t kAddressableBytes = std::int64_t{1} << 47;
}

bool has_sound_size(const TensorInfo& info, std::int64_t count) {
  auto bytes = static_cast<std::int64_t>(dtype_bytes(info.dtype));
  bool overflows = __builtin_mul_overflow(bytes, count, &bytes), empty = false;
  for (std::int64_t size : info.shape) {
    if (size < 0) return false;
    empty = empty || size == 0;
    overflows = overflows || __builtin_mul_overflow(bytes, size, &bytes);
  }
  return empty || (!overflows && bytes <= kAddressableBytes);
}

void refuse_size(const TensorInfo& info, const std::string& owner, std::int64_t count) {
  for (std::int64_t size : info.shape) {
    if (size >= 0) continue;
    throw ValueError(
        str_cat(owner, ": wanted sizes of 0 or more, given shape ", shape_text(info.shape)));
  }
  throw OutOfMemory(
      str_cat(owner, ": ", count == 1 ? "" : str_cat(count, " tensors of "), info_text(info),
              " would take more than the ", kAddressableBytes, " bytes that a process can address"),
      "");
}

std::shared_ptr<HostArray> HostArray::allocate(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded);
  if (memory == nullptr) {
    throw OutOfMemory(str_cat("cannot allocate ", bytes, " bytes of host memory"), "");
  }
  auto array = std::make_shared<HostArray>();
  array->data = static_cast<std::byte*>(memory);
  array->bytes = bytes;
  array->owner = std::shared_ptr<void>(memory, [](void* p) { std::free(p); });
  return array;
}

std::shared_ptr<HostArray> HostArray::copy_of(const void* source, std::size_t bytes) {
  auto array = allocate(bytes);
  if (bytes > 0) std::memcpy(array->data, source, bytes);
  return array;
}

const VariableSettings& Tensor::settings() const {
  static const VariableSettings defaults;
  return settings_ == nullptr ? defaults : *settings_;
}

void Tensor::set_settings(const VariableSettings& settings) {
  const bool are_defaults = settings == VariableSettings();
  settings_ = are_defaults ? nullptr : std::make_unique<const VariableSettings>(settings);
}

std::string_view Tensor::name() const {
  const std::string_view id = *id_;
  if (graph_->is_main()) return id;
  const std::string& graph = graph_->id();
  // Texts of graphs and stored graphs may name their tensors without the prefix.
  const bool has_prefix =
      id.size() > graph.size() && id.starts_with(graph) && id[graph.size()] == '/';
  return has_prefix ? id.substr(graph.size() + 1) : id;
}

void Tensor::set_by_ref(bool by_ref) {
  internal_check(kind_ == TensorKind::GraphInput,
                 "only an input of the graph is passed by reference");
  by_ref_ = by_ref;
}

}  // namespace pando
