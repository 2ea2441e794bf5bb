#include "pando/backends/cpu/kernels/strided_copy.hpp"

#include <algorithm>

#include "pando/backends/cpu/fused/iteration.hpp"

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
  // Rows of the last dimension follow each other by its strides.
  const bool has_rows = !from_.shape.empty();
  const std::int64_t block = has_rows ? from_.shape.back() : 1;
  const std::int64_t from_row = has_rows ? from_.strides.back() * bytes : 0;
  const std::int64_t to_row = has_rows ? to_.strides.back() * bytes : 0;
  for (std::int64_t count = 0; begin < end; begin += count) {
    count = std::min(end - begin, block - begin % block);
    const SourceRows source{from + strided_offset(from_, begin) * bytes, from_row};
    const TargetRows target{to + strided_offset(to_, begin) * bytes, to_row};
    if (from_step_ == 1 && to_step_ == 1) {
      copy_rows(source, target, row_ * bytes, count);
    } else {
      copy_strided_rows(source, target, count);
    }
  }
}

void StridedCopy::copy_strided_rows(const SourceRows& from, const TargetRows& to,
                                    std::int64_t rows) const {
  with_element(bytes_, [&](auto element) {
    using T = decltype(element);
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto* x = reinterpret_cast<const T*>(from.first + r * from.step);
      auto* y = reinterpret_cast<T*>(to.first + r * to.step);
      for (std::int64_t i = 0; i < row_; ++i) y[i * to_step_] = x[i * from_step_];
    }
  });
}

}  // namespace pando::cpu
