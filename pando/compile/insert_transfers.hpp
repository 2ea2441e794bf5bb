// How values get from one device to another.
#pragma once

#include "pando/steps/step_function.hpp"

namespace pando {

/// Makes copies between devices a send and a receive. Where devices do not share memory, so does
/// what an instruction reads or writes on another device than its own: it gets the value before and
/// gives it back afterwards, in a storage of its own device, and a value that has come stays good
/// until somebody writes the original. Then also each device of a branch gets the condition.
void insert_transfers(StepProgram& program);

}  // namespace pando
