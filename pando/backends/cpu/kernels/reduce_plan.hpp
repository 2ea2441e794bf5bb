// The loop nest of a reduction over a strided operand.
#pragma once

#include "pando/backends/cpu/kernel_table.hpp"

namespace pando::cpu {

struct StridedDims {
  Shape shape;
  Strides strides;
};

/// Offset of element `index` (C order) of the dimensions.
inline std::int64_t strided_offset(const StridedDims& dims, std::int64_t index) {
  std::int64_t offset = 0;
  for (std::size_t d = dims.shape.size(); d-- > 0 && index > 0;) {
    offset += index % dims.shape[d] * dims.strides[d];
    index /= dims.shape[d];
  }
  return offset;
}

/// Output (k, c) is the reduction over (r, i) of in[kept(k) + c * column_stride + reduced(r) +
/// i * run_stride]. Contiguous columns when the operand's unit stride is kept.
struct ReducePlan {
  ReducePlan(const OperandDesc& operand, const Ints& axes);

  StridedDims kept;     // without the columns
  StridedDims reduced;  // without the run
  std::int64_t columns = 1, column_stride = 1;
  std::int64_t run = 1, run_stride = 1;

  std::int64_t outer_count() const { return num_elements(reduced.shape); }
  /// Moves part of the run to `reduced`, so that outer_count() reaches `pieces` where it divides.
  void split_run(std::int64_t pieces);
};

}  // namespace pando::cpu
