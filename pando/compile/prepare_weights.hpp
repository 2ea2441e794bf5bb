// Weights in the layouts that kernels want, made once and not in each run.
#pragma once

#include "pando/program/target.hpp"
#include "pando/steps/step_function.hpp"

namespace pando {

/// Where a kernel of the main function would lay out a variable or constant again in each run
/// (Target::prepared_input), and no run writes it, the kernel reads a persistent tensor instead,
/// which a new function makes: Program::prepare_weights_function. In the order of the program, up
/// to Target::most_prepared_bytes.
void prepare_weights(StepProgram& program, Target& target);

}  // namespace pando
