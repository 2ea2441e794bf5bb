// Which values of a chain are in which registers, step by step.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "pando/backends/cpu/fused/chain_steps.hpp"

namespace pando::cpu {

/// Where a step finds an operand.
struct OperandPlace {
  enum class Kind : std::uint8_t {
    None,
    Register,   // register `index`
    Memory,     // the current lanes of slot `index`
    Invariant,  // slot `index`, whose lanes are the same for all blocks
    Literal,    // of the step
  };
  Kind kind = Kind::None;
  int index = 0;
};

struct RegisterAction {
  enum class Kind : std::uint8_t {
    Load,    // current lanes of slot `place` to `reg`
    Spill,   // `reg` to spill place `place`
    Reload,  // spill place `place` to `reg`
    Step,    // step `place`: its operands, its value (unless a store) to `reg`
  };
  Kind kind = Kind::Step;
  int place = 0;
  int reg = 0;
  std::array<OperandPlace, 3> operands = {};
};

struct RegisterPlan {
  std::vector<RegisterAction> actions;
  int registers_used = 0;
  int spill_places = 0;
};

/// Whether the machine code of an op may read that operand from memory (one per op).
bool may_be_in_memory(ChainOp op, int operand);

/// Memory is read and written in the order of the steps: what is safe in place for the micro-ops
/// is safe here. `moves`: by slot, whether its lanes differ from block to block. Needs four
/// registers. What does not fit is spilled: the value whose next use is farthest, lanes of a slot
/// without a store.
RegisterPlan plan_registers(const std::vector<ChainStep>& steps, const std::vector<bool>& moves,
                            int registers);

}  // namespace pando::cpu
