// float16 to float32 and back, row by row.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pando::cpu {

void halves_to_floats(const std::uint16_t* from, float* to, std::size_t count);
/// Rounds to nearest even.
void floats_to_halves(const float* from, std::uint16_t* to, std::size_t count);

}  // namespace pando::cpu
