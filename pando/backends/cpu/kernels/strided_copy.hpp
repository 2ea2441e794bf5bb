// Copies between two strided regions of one shape.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pando/backends/cpu/kernels/reduce_plan.hpp"
#include "pando/backends/cpu/row_copy.hpp"

namespace pando::cpu {

/// Prepared at compile time; strides in elements, `bytes` per element.
class StridedCopy {
 public:
  StridedCopy() = default;
  StridedCopy(const Shape& shape, const Strides& from, const Strides& to, std::size_t bytes);

  /// Copies rows [begin, end) of rows().
  void run(const std::byte* from, std::byte* to, std::int64_t begin, std::int64_t end) const;
  std::int64_t rows() const { return rows_; }
  std::int64_t row_bytes() const { return row_ * static_cast<std::int64_t>(bytes_); }

 private:
  /// Rows whose elements do not follow each other.
  void copy_strided_rows(const SourceRows& from, const TargetRows& to, std::int64_t rows) const;

  StridedDims from_, to_;  // of the rows
  std::int64_t rows_ = 0, row_ = 1, from_step_ = 1, to_step_ = 1;
  std::size_t bytes_ = 1;
};

/// A tensor seen around one axis: outer x size x inner elements.
struct AxisView {
  std::int64_t outer = 1, size = 1, inner = 1;

  AxisView() = default;
  AxisView(const Shape& shape, std::int64_t axis) : size(shape[static_cast<std::size_t>(axis)]) {
    for (std::int64_t d = 0; d < static_cast<std::int64_t>(shape.size()); ++d) {
      if (d < axis) outer *= shape[static_cast<std::size_t>(d)];
      if (d > axis) inner *= shape[static_cast<std::size_t>(d)];
    }
  }
};

/// Input 0 around its attribute axis, which may be negative.
inline AxisView axis_view(const KernelRequest& request) {
  const Shape& shape = request.input(0).shape;
  return AxisView(
      shape, normalise_axis(request.attributes().integer("axis"),
                            static_cast<std::int64_t>(shape.size()), request.spec.kind.c_str()));
}

}  // namespace pando::cpu
