#include "pando/backends/cpu/kernels/strided_copy.hpp"

#include "pando/backends/cpu/kernels/element.hpp"

namespace pando::cpu {

StridedCopy::StridedCopy(const Shape& shape, const Strides& from, const Strides& to,
                         std::size_t bytes)
    : bytes_(bytes) {
  Shape merged;
  Strides merged_from, merged_to;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    const bool joins = !merged.empty() && merged_from.back() == shape[d] * from[d] &&
                       merged_to.back() == shape[d] * to[d];
    if (joins) {
      merged.back() *= shape[d];
      merged_from.back() = from[d];
      merged_to.back() = to[d];
    } else {
      merged.push_back(shape[d]);
      merged_from.push_back(from[d]);
      merged_to.push_back(to[d]);
    }
  }
  if (!merged.empty()) {
    row_ = merged.back();
    from_step_ = merged_from.back();
    to_step_ = merged_to.back();
    merged.pop_back();
    merged_from.pop_back();
    merged_to.pop_back();
  }
  rows_ = row_ == 0 ? 0 : num_elements(merged);
  from_ = {merged, merged_from};
  to_ = {merged, merged_to};
}

void StridedCopy::run(const std::byte* from, std::byte* to, std::int64_t begin,
                      std::int64_t end) const {
  const auto bytes = static_cast<std::int64_t>(bytes_);
  if (from_.shape.size() == 1 && from_step_ == 1 && to_step_ == 1) {
    const std::int64_t from_row = from_.strides[0] * bytes, to_row = to_.strides[0] * bytes;
    for (std::int64_t r = begin; r < end; ++r) {
      std::memcpy(to + r * to_row, from + r * from_row, static_cast<std::size_t>(row_ * bytes));
    }
    return;
  }
  for (std::int64_t r = begin; r < end; ++r) {
    const std::byte* source = from + strided_offset(from_, r) * bytes;
    std::byte* target = to + strided_offset(to_, r) * bytes;
    if (from_step_ == 1 && to_step_ == 1) {
      std::memcpy(target, source, static_cast<std::size_t>(row_ * bytes));
      continue;
    }
    const auto copy = [&]<class T>(T) {
      const auto* x = reinterpret_cast<const T*>(source);
      auto* y = reinterpret_cast<T*>(target);
      for (std::int64_t i = 0; i < row_; ++i) y[i * to_step_] = x[i * from_step_];
    };
    switch (bytes_) {
      case 1:
        copy(std::uint8_t{});
        break;
      case 2:
        copy(std::uint16_t{});
        break;
      case 4:
        copy(std::uint32_t{});
        break;
      case 8:
        copy(std::uint64_t{});
        break;
      default:
        copy(Bits128{});
        break;
    }
  }
}

}  // namespace pando::cpu
