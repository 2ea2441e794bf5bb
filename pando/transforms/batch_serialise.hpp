// Batch serialisation: one graph run for several micro-batches in a row, its inputs loaded and its
// results stored one by one. The building block of phased execution.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pando/transforms/autodiff.hpp"

namespace pando {

/// Where the values of one tensor come from or go to, step by step: a host stream, or entries of a
/// remote buffer that is seen as a matrix of rows and steps.
struct SerialHandle {
  const Stream* stream = nullptr;
  RemoteBuffer* buffer = nullptr;  // used when there is no stream

  enum class Row : std::uint8_t {
    Relative,  // row of the call + row_offset
    First,     // row 0
    Computed,  // what row_graph makes of the row of the call
  };
  Row row = Row::Relative;
  std::int64_t row_offset = 0;
  /// int32 scalar to int32 scalar.
  Graph* row_graph = nullptr;
  /// nullptr: entries are the values. Else graphs of one input and one output: `gather` makes the
  /// value of a loaded entry, `shard` the entry of a value to be stored.
  Graph* gather = nullptr;
  Graph* shard = nullptr;
};

using SerialHandles = std::vector<std::pair<Tensor*, SerialHandle>>;

struct SerialOptions {
  /// The result is called so, followed by `_subgraph(<n>)`.
  std::string name;
  std::int64_t steps = 1;
  std::int64_t rows = 1;
  /// Inputs of the graph and where they are loaded from.
  SerialHandles loads;
  /// Inputs or outputs of the graph and where they go. A tensor may be stored several times.
  SerialHandles stores;
  /// Input that gets a new seed in every step.
  Tensor* seed = nullptr;
  /// Loads and stores belong to the IO tiles.
  bool io_tiles = false;
  /// Step k + 1 is loaded and step k - 1 stored in the loop iteration that computes step k, without
  /// an order between them. Needs at least 2 steps, none of which may load what another one stores.
  bool overlapped = false;
  OpContext context = {};
};

struct BatchSerialised {
  /// Inputs: the row (int32 scalar), with `options.seed` the seed (uint32, 2 elements), then the
  /// inputs of the original graph that are neither loaded nor the seed. No outputs.
  Graph* graph = nullptr;
  /// Those inputs: original, new.
  std::vector<std::pair<Tensor*, Tensor*>> passed;
};

/// A graph that runs `graph` `options.steps` times. Step i of the call with row n uses entry
/// `(n + row_offset) * steps + i` (the row as `SerialHandle::row` says) of the buffers, which get
/// more entries if they need them. By-reference inputs that are passed keep their changes from step
/// to step. Seeds: `(seed of this step, next) = split_random_seed(seed)`.
///
/// Throws ValueError: steps or rows below 1, overlapped with fewer than 2 steps, a handle without
/// stream and buffer or for a tensor that is no input (output) of the graph.
BatchSerialised batch_serialise(Graph& graph, const SerialOptions& options);

struct BatchSerialisedPair {
  BatchSerialised forward;
  BatchSerialised gradient;
  /// The forward tensors that are stored in buffers.
  SerialHandles stored;
};

/// Serialises a forward graph and its gradient graph. A forward tensor that the gradient needs and
/// that is not in `named` (which the caller passes to the gradient) is loaded from the buffer it is
/// stored to or was loaded from; the others get a new buffer of rows x steps entries. The loads and
/// stores of `options` are for tensors of both graphs; name and seed are those of the forward
/// graph, `gradient_name` that of the gradient graph.
///
/// Throws ValueError when an output gradient has no load, RuntimeError-like Error when a needed
/// forward tensor is neither input nor output of the forward graph.
BatchSerialisedPair batch_serialise(const GradGraphInfo& info, const std::vector<Tensor*>& named,
                                    const SerialOptions& options, const std::string& gradient_name);

}  // namespace pando
