// The arguments of a loop's body that are not the user's.
#pragma once

namespace pando {

/// What a loop's op, and its body, take and give before the values of the user's: an iterator and a
/// condition, and a condition.
inline constexpr int kLoopControlInputs = 2, kLoopControlOutputs = 1;

}  // namespace pando
