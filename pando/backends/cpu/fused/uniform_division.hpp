// Quotients by a divisor that is the same for all elements, made without the divider of the
// processor (docs/decisions/0012-bias-correction.md).
#pragma once

#include <cstdint>

#include "pando/backends/cpu/fused/body_writer.hpp"

namespace pando::cpu {

/// The sign of a float.
inline constexpr std::uint32_t kSignBit = 0x80000000U;

/// Finds the float32 divisions by uniform values, and adds the ops that write_quotient() needs: for
/// a divisor d its magnitude |d|, and either 1 / d and -d, where the processor takes floats apart,
/// or -1 / |d| and the scale 2^64 with the sign of d.
void prepare_uniform_divisions(FusedProgram& program);

/// nullptr where the op is none of them.
const UniformDivision* uniform_division(const FusedProgram& program, int op);

/// Writes ops in the place of the division. The bits of the quotient are those of the division
/// (those of NaN apart) where allows_products() holds for the divisor's magnitude.
void write_quotient(BodyWriter& writer, const UniformDivision& division, int dividend);

/// Whether this thread takes denormals as zeros, and the magnitude is in [2^-60, 2^60].
bool allows_products(float magnitude);

}  // namespace pando::cpu
