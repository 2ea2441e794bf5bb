// Whether a program that was read from a file can be run without leaving its memory.
#pragma once

#include "pando/program/program.hpp"

namespace pando {

/// Throws Error unless every index names something that exists, functions call only functions
/// before them, and what instructions access of the frame and of persistent memory lies within. The
/// bytes behind arguments and the attributes of kernels are not looked at.
void check_program(const Program& program);

}  // namespace pando
