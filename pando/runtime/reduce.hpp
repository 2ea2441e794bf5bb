// Reductions over the members of a group, element by element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pando/base/dtype.hpp"
#include "pando/base/reduction.hpp"

namespace pando {

/// Elements of one call of `reduce_elements` at most.
inline constexpr std::int64_t kReduceBlock = 2048;

/// result[i] = the reduction of inputs[0][i], inputs[1][i], ... in this order, for i < count, which
/// is at most kReduceBlock. `dtype`: float32, float16 or bfloat16 (added up in float32 and rounded
/// once), int32 or uint32 (wrapping; a mean is rounded towards zero). `result` overlaps no input.
void reduce_elements(Reduction reduction, DType dtype, std::span<const std::byte* const> inputs,
                     std::int64_t count, std::byte* result);

}  // namespace pando
