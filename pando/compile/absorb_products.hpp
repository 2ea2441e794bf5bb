// Matrix products computed by the fused kernels that read them.
#pragma once

#include "pando/program/target.hpp"
#include "pando/steps/step_function.hpp"

namespace pando {

/// A MatMul kernel whose result is read by one Fused kernel alone becomes part of that kernel,
/// where `target` wants it (Target::computes_inside) and nothing writes its matrices in between.
/// In pieces, its result then never lies in memory. In an output, the kernel becomes the epilogue
/// of its one product: only if that output is new memory, and no matrix lives longer for it.
void absorb_products(StepProgram& program, Target& target);

}  // namespace pando
