// The body of a fused kernel in the one form that both of its emitters read: micro-ops (plan.cpp)
// and machine code (compiled_chain.cpp).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pando/backends/cpu/fused/micro_op.hpp"
#include "pando/program/program.hpp"

namespace pando::cpu {

/// A value or a store.
struct FusedOp {
  enum class Kind : std::uint8_t {
    Input,      // block of input `index`
    Generated,  // block of generated operand `index`
    Constant,   // block of constant `index`
    Chain,
    Tile,
    StoreRaw,            // the operand's lanes as they are, to output `index`
    StoreHalfPrecision,  // float32 lanes as `format`
    StoreTile,           // by tile op
  };
  Kind kind = Kind::Constant;
  ChainOp chain = ChainOp::Move;
  TileFunction tile = nullptr;
  ScalarOp op = ScalarOp::Constant;  // that it comes from, for tile ops and stores
  DType format = DType::Float16;     // of StoreHalfPrecision
  int index = 0;
  int lane_bytes = 4;
  std::array<int, 3> operands = {-1, -1, -1};
  bool uniform = false;  // all lanes of all blocks are equal
  int uses = 0;

  bool is_block() const {
    return kind == Kind::Input || kind == Kind::Generated || kind == Kind::Constant;
  }
  bool is_store() const {
    return kind == Kind::StoreRaw || kind == Kind::StoreHalfPrecision || kind == Kind::StoreTile;
  }
  bool operator==(const FusedOp&) const = default;
};

/// A block made by the machine itself before the ops of a chunk run.
struct GeneratedOperand {
  bool is_philox = false;  // else the element's index
  std::uint16_t key0 = 0;  // Philox: slots of blocks with equal lanes
  std::uint16_t key1 = 0;
  std::uint32_t stream = 0;
  bool operator==(const GeneratedOperand&) const = default;
};

/// A division by a uniform value, and the uniform ops from which machine code makes the quotient
/// (uniform_division.hpp).
struct UniformDivision {
  int op = -1;
  int divisor = -1;
  int magnitude = -1, reciprocal = -1;
  int scale = -1, negative = -1;  // one of the two
  bool operator==(const UniformDivision&) const = default;
};

/// Values are named by their place in `ops`, which no pass changes.
struct FusedProgram {
  std::vector<FusedOp> ops;
  /// What runs for every block, stores included, in order. Uniform ops run once, before.
  std::vector<int> body;
  std::vector<int> stores;  // in program order
  /// The values of the Philox keys of each generated operand (-1 for indices).
  std::vector<std::array<int, 2>> keys;
  std::vector<GeneratedOperand> generated;
  std::vector<std::pair<std::uint64_t, std::size_t>> constants;  // bits, bytes of a lane
  std::vector<UniformDivision> uniform_divisions;

  const FusedOp& op(int id) const { return ops[static_cast<std::size_t>(id)]; }
  FusedOp& op(int id) { return ops[static_cast<std::size_t>(id)]; }
  bool operator==(const FusedProgram&) const = default;
};

/// Whether every element of the operand is the same.
bool is_uniform(const OperandDesc& operand);

/// One op per scalar instruction that the stores need; conversions that keep the bits vanish.
FusedProgram build_program(const KernelSpec& spec);

/// For the micro-ops: merges neighbours into chain ops of two steps. Every step keeps its rounding.
void combine_ops(FusedProgram& program);

/// One line for each op of the body and each value that it reads: `%5 = AddF %3 %4`.
std::string program_text(const FusedProgram& program);

/// Throws InternalError unless every op of the body reads blocks, uniform values and values of
/// earlier ops, and every store is in the body once.
void verify_program(const FusedProgram& program);

}  // namespace pando::cpu
