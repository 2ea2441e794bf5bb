// The float formats of 16 bits to float32 and back, row by row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pando/base/dtype.hpp"

namespace pando::cpu {

/// `format`: Float16 or BFloat16.
void half_precision_to_floats(DType format, const std::uint16_t* from, float* to,
                              std::size_t count);
/// Rounds to nearest even.
void floats_to_half_precision(DType format, const float* from, std::uint16_t* to,
                              std::size_t count);

}  // namespace pando::cpu
