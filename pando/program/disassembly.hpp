// Compiled programs as text.
#pragma once

#include <string>

#include "pando/program/program.hpp"

namespace pando {

/// What an instruction does, in a few words: `MatMul`, `Call f`, `HostLoad x`.
std::string instruction_name(const Program& program, const Instruction& instruction);

/// Every function with one line per instruction: name, operands, the op it comes from.
std::string disassemble(const Program& program);

}  // namespace pando
