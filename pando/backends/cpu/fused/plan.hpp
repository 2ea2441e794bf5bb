// From a scalar program to micro-ops, and to what machine code is made from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pando/backends/cpu/fused/register_plan.hpp"
#include "pando/program/program.hpp"

namespace pando::cpu {

/// Micro-ops and the slots they use: [inputs, outputs, generated, constants, tiles].
struct FusedPlan {
  std::vector<MicroOp> prologue;  // once: what depends on uniform inputs and constants only
  std::vector<MicroOp> body;      // for every block
  std::size_t num_inputs = 0;
  std::size_t num_outputs = 0;
  std::vector<GeneratedOperand> generated;
  std::vector<std::pair<std::uint64_t, std::size_t>> constants;  // bits, bytes of a lane
  std::size_t num_tiles = 0;
  /// The body for machine code; empty where not asked for, or where it has tile ops. The layout
  /// says which slots move.
  ChainBody chain;
  /// Slots of the magnitudes of the divisors by which that divides without the divider.
  std::vector<std::uint16_t> divisors;
  /// (input, output) of one layout where a block of the input is read after that of the output is
  /// written: if they are the same memory, the input has to be copied first.
  std::vector<std::pair<int, int>> hazards;
  std::size_t num_chain_ops = 0;  // of the body
  std::size_t num_tile_ops = 0;
  std::string listing;

  std::size_t first_output() const { return num_inputs; }
  std::size_t first_generated() const { return num_inputs + num_outputs; }
  std::size_t first_constant() const { return first_generated() + generated.size(); }
  std::size_t first_tile() const { return first_constant() + constants.size(); }
  std::size_t num_slots() const { return first_tile() + num_tiles; }
};

/// `with_chain`: also the body for machine code. Throws NotSupported for complex dtypes and for ops
/// that a lane type does not have, InternalError for malformed programs.
FusedPlan plan_fused(const KernelSpec& spec, bool with_chain);

}  // namespace pando::cpu
