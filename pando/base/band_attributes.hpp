// The attributes of a matrix product that name the bands of its matrices.
#pragma once

#include <algorithm>
#include <array>

#include "pando/base/attributes.hpp"

namespace pando {

inline constexpr std::array<const char*, 3> kBandAttributes = {"lhs_band", "rhs_band", "out_band"};

inline bool has_band(const Attributes& attributes) {
  return std::any_of(kBandAttributes.begin(), kBandAttributes.end(),
                     [&](const char* name) { return attributes.has(name); });
}

}  // namespace pando
