// The product of every step of a recurrent layer, whose weights are packed once for all steps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pando/backends/cpu/kernels/packed_panels.hpp"

namespace pando::cpu {

/// Units [unit, unit + units) of rows [row, row + rows) of the batch.
struct UnitTile {
  std::int64_t row = 0, rows = 0, unit = 0, units = 0;
};

/// Rows times the weights of a layer (gates * hidden, hidden), in tiles that hold everything about
/// some units, so that the thread that has their sums goes on with them.
class RecurrentProduct {
 public:
  RecurrentProduct() = default;
  /// The state (batch, hidden) times the transposed weights: all gates of a unit are in one tile.
  static RecurrentProduct of_states(std::int64_t batch, std::int64_t hidden, std::int64_t gates,
                                    int threads);
  /// The gradients of the gates (batch, gates * hidden) times the weights: the state's gradient.
  static RecurrentProduct of_gates(std::int64_t batch, std::int64_t hidden, std::int64_t gates,
                                   int threads);

  /// Whether packing the weights pays over so many steps.
  static bool is_worth_it(std::int64_t steps, std::int64_t batch, std::int64_t hidden);

  std::int64_t tiles() const { return row_parts_ * unit_parts_; }
  UnitTile tile(std::int64_t index) const;
  /// How many tiles are worth a thread.
  std::int64_t grain() const;
  /// From a gate of the sums of a tile to the next one, and from row to row.
  std::int64_t gate_step() const { return panel_.columns; }
  std::int64_t row_step() const { return gates_ * panel_.columns; }

  std::int64_t weight_floats() const;
  /// Packs the weights into `to`, on several threads.
  void pack(const float* weights, float* to) const;
  /// Gives back what pack() made of the weights.
  void unpack(const float* packed, float* weights) const;

  /// What a thread needs for itself.
  std::int64_t thread_floats() const { return row_floats() + part_rows_ * row_step(); }
  /// What a step reads.
  struct Operands {
    const float* weights = nullptr;  // packed
    const float* rows = nullptr;     // (batch, depth)
    const float* bias = nullptr;     // (gates * hidden), or nullptr
    const float* parts = nullptr;    // (batch, gates * hidden) that bodies read: brought near
  };
  /// Calls body(tile, sums of its first row) for tiles [begin, end). `scratch`: thread_floats().
  template <class Body>
  void for_tiles(const Operands& step, float* scratch, std::int64_t begin, std::int64_t end,
                 const Body& body) const {
    float* sums = scratch + row_floats();
    std::int64_t packed_row = -1;
    for (std::int64_t i = begin; i < end; ++i) {
      const UnitTile at = tile(i);
      if (at.row != packed_row) pack_part(step.rows, at, scratch);
      packed_row = at.row;
      multiply(step, at, scratch, sums);
      body(at, sums);
    }
  }

 private:
  /// `rows` in `count` panels of nearly equal sizes: one of a few rows would wait for its sums.
  struct RowPanels {
    std::int64_t rows, count;
    std::int64_t begin(std::int64_t i) const { return rows * i / count; }
    std::int64_t size(std::int64_t i) const { return begin(i + 1) - begin(i); }
  };
  RowPanels panels_of(const UnitTile& tile) const;
  /// Calls body(first weight, columns, packed) with where they begin, for the panels of the
  /// weights.
  template <class Body>
  void for_weight_panels(const Body& body) const;

  RecurrentProduct(std::int64_t batch, std::int64_t depth, std::int64_t units, std::int64_t gates,
                   bool transposed, int threads);
  std::int64_t row_floats() const;
  // Of the weights, in elements.
  std::int64_t column_stride() const { return transposed_ ? depth_ : 1; }
  std::int64_t depth_stride() const { return transposed_ ? 1 : units_; }
  void pack_part(const float* rows, const UnitTile& tile, float* to) const;
  void multiply(const Operands& step, const UnitTile& tile, const float* rows, float* sums) const;
  void bring_near(const float* parts, const UnitTile& tile, std::int64_t column, std::int64_t row,
                  std::int64_t rows) const;

  PackedTile panel_{};
  std::int64_t batch_ = 0, depth_ = 0, units_ = 0, gates_ = 0;
  bool transposed_ = false;
  std::int64_t part_rows_ = 0, row_parts_ = 0, unit_parts_ = 0;
  int threads_ = 1;
};

}  // namespace pando::cpu
