// What ranks get of a collective, computed from the inputs of all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pando/runtime/communicator.hpp"

namespace pando {

/// Keeps room between calls.
class CollectiveElements {
 public:
  /// What rank `rank` gets. `inputs`: of all ranks, in order; none overlaps `output`.
  void compute(const Collective& collective, int rank, const std::vector<const std::byte*>& inputs,
               std::byte* output);
  /// Reduces elements [begin, end) and writes them to each of `outputs` from element `to` on. An
  /// output overlaps an input only when it is the same memory and `to` is `begin`.
  void reduce(const Collective& collective, const std::vector<const std::byte*>& inputs,
              std::int64_t begin, std::int64_t end, const std::vector<std::byte*>& outputs,
              std::int64_t to);

 private:
  std::vector<const std::byte*> block_inputs_;
  std::vector<std::byte*> own_output_;
};

/// A ReduceScatter that reduces nothing: the part of rank `rank` of its own input.
void cut_own_part(const Collective& collective, int rank, const std::byte* input,
                  std::byte* output);

}  // namespace pando
