// Runs scalar programs at compile time, one element at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pando/base/scalar_program.hpp"

namespace pando {

/// Runs `program` on one element: `inputs[k]` points at the element of operand k in its storage
/// dtype, `outputs[k]` at where output k goes. `index`: linear index of the element (Iota). Every
/// instruction is rounded to its lane: float lanes compute in double and round once (basic
/// arithmetic is exact), integer lanes wrap. Returns false, with outputs unspecified, when the
/// program has no defined result here: a float out of range of the integer it is converted to, or a
/// complex operand.
bool evaluate_scalar(const ScalarProgram& program, std::span<const std::byte* const> inputs,
                     std::span<std::byte* const> outputs, std::uint32_t index);

}  // namespace pando
