// Sums of probabilities given by their logarithms.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace pando::cpu {

inline constexpr double kLogOfZero = -std::numeric_limits<double>::infinity();

/// ln(e^a + e^b); NaN if either is.
inline double log_sum(double a, double b) {
  if (a == kLogOfZero && b == kLogOfZero) return kLogOfZero;
  return std::max(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
}

}  // namespace pando::cpu
