// The body of a fused program as a list of values: what machine code is made from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "pando/backends/cpu/fused/micro_op.hpp"

namespace pando::cpu {

struct NodeGraph;

/// A chain op of one step, or a store. Lanes have four bytes, float16 ones in memory two.
struct ChainStep {
  enum class Kind : std::uint8_t { Compute, Store, StoreHalf };
  Kind kind = Kind::Compute;
  ChainOp op = ChainOp::Move;
  /// Values of earlier steps, by number; blocks in memory as block_in_slot(); kLiteral, for one of
  /// them; kNoOperand.
  std::array<int, 3> operands;
  int output_slot = 0;        // of a store
  std::uint32_t literal = 0;  // bits that all lanes of kLiteral have
};

constexpr int kNoOperand = -1 << 30;
constexpr int kLiteral = kNoOperand + 1;
constexpr int block_in_slot(int slot) { return ~slot; }
constexpr bool is_block_in_slot(int operand) { return operand < 0 && operand > kLiteral; }
constexpr int slot_of_block(int operand) { return ~operand; }

/// Whether every op of the body is a chain op or sigmoid, on lanes of four bytes.
bool has_steps(const NodeGraph& graph);

/// `graph`: its nodes not combined. `order`: its body and stores. `slot_of`: of a node that is a
/// block in memory when the body runs.
std::vector<ChainStep> chain_steps(const NodeGraph& graph, const std::vector<int>& order,
                                   const std::function<int(int)>& slot_of,
                                   std::size_t first_output);

/// Whether that is unsafe when both slots are the same memory.
bool is_read_after_store(const std::vector<ChainStep>& steps, int input_slot, int output_slot);

}  // namespace pando::cpu
