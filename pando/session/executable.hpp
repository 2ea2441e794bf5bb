// What compiling an Ir gives: all that a session runs.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "pando/ir/tensor.hpp"
#include "pando/program/program.hpp"

namespace pando {

/// The value of a constant in persistent memory.
struct ProgramConstant {
  std::size_t persistent = 0;  // index into Program::persistent
  std::shared_ptr<HostArray> data;
};

struct Executable {
  Program program;
  std::vector<ProgramConstant> constants;
};

}  // namespace pando
