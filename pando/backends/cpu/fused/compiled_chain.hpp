// Machine code for the body of a fused program, made when its kernel is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "pando/backends/cpu/fused/register_plan.hpp"

namespace pando::cpu {

/// The lanes of a row are a multiple of it.
inline constexpr std::int64_t kChainRowLanes = 16;

/// Rows of one length; a slot that moves has the lanes of a row one after the other.
struct ChainRun {
  const std::byte* const* slots = nullptr;
  std::int64_t lanes = 0;  // of a row
  std::int64_t rows = 1;
  /// By slot, bytes from one row to the next; not read for one row, nor for slots that do not move.
  const std::int64_t* row_steps = nullptr;
  /// Writes past the caches; every row of a slot that is stored to begins at a multiple of 32
  /// bytes.
  bool streams = false;
};

/// Values stay in registers from op to op, which the micro-ops, having one block in registers, can
/// do for one value only. Every op rounds as the micro-op does: results are equal bit by bit.
class CompiledChain {
 public:
  virtual ~CompiledChain() = default;
  virtual void run(const ChainRun& run) const = 0;
  virtual std::size_t code_bytes() const = 0;
  virtual RegisterWidth width() const = 0;
};

/// `may_stream`: runs may write past the caches, which is done with 256 bits. `widest`: not used
/// where the machine does not have it. nullptr where this machine (x86-64 with AVX2, FMA
/// and F16C), this program (no more than 13 slots that move) or this process (no memory that may be
/// executed) cannot have it. Equal chains that exist at the same time are one.
std::shared_ptr<const CompiledChain> compile_chain(ChainBody chain, bool may_stream,
                                                   RegisterWidth widest = RegisterWidth::Bits512);

}  // namespace pando::cpu
