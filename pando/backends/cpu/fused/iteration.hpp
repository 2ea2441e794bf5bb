// How one operand is walked in the C order of the iteration space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pando/program/program.hpp"

namespace pando::cpu {

class OperandIteration {
 public:
  explicit OperandIteration(const OperandDesc& desc);

  std::size_t bytes() const { return bytes_; }
  /// Every element is the same one.
  bool is_scalar() const { return scalar_; }
  /// Element i of the iteration space is element i of memory.
  bool is_linear() const { return linear_; }

  /// Collects elements [first, first + count) from `memory` into `tile`.
  void gather(const std::byte* memory, std::int64_t first, std::int64_t count,
              std::byte* tile) const;
  /// The reverse.
  void scatter(const std::byte* tile, std::int64_t first, std::int64_t count,
               std::byte* memory) const;

 private:
  /// Calls `body(memory offset, run length)` for the runs along the innermost dimension.
  template <class Body>
  void for_each_run(std::int64_t first, std::int64_t count, const Body& body) const;

  struct Dimension {
    std::int64_t size;
    std::int64_t stride;
  };
  std::size_t bytes_;
  bool scalar_ = false;
  bool linear_ = false;
  std::vector<Dimension> dimensions_;  // adjacent ones merged, outermost first, never empty
};

}  // namespace pando::cpu
