// The graph between a scalar program and its micro-ops: one node per micro-op or block in memory.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "pando/backends/cpu/fused/plan.hpp"

namespace pando::cpu {

struct Node {
  enum class Kind : std::uint8_t {
    Input,      // block of input `index`
    Generated,  // block of generated operand `index`
    Constant,   // block of constant `index`
    Chain,
    Tile,
    StoreRaw,   // the operand's lanes as they are, to output `index`
    StoreHalf,  // float32 lanes as float16
    StoreTile,  // by tile op
  };
  Kind kind = Kind::Constant;
  ChainOp chain = ChainOp::Move;
  TileFunction tile = nullptr;
  ScalarOp op = ScalarOp::Constant;  // for the listing
  int index = 0;
  int lane_bytes = 4;
  std::array<int, 3> operands = {-1, -1, -1};
  bool uniform = false;  // all lanes of all blocks are equal
  int uses = 0;

  bool is_block() const {
    return kind == Kind::Input || kind == Kind::Generated || kind == Kind::Constant;
  }
  bool is_store() const {
    return kind == Kind::StoreRaw || kind == Kind::StoreHalf || kind == Kind::StoreTile;
  }
};

/// A division by a uniform value, and the uniform nodes from which machine code makes the quotient
/// (uniform_division.hpp).
struct UniformDivision {
  int node = -1;
  int divisor = -1;
  int magnitude = -1, reciprocal = -1, scale = -1;
};

struct NodeGraph {
  std::vector<Node> nodes;
  std::vector<int> stores;  // in program order
  /// The nodes of the Philox keys of each generated operand (-1 for indices).
  std::vector<std::array<int, 2>> keys;
  std::vector<GeneratedOperand> generated;
  std::vector<std::pair<std::uint64_t, std::size_t>> constants;
  std::vector<UniformDivision> uniform_divisions;
};

/// One node per scalar instruction that the stores need; conversions that keep the bits vanish.
NodeGraph build_nodes(const KernelSpec& spec);

/// Merges neighbours into chain ops of two steps. Every step keeps its rounding.
void combine_nodes(NodeGraph& graph);

}  // namespace pando::cpu
