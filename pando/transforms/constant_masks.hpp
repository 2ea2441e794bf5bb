// Constants that hide scores of attention.
#pragma once

#include <optional>

#include "pando/base/band.hpp"
#include "pando/ir/op.hpp"
#include "pando/ir/tensor.hpp"

namespace pando {

/// The value of a float16, bfloat16 or float32 constant of one element.
std::optional<double> scalar_of(const Tensor& tensor);

/// The diagonals that `mask` keeps of its input `scores`, where those are the only ones that it
/// hides: Add of a constant that is 0 there and -1e8 or less elsewhere, or Where with such a
/// condition and value. float32; every row keeps something.
std::optional<Band> band_kept_by(const Op& mask, int scores);

}  // namespace pando
