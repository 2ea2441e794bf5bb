// Which values of a chain are in which registers, op by op.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "pando/backends/cpu/fused/fused_program.hpp"

namespace pando::cpu {

/// A body for machine code: chain ops and stores on lanes of four bytes, in memory some have
/// two.
struct ChainBody {
  FusedProgram program;
  /// By op, of blocks, uniform values and stores.
  std::vector<int> slots;
  /// By slot, whether its lanes differ from block to block.
  std::vector<bool> moves;

  int slot(int id) const { return slots[static_cast<std::size_t>(id)]; }
  bool is_moving_block(int id) const {
    const FusedOp& op = program.op(id);
    return op.is_block() && op.kind != FusedOp::Kind::Constant &&
           moves[static_cast<std::size_t>(slot(id))];
  }
  /// Whether an op of the body makes it.
  bool is_made(int id) const {
    return program.op(id).kind == FusedOp::Kind::Chain && !program.op(id).uniform;
  }
  std::uint32_t constant_bits(int id) const {
    const auto index = static_cast<std::size_t>(program.op(id).index);
    return static_cast<std::uint32_t>(program.constants[index].first);
  }
  bool operator==(const ChainBody&) const = default;
};

/// Of vector registers. Bits512: AVX-512, with twice as many of them.
enum class RegisterWidth : std::uint8_t { Bits256, Bits512 };

/// Where an op finds an operand.
struct OperandPlace {
  enum class Kind : std::uint8_t {
    None,
    Register,   // register `index`
    Memory,     // the current lanes of slot `index`
    Invariant,  // slot `index`, whose lanes are the same for all blocks
    Literal,    // all lanes have `bits`
  };
  Kind kind = Kind::None;
  int index = 0;
  std::uint32_t bits = 0;
};

struct RegisterAction {
  enum class Kind : std::uint8_t {
    Load,    // current lanes of slot `place` to `reg`
    Spill,   // `reg` to spill place `place`
    Reload,  // spill place `place` to `reg`
    Op,      // op `place`: its operands, its value (unless a store) to `reg`
  };
  Kind kind = Kind::Op;
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

/// Memory is read and written in the order of the body. Needs four registers. What does not fit is
/// spilled: the value whose next use is farthest, lanes of a slot without a store.
RegisterPlan plan_registers(const ChainBody& chain, int registers);

}  // namespace pando::cpu
