#include "pando/backends/cpu/fused/iteration.hpp"

#include <algorithm>
#include <cstring>

#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

constexpr std::size_t kMaxRank = 16;

template <class T>
void gather_run(const std::byte* from, std::int64_t stride, std::int64_t count, std::byte* to) {
  const auto* source = reinterpret_cast<const T*>(from);
  auto* target = reinterpret_cast<T*>(to);
  if (stride == 1) {
    std::memcpy(target, source, static_cast<std::size_t>(count) * sizeof(T));
  } else if (stride == 0) {
    std::fill_n(target, count, *source);
  } else {
    for (std::int64_t i = 0; i < count; ++i) target[i] = source[i * stride];
  }
}

template <class T>
void scatter_run(const std::byte* from, std::int64_t stride, std::int64_t count, std::byte* to) {
  const auto* source = reinterpret_cast<const T*>(from);
  auto* target = reinterpret_cast<T*>(to);
  if (stride == 1) {
    std::memcpy(target, source, static_cast<std::size_t>(count) * sizeof(T));
  } else {
    for (std::int64_t i = 0; i < count; ++i) target[i * stride] = source[i];
  }
}

/// Calls `body` with a value of the unsigned type of `bytes` bytes.
template <class Body>
void with_width(std::size_t bytes, const Body& body) {
  switch (bytes) {
    case 1:
      return body(std::uint8_t{});
    case 2:
      return body(std::uint16_t{});
    case 4:
      return body(std::uint32_t{});
    default:
      return body(std::uint64_t{});
  }
}

}  // namespace

OperandIteration::OperandIteration(const OperandDesc& desc) : bytes_(dtype_bytes(desc.dtype)) {
  for (std::size_t i = 0; i < desc.shape.size(); ++i) {
    if (desc.shape[i] == 1) continue;
    const Dimension next{desc.shape[i], desc.strides[i]};
    if (!dimensions_.empty() && dimensions_.back().stride == next.stride * next.size) {
      dimensions_.back() = {dimensions_.back().size * next.size, next.stride};
    } else {
      dimensions_.push_back(next);
    }
  }
  if (dimensions_.empty()) dimensions_.push_back({1, 0});
  internal_check(dimensions_.size() <= kMaxRank, "a tensor has too many dimensions");
  scalar_ = dimensions_.size() == 1 && dimensions_[0].stride == 0;
  linear_ = dimensions_.size() == 1 && (dimensions_[0].stride == 1 || dimensions_[0].size == 1);
}

template <class Body>
void OperandIteration::for_each_run(std::int64_t first, std::int64_t count,
                                    const Body& body) const {
  std::int64_t index[kMaxRank];
  std::int64_t rest = first;
  std::int64_t offset = 0;
  for (std::size_t d = dimensions_.size(); d-- > 0;) {
    index[d] = rest % dimensions_[d].size;
    rest /= dimensions_[d].size;
    offset += index[d] * dimensions_[d].stride;
  }
  const std::size_t inner = dimensions_.size() - 1;
  while (count > 0) {
    const std::int64_t run = std::min(count, dimensions_[inner].size - index[inner]);
    body(offset, run);
    count -= run;
    if (count == 0) return;
    offset += run * dimensions_[inner].stride;
    index[inner] += run;
    for (std::size_t d = inner; d > 0 && index[d] == dimensions_[d].size; --d) {
      offset -= index[d] * dimensions_[d].stride;
      index[d] = 0;
      offset += dimensions_[d - 1].stride;
      ++index[d - 1];
    }
  }
}

void OperandIteration::gather(const std::byte* memory, std::int64_t first, std::int64_t count,
                              std::byte* tile) const {
  const std::int64_t stride = dimensions_.back().stride;
  with_width(bytes_, [&](auto width) {
    using T = decltype(width);
    std::byte* to = tile;
    for_each_run(first, count, [&](std::int64_t offset, std::int64_t run) {
      gather_run<T>(memory + offset * static_cast<std::int64_t>(sizeof(T)), stride, run, to);
      to += static_cast<std::size_t>(run) * sizeof(T);
    });
  });
}

void OperandIteration::scatter(const std::byte* tile, std::int64_t first, std::int64_t count,
                               std::byte* memory) const {
  const std::int64_t stride = dimensions_.back().stride;
  with_width(bytes_, [&](auto width) {
    using T = decltype(width);
    const std::byte* from = tile;
    for_each_run(first, count, [&](std::int64_t offset, std::int64_t run) {
      scatter_run<T>(from, stride, run, memory + offset * static_cast<std::int64_t>(sizeof(T)));
      from += static_cast<std::size_t>(run) * sizeof(T);
    });
  });
}

}  // namespace pando::cpu
