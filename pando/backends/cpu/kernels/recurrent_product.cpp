#include "pando/backends/cpu/kernels/recurrent_product.hpp"

#include <algorithm>

#include "pando/backends/cpu/parallel.hpp"

namespace pando::cpu {
namespace {

constexpr std::int64_t kMostRows = 144;  // whose packed states fit the second level
constexpr double kMinFlopsPerTask = 3e5;
// With fewer rows dot products with the weights as they are take as long as reading the weights.
constexpr std::int64_t kFewestRows = 17, kFewestSteps = 4;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

bool RecurrentProduct::is_worth_it(std::int64_t steps, std::int64_t batch) {
  return steps >= kFewestSteps && batch >= kFewestRows;
}

RecurrentProduct::RecurrentProduct(std::int64_t batch, std::int64_t hidden, std::int64_t gates,
                                   int threads)
    : panel_(packed_tile()), batch_(batch), hidden_(hidden), gates_(gates), threads_(threads) {
  unit_parts_ = ceil_div(hidden, panel_.columns);
  // Threads share rows as well where there are too few units.
  const std::int64_t wanted =
      std::max(ceil_div(batch, kMostRows), ceil_div(std::int64_t{threads}, unit_parts_));
  part_rows_ = ceil_div(ceil_div(batch, wanted), panel_.rows) * panel_.rows;
  row_parts_ = ceil_div(batch, part_rows_);
}

UnitTile RecurrentProduct::tile(std::int64_t index) const {
  UnitTile tile;
  tile.row = index / unit_parts_ * part_rows_;
  tile.rows = std::min(part_rows_, batch_ - tile.row);
  tile.unit = index % unit_parts_ * panel_.columns;
  tile.units = std::min(panel_.columns, hidden_ - tile.unit);
  return tile;
}

std::int64_t RecurrentProduct::grain() const {
  const double flops = 2.0 * static_cast<double>(part_rows_ * row_step() * hidden_);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(kMinFlopsPerTask / flops));
}

std::int64_t RecurrentProduct::weight_floats() const {
  return unit_parts_ * row_step() * hidden_ + kPanelSlack;
}

std::int64_t RecurrentProduct::state_floats() const {
  // Sums begin on a line of the cache.
  return ceil_div(part_rows_ * hidden_ + kPanelSlack, 16) * 16;
}

void RecurrentProduct::pack(const float* weights, float* to) const {
  const std::int64_t panels = unit_parts_ * gates_, panel_floats = panel_.columns * hidden_;
  parallel_for(threads_, panels, std::max<std::int64_t>(1, (1 << 15) / panel_floats),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t unit = i / gates_ * panel_.columns;
                   const float* from = weights + (i % gates_ * hidden_ + unit) * hidden_;
                   pack_columns({from, DType::Float32, hidden_, 1},
                                std::min(panel_.columns, hidden_ - unit), hidden_,
                                to + i * panel_floats);
                 }
               });
}

void RecurrentProduct::pack_state(const float* state, const UnitTile& tile, float* to) const {
  pack_rows({state + tile.row * hidden_, DType::Float32, hidden_, 1}, tile.rows, hidden_, to);
}

void RecurrentProduct::multiply(const Operands& step, const UnitTile& tile, const float* state,
                                float* sums) const {
  constexpr std::int64_t kLine = 16;
  const std::int64_t panel_floats = panel_.columns * hidden_, parts_row = gates_ * hidden_;
  const float* panel = step.weights + tile.unit / panel_.columns * gates_ * panel_floats;
  for (std::int64_t gate = 0; gate < gates_; ++gate, panel += panel_floats) {
    const std::int64_t column = gate * hidden_ + tile.unit;
    const float* gate_bias = step.bias == nullptr ? nullptr : step.bias + column;
    for (std::int64_t row = 0; row < tile.rows; row += panel_.rows) {
      const std::int64_t rows = std::min(panel_.rows, tile.rows - row);
      // The pieces lie too far apart for the processor to see a stream.
      for (std::int64_t i = row; i < row + rows; ++i) {
        const float* parts = step.parts + (tile.row + i) * parts_row + column;
        for (std::int64_t k = 0; k < tile.units; k += kLine) __builtin_prefetch(parts + k);
      }
      multiply_block({state + row * hidden_, panel, rows, tile.units, hidden_,
                      sums + row * row_step() + gate * gate_step(), row_step(), true, gate_bias});
    }
  }
}

}  // namespace pando::cpu
