// Collectives as plain loops over numbers: what communicators are compared with.
#pragma once

#include <cstdint>
#include <vector>

#include "pando/runtime/communicator.hpp"

namespace pando::testing {

using Numbers = std::vector<double>;

/// What rank `rank` gets when the ranks give `inputs`. Exact for numbers that every dtype holds.
Numbers plain_collective(const Collective& collective, int rank,
                         const std::vector<Numbers>& inputs);

/// The numbers in the memory format of `dtype`, which is one that collectives reduce.
std::vector<std::byte> encode(const Numbers& numbers, DType dtype);
Numbers decode(const std::vector<std::byte>& bytes, DType dtype);

}  // namespace pando::testing
