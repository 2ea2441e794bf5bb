// Looks for NaN and infinities that kernels make of other numbers.
#pragma once

#include <cstddef>
#include <vector>

#include "pando/program/program.hpp"

namespace pando {

/// Which numbers that are not finite some operands have.
struct NonFinite {
  bool nan = false;
  bool infinity = false;
};

/// What a kernel was given.
struct GivenToKernel {
  /// An output that lies in the memory of an input, as it was.
  struct Overwritten {
    std::byte* place;
    std::vector<std::byte> bytes;
  };
  NonFinite numbers;
  std::vector<Overwritten> overwritten;
};

/// For kernels whose memory this process may read. A number that is copied, selected or computed
/// from one of its own kind was not made: the mask of an attention may have infinities.
class FiniteChecks {
 public:
  /// Keeps a reference.
  explicit FiniteChecks(const Program& program);

  /// What a kernel is given, before it runs.
  GivenToKernel given_to(const Instruction& kernel, std::byte* const* operands) const;
  /// After it ran. Throws ApplicationFault, which names the op, if its outputs have a NaN but
  /// nothing that it was given had, or an infinity but nothing had a NaN or an infinity. What it
  /// overwrote, such as a weight, is then as before.
  void check(const Instruction& kernel, std::byte* const* operands,
             const GivenToKernel& given) const;

 private:
  const Program& program_;
  std::vector<NonFinite> constants_;  // that kernels have in themselves, by kernel
};

}  // namespace pando
