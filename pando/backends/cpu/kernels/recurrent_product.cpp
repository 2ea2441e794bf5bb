#include "pando/backends/cpu/kernels/recurrent_product.hpp"

#include <algorithm>

#include "pando/backends/cpu/parallel.hpp"

namespace pando::cpu {
namespace {

// Packed rows fit the second level of the cache, and a block of a panel the first.
constexpr std::int64_t kMostRows = 144, kMostRowFloats = 144 << 10, kBlockDepth = 512;
constexpr double kMinFlopsPerTask = 3e5;
// With fewer rows dot products with the weights as they are take as long as reading the weights.
constexpr std::int64_t kFewestRows = 17, kFewestSteps = 4;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

bool RecurrentProduct::is_worth_it(std::int64_t steps, std::int64_t batch, std::int64_t hidden) {
  return steps >= kFewestSteps && batch >= kFewestRows && hidden > 0;
}

RecurrentProduct RecurrentProduct::of_states(std::int64_t batch, std::int64_t hidden,
                                             std::int64_t gates, int threads) {
  return {batch, hidden, hidden, gates, true, threads};
}

RecurrentProduct RecurrentProduct::of_gates(std::int64_t batch, std::int64_t hidden,
                                            std::int64_t gates, int threads) {
  return {batch, gates * hidden, hidden, 1, false, threads};
}

RecurrentProduct::RecurrentProduct(std::int64_t batch, std::int64_t depth, std::int64_t units,
                                   std::int64_t gates, bool transposed, int threads)
    : panel_(packed_tile()),
      batch_(batch),
      depth_(depth),
      units_(units),
      gates_(gates),
      transposed_(transposed),
      threads_(threads) {
  unit_parts_ = ceil_div(units, panel_.columns);
  const std::int64_t most_rows =
      std::clamp(kMostRowFloats / std::max<std::int64_t>(depth, 1), panel_.rows, kMostRows);
  // Threads share rows as well where there are too few units.
  const std::int64_t wanted =
      std::max(ceil_div(batch, most_rows), ceil_div(std::int64_t{threads}, unit_parts_));
  part_rows_ = ceil_div(ceil_div(batch, wanted), panel_.rows) * panel_.rows;
  row_parts_ = ceil_div(batch, part_rows_);
}

UnitTile RecurrentProduct::tile(std::int64_t index) const {
  UnitTile tile;
  tile.row = index / unit_parts_ * part_rows_;
  tile.rows = std::min(part_rows_, batch_ - tile.row);
  tile.unit = index % unit_parts_ * panel_.columns;
  tile.units = std::min(panel_.columns, units_ - tile.unit);
  return tile;
}

std::int64_t RecurrentProduct::grain() const {
  const double flops = 2.0 * static_cast<double>(part_rows_ * row_step() * depth_);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(kMinFlopsPerTask / flops));
}

std::int64_t RecurrentProduct::weight_floats() const {
  return unit_parts_ * row_step() * depth_ + kPanelSlack;
}

std::int64_t RecurrentProduct::row_floats() const {
  // Sums begin on a line of the cache.
  return ceil_div(part_rows_ * depth_ + kPanelSlack, 16) * 16;
}

template <class Body>
void RecurrentProduct::for_weight_panels(const Body& body) const {
  const std::int64_t panels = unit_parts_ * gates_, panel_floats = panel_.columns * depth_;
  parallel_for(threads_, panels, std::max<std::int64_t>(1, (1 << 15) / panel_floats),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t unit = i / gates_ * panel_.columns;
                   body((i % gates_ * units_ + unit) * column_stride(),
                        std::min(panel_.columns, units_ - unit), i * panel_floats);
                 }
               });
}

void RecurrentProduct::pack(const float* weights, float* to) const {
  for_weight_panels([&](std::int64_t first, std::int64_t columns, std::int64_t packed) {
    pack_columns({weights + first, DType::Float32, column_stride(), depth_stride()}, columns,
                 depth_, to + packed);
  });
}

void RecurrentProduct::unpack(const float* packed, float* weights) const {
  for_weight_panels([&](std::int64_t first, std::int64_t columns, std::int64_t from) {
    unpack_columns(packed + from, columns, depth_,
                   {weights + first, column_stride(), depth_stride()});
  });
}

RecurrentProduct::RowPanels RecurrentProduct::panels_of(const UnitTile& tile) const {
  return {tile.rows, ceil_div(tile.rows, panel_.rows)};
}

void RecurrentProduct::pack_part(const float* rows, const UnitTile& tile, float* to) const {
  const RowPanels panels = panels_of(tile);
  for (std::int64_t i = 0; i < panels.count; ++i, to += panel_.rows * depth_) {
    const float* first = rows + (tile.row + panels.begin(i)) * depth_;
    pack_rows({first, DType::Float32, depth_, 1}, panels.size(i), depth_, to);
  }
}

void RecurrentProduct::bring_near(const float* parts, const UnitTile& tile, std::int64_t column,
                                  std::int64_t row, std::int64_t rows) const {
  constexpr std::int64_t kLine = 16;
  // The pieces lie too far apart for the processor to see a stream.
  for (std::int64_t i = row; i < row + rows; ++i) {
    const float* piece = parts + (tile.row + i) * gates_ * units_ + column;
    for (std::int64_t k = 0; k < tile.units; k += kLine) __builtin_prefetch(piece + k);
  }
}

void RecurrentProduct::multiply(const Operands& step, const UnitTile& tile, const float* rows,
                                float* sums) const {
  const std::int64_t panel_floats = panel_.columns * depth_;
  const float* panel = step.weights + tile.unit / panel_.columns * gates_ * panel_floats;
  const RowPanels panels = panels_of(tile);
  for (std::int64_t gate = 0; gate < gates_; ++gate, panel += panel_floats) {
    const std::int64_t column = gate * units_ + tile.unit;
    const float* gate_bias = step.bias == nullptr ? nullptr : step.bias + column;
    for (std::int64_t k = 0; k < depth_; k += kBlockDepth) {
      for (std::int64_t i = 0; i < panels.count; ++i) {
        const std::int64_t row = panels.begin(i), count = panels.size(i);
        if (k == 0 && step.parts != nullptr) bring_near(step.parts, tile, column, row, count);
        multiply_block({rows + (i * depth_ + k) * panel_.rows, panel + k * panel_.columns, count,
                        tile.units, std::min(kBlockDepth, depth_ - k),
                        sums + row * row_step() + gate * gate_step(), row_step(), k == 0,
                        gate_bias});
      }
    }
  }
}

}  // namespace pando::cpu
