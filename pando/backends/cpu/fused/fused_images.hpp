// Which operands of fused kernels are images.
#pragma once

#include "pando/program/kernel.hpp"
#include "pando/program/program.hpp"

namespace pando::cpu {

/// See Target::images_of. Values may not depend on the number of an element, and whatever is no
/// image of the common shape is one value per channel, per sample, or for all.
KernelImages images_of_fused(const KernelSpec& spec);

}  // namespace pando::cpu
