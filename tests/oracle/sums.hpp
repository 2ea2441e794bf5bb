// What summing in another order, or in float32, does to a result.
#pragma once

#include <vector>

#include "tests/oracle/rules.hpp"

namespace pando::oracle {

/// Adds to every output of a sum of products (of any op kind that is one; others stay as they are)
/// the rounding error that a sum in float32 may have: 2^-23 times the sum of the absolute terms,
/// up or down by chance (by turns they would cancel in a sum of such sums). Sums of whole numbers
/// that float32 holds have none.
void add_sum_error(const Op& op, const Rule& rule, const Inputs& inputs,
                   std::vector<Array>& outputs);

}  // namespace pando::oracle
