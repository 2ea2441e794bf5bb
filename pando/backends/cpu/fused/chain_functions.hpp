// What machine code has in place of ops that it does not have as one instruction or that others are
// faster than.
#pragma once

#include "pando/backends/cpu/fused/fused_program.hpp"

namespace pando::cpu {

/// Whether every op of the body is a chain op, or is written out, on lanes of four bytes.
bool is_chain(const FusedProgram& program);

/// Puts chain ops in the place of each sigmoid and of each division in `uniform_divisions`. Sigmoid
/// rounds as the tile op does: results are equal bit by bit.
void write_out_functions(FusedProgram& program);

}  // namespace pando::cpu
