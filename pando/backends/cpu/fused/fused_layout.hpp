// How a fused kernel reaches its operands: the rows it goes through, and the blocks in a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pando/backends/cpu/fused/iteration.hpp"
#include "pando/backends/cpu/fused/plan.hpp"

namespace pando::cpu {

/// How the blocks of an operand are reached.
enum class Access : std::uint8_t {
  Direct,    // in the caller's memory, one after the other
  Splat,     // one element per row, repeated in a buffer
  Repeated,  // the few elements that neighbouring rows share, repeated in a buffer
  Gathered,  // element by element into (or out of) a buffer
  Computed,  // an element of a product, in a buffer
};

/// An input that is a product of two others, which stand after those of the common shape.
struct FusedProduct {
  std::size_t input, left, right;
  RowProducts shape;  // without the addresses

  /// Elements [first, first + count), in C order.
  void multiply(std::byte* const* operands, std::int64_t first, std::int64_t count,
                float* out) const;
};

/// Operands are the inputs of the common shape, then the outputs.
struct FusedLayout {
  /// `keep_rows`: rows are those of the shape.
  FusedLayout(const KernelSpec& spec, const FusedPlan& plan, std::int64_t block_lanes,
              bool keep_rows);

  std::size_t num_inputs = 0;
  std::size_t num_operands = 0;
  std::vector<std::size_t> bytes;  // of an element, by operand
  std::vector<bool> uniform;       // all elements are equal
  std::vector<FusedProduct> products;
  Iteration iteration;
  std::vector<Access> access;
  bool by_rows = false;
  std::int64_t rows = 0;
  std::int64_t row_length = 0;
  std::int64_t period = 0;  // elements that are repeated
  std::int64_t piece = 0;   // work is split between threads at multiples of this in a row
  /// Pieces of a row need not be run one by one.
  bool merges_pieces = false;

  bool is_input(std::size_t operand) const { return operand < num_inputs; }
  /// Where the operand is among those of run(): the matrices of products stand before the outputs.
  std::size_t position(std::size_t operand) const {
    return is_input(operand) ? operand : operand + 2 * products.size();
  }
  const FusedProduct* product_of(std::size_t operand) const;
  /// Those that number the rows.
  std::size_t outer_dimensions() const { return by_rows ? iteration.shape.size() - 1 : 0; }
  /// Results that the last cache could not keep push what it holds out of it, and are read into it
  /// before they are written.
  bool is_better_past_the_caches() const;
  /// By operand, bytes between the rows of the last outer dimension; empty where a row, all of
  /// whose lanes are in whole blocks, needs more than its addresses to be run.
  std::vector<std::int64_t> row_steps() const;

 private:
  void add_products(const KernelSpec& spec);
  void widen_rows(std::int64_t block_lanes);
  bool repeats(std::size_t operand) const;
  void choose_rows(const FusedPlan& plan, std::int64_t block_lanes, bool keep_rows);
  void choose_access(const FusedPlan& plan);
};

}  // namespace pando::cpu
