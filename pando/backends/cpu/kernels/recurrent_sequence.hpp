// What RecurrentSequence and its gradient share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/recurrent_cells.hpp"

namespace pando::cpu {

/// Sigmoids and tangents cost about as much as so many copies.
constexpr std::int64_t kSequenceElementsPerTask = 1 << 11;

struct Sequence {
  Cell cell = Cell::Lstm;
  std::int64_t steps = 0, batch = 0, hidden = 0, gates = 0;
  bool reverse = false;
  int threads = 1;

  std::int64_t state_size() const { return batch * hidden; }
  std::int64_t parts_size() const { return gates * batch * hidden; }
  /// Where step number `s` stands in time, in the direction of the layer.
  std::int64_t time(std::int64_t s) const { return reverse ? steps - 1 - s : s; }
  /// The state that step number `s` begins with, of a tensor of states and the first one.
  const float* before(const float* states, const float* first, std::int64_t s) const {
    return s == 0 ? first : states + time(s - 1) * state_size();
  }
  /// Calls body(row) for all rows of the batch.
  template <class Body>
  void for_rows(const Body& body) const {
    parallel_for(threads, batch, row_grain(gates * hidden, kSequenceElementsPerTask),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t row = begin; row < end; ++row) body(row);
                 });
  }
};

/// Reads the sizes from the states and the weights, or returns why they do not fit.
std::string parse_sequence(const KernelRequest& request, const OperandDesc& states,
                           const OperandDesc& weights, Sequence& p);

/// A product (batch, k) x (k, n) whose right side has these strides.
KernelPlan plan_step_product(const Sequence& p, std::int64_t k, std::int64_t n,
                             std::int64_t rhs_row, std::int64_t rhs_column, bool has_bias);

/// As an operand of a kernel.
inline std::byte* bytes_of(const float* at) {
  return reinterpret_cast<std::byte*>(const_cast<float*>(at));
}

inline std::size_t bytes_of_floats(std::int64_t count) {
  return scratch_aligned(static_cast<std::size_t>(count) * sizeof(float));
}

}  // namespace pando::cpu
