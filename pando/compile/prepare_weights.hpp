// Weights in the layouts that kernels want, made once and not in each run.
#pragma once

#include "pando/program/target.hpp"
#include "pando/steps/step_function.hpp"

namespace pando {

/// Where a kernel of the main function would lay out a variable or constant again in each run
/// (Target::prepared_input), and no run writes it, the kernel reads a persistent tensor instead,
/// which a new function makes (PersistentTensor::make_function).
///
/// A tensor that nothing else reads, and whose value can be restored from what is made of it, is
/// staged: persistent memory has it once. Others are there twice from then on, and are laid out in
/// the order of the program, up to Target::most_prepared_bytes. Programs for several devices stage
/// none.
void prepare_weights(StepProgram& program, Target& target);

}  // namespace pando
