// Computing again what is cheap, where keeping it makes the peak of memory.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>

#include "pando/ir/graph.hpp"

namespace pando {

/// What a compiled program has too much.
struct MemoryExcess {
  std::int64_t bytes = 0;
  /// Ids of tensors that are alive at its peak: only the plan knows which results share a buffer.
  std::unordered_set<std::string> alive_at_peak = {};
};

struct RematerializeOptions {
  /// Smaller tensors are kept.
  std::int64_t least_bytes = std::int64_t{1} << 16;
  /// Nothing is done if it frees less than this part of the peak.
  double least_gain = 1.0 / 32;
  /// Products and pointwise ops are run again, too, large results first, until so many bytes of the
  /// peak are free or nothing is left to repeat. However little it is, it is done.
  const MemoryExcess* excess = nullptr;
};

/// A tensor that waits for its next reader over the peak of `graph` is computed again after the
/// peak, if ops that are cheap to repeat (OpDef) make it of tensors that are alive there anyway: in
/// training, activations and norms, of their inputs. It is computed right before that reader, or
/// before its operands are read or changed last. The order of ops is taken for the order of
/// execution; nothing should reorder them afterwards.
void rematerialize(Graph& graph, const RematerializeOptions& options);
/// The same with the options that pay.
void rematerialize_large(Graph& graph);

}  // namespace pando
