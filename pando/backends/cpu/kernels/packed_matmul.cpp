// float32 products large enough to pay for packing both operands: panels as wide as a register
// tile, blocked so that one panel of the rhs stays in the first cache level and one block of the
// lhs in the second (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication").
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/kernels/packed_matmul.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "pando/backends/cpu/kernels/matmul.hpp"
#include "pando/backends/cpu/parallel.hpp"
#include "pando/backends/cpu/unroll.hpp"
#include "pando/base/error.hpp"

#ifndef PANDO_BACKENDS_CPU_KERNELS_PACKED_MATMUL_ONCE
#define PANDO_BACKENDS_CPU_KERNELS_PACKED_MATMUL_ONCE

namespace pando::cpu {

/// A (lines x depth) matrix seen as lines that a panel puts side by side: rows of the lhs, columns
/// of the rhs. Strides in elements.
struct PackSource {
  const float* data;
  std::int64_t line_stride, depth_stride;
};

/// One block of the sum over k: adds lhs (packed rows) times rhs (packed columns) to `out`.
struct PackedBlock {
  const float* lhs;  // panels of kRows rows
  const float* rhs;  // panels of kColumns columns
  std::int64_t rows, columns, depth;
  float* out;
  std::int64_t out_row;
  bool first;         // of the blocks along k
  const float* bias;  // of the first column, or nullptr
};

/// Sizes of a register tile on the running machine.
struct PackedTile {
  std::int64_t rows, columns;
};

}  // namespace pando::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace pando::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr std::int64_t kLanes = hn::MaxLanes(D());
constexpr std::int64_t kColumns = 2 * kLanes;
constexpr std::int64_t kRows = HWY_TARGET <= HWY_AVX3 ? 12 : 6;

PackedTile TileSize() { return {kRows, kColumns}; }

#if HWY_TARGET == HWY_SCALAR
template <std::int64_t kWidth>
std::int64_t TransposeLines(const float* const*, std::int64_t, float*) {
  return 0;
}
#else
/// Four by four transposes; gives the number of depth steps done. The last store of a step may
/// spill into the next one, which is written later; the end of a panel has slack for it.
template <std::int64_t kWidth>
HWY_INLINE std::int64_t TransposeLines(const float* const* line, std::int64_t depth, float* to) {
  constexpr std::int64_t kGroups = (kWidth + 3) / 4;
  const hn::FixedTag<float, 4> d;
  const hn::Repartition<double, decltype(d)> pairs;
  std::int64_t k = 0;
  for (; k + 4 <= depth; k += 4) {
    hn::Vec<decltype(d)> out[kGroups][4];
    PANDO_UNROLL for (std::int64_t g = 0; g < kGroups; ++g) {
      const auto a = hn::LoadU(d, line[4 * g] + k), b = hn::LoadU(d, line[4 * g + 1] + k);
      const auto c = hn::LoadU(d, line[4 * g + 2] + k), e = hn::LoadU(d, line[4 * g + 3] + k);
      const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
      const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
      const auto ce_low = hn::BitCast(pairs, hn::InterleaveLower(d, c, e));
      const auto ce_high = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
      out[g][0] = hn::BitCast(d, hn::InterleaveLower(pairs, ab_low, ce_low));
      out[g][1] = hn::BitCast(d, hn::InterleaveUpper(pairs, ab_low, ce_low));
      out[g][2] = hn::BitCast(d, hn::InterleaveLower(pairs, ab_high, ce_high));
      out[g][3] = hn::BitCast(d, hn::InterleaveUpper(pairs, ab_high, ce_high));
    }
    PANDO_UNROLL for (std::int64_t s = 0; s < 4; ++s) {
      PANDO_UNROLL for (std::int64_t g = 0; g < kGroups; ++g) {
        hn::StoreU(out[g][s], d, to + (k + s) * kWidth + 4 * g);
      }
    }
  }
  return k;
}
#endif

/// Lines contiguous along the depth. Lines past the end repeat the last one: their products are
/// never stored.
template <std::int64_t kWidth>
HWY_INLINE void PackAcross(const PackSource& from, std::int64_t lines, std::int64_t depth,
                           float* to) {
  constexpr std::int64_t kPadded = (kWidth + 3) / 4 * 4;
  const float* line[kPadded];
  for (std::int64_t i = 0; i < kPadded; ++i) {
    line[i] = from.data + std::min({i, lines - 1, kWidth - 1}) * from.line_stride;
  }
  for (std::int64_t k = TransposeLines<kWidth>(line, depth, to); k < depth; ++k) {
    for (std::int64_t i = 0; i < kWidth; ++i) to[k * kWidth + i] = line[i][k];
  }
}

/// Lines side by side in memory: copies.
template <std::int64_t kWidth>
HWY_INLINE void PackAlong(const PackSource& from, std::int64_t lines, std::int64_t depth,
                          float* to) {
  const float* source = from.data;
  if (lines >= kWidth) {
    for (std::int64_t k = 0; k < depth; ++k, source += from.depth_stride, to += kWidth) {
      if constexpr (kWidth % kLanes == 0) {
        const D d;
        PANDO_UNROLL for (std::int64_t i = 0; i < kWidth; i += kLanes) {
          hn::StoreU(hn::LoadU(d, source + i), d, to + i);
        }
      } else {
        std::memcpy(to, source, kWidth * sizeof(float));
      }
    }
    return;
  }
  for (std::int64_t k = 0; k < depth; ++k, source += from.depth_stride, to += kWidth) {
    for (std::int64_t i = 0; i < kWidth; ++i) to[i] = i < lines ? source[i] : 0.f;
  }
}

/// Packs `lines` lines into panels of kWidth, `depth` values each.
template <std::int64_t kWidth>
HWY_INLINE void PackPanels(const PackSource& from, std::int64_t lines, std::int64_t depth,
                           float* to) {
  for (std::int64_t line = 0; line < lines; line += kWidth, to += kWidth * depth) {
    const PackSource panel{from.data + line * from.line_stride, from.line_stride,
                           from.depth_stride};
    if (from.line_stride == 1) {
      PackAlong<kWidth>(panel, lines - line, depth, to);
    } else {
      PackAcross<kWidth>(panel, lines - line, depth, to);
    }
  }
}

void PackRows(const PackSource& from, std::int64_t rows, std::int64_t depth, float* to) {
  PackPanels<kRows>(from, rows, depth, to);
}

void PackColumns(const PackSource& from, std::int64_t columns, std::int64_t depth, float* to) {
  PackPanels<kColumns>(from, columns, depth, to);
}

HWY_INLINE void AddBoundaryTile(const PackedBlock& block, const float* tile, float* out,
                                std::int64_t rows, std::int64_t columns, const float* bias) {
  for (std::int64_t r = 0; r < rows; ++r, tile += kColumns, out += block.out_row) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const float before = !block.first ? out[c] : bias == nullptr ? 0.f : bias[c];
      out[c] = before + tile[c];
    }
  }
}

/// One register tile of the product.
HWY_INLINE void MultiplyTile(const PackedBlock& block, const float* HWY_RESTRICT lhs,
                             const float* HWY_RESTRICT rhs, float* out, std::int64_t rows,
                             std::int64_t columns, const float* bias) {
  const D d;
  V acc0[kRows], acc1[kRows];
  PANDO_UNROLL for (std::int64_t r = 0; r < kRows; ++r) acc0[r] = acc1[r] = hn::Zero(d);
  for (std::int64_t k = 0; k < block.depth; ++k, lhs += kRows, rhs += kColumns) {
    const V b0 = hn::LoadU(d, rhs), b1 = hn::LoadU(d, rhs + kLanes);
    PANDO_UNROLL for (std::int64_t r = 0; r < kRows; ++r) {
      const V a = hn::Set(d, lhs[r]);
      acc0[r] = hn::MulAdd(a, b0, acc0[r]);
      acc1[r] = hn::MulAdd(a, b1, acc1[r]);
    }
  }
  if (rows < kRows || columns < kColumns) {
    alignas(64) float tile[kRows * kColumns];
    PANDO_UNROLL for (std::int64_t r = 0; r < kRows; ++r) {
      hn::StoreU(acc0[r], d, tile + r * kColumns);
      hn::StoreU(acc1[r], d, tile + r * kColumns + kLanes);
    }
    AddBoundaryTile(block, tile, out, rows, columns, bias);
    return;
  }
  PANDO_UNROLL for (std::int64_t r = 0; r < kRows; ++r, out += block.out_row) {
    if (!block.first) {
      acc0[r] = hn::Add(hn::LoadU(d, out), acc0[r]);
      acc1[r] = hn::Add(hn::LoadU(d, out + kLanes), acc1[r]);
    } else if (bias != nullptr) {
      acc0[r] = hn::Add(hn::LoadU(d, bias), acc0[r]);
      acc1[r] = hn::Add(hn::LoadU(d, bias + kLanes), acc1[r]);
    }
    hn::StoreU(acc0[r], d, out);
    hn::StoreU(acc1[r], d, out + kLanes);
  }
}

void MultiplyBlock(const PackedBlock& block) {
  for (std::int64_t n = 0; n < block.columns; n += kColumns) {
    const float* rhs = block.rhs + n * block.depth;
    const float* bias = block.bias == nullptr ? nullptr : block.bias + n;
    for (std::int64_t m = 0; m < block.rows; m += kRows) {
      MultiplyTile(block, block.lhs + m * block.depth, rhs, block.out + m * block.out_row + n,
                   std::min(kRows, block.rows - m), std::min(kColumns, block.columns - n), bias);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace pando::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {
namespace {

HWY_EXPORT(TileSize);
HWY_EXPORT(PackRows);
HWY_EXPORT(PackColumns);
HWY_EXPORT(MultiplyBlock);

constexpr std::int64_t kMaxDepth = 320;     // of a block: a panel of the rhs fits the first level
constexpr std::int64_t kMaxRows = 144;      // of a block of the lhs, which fits the second level
constexpr std::int64_t kMaxColumns = 2048;  // of a packed part of the rhs
constexpr std::int64_t kPanelSlack = 16;    // see PackAcross
constexpr double kMinFlopsPerTask = 3e5;
// Where oneDNN is as fast or faster (docs/decisions/0004-packed-matmul.md).
constexpr std::int64_t kMinRows = 33;
constexpr std::int64_t kMinColumns = 16;
constexpr std::int64_t kMinDepth = 32;
constexpr std::int64_t kMinMultiplications = 1 << 20;
constexpr std::int64_t kMaxTileColumns = 16;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

/// Cuts `total` into the fewest parts of at most `max` and gives the size of all but the last.
std::int64_t even_part(std::int64_t total, std::int64_t max, std::int64_t multiple) {
  return std::min(total, round_up(ceil_div(total, ceil_div(total, max)), multiple));
}

/// Rows and columns of a product that one thread computes.
struct Part {
  std::int64_t row, rows, column, columns;
};

struct PackedMatMul {
  MatMulProblem problem;
  PackedTile tile{};
  std::int64_t depth = 0, block_rows = 0, block_columns = 0;
  std::int64_t lhs_floats = 0, rhs_floats = 0;  // scratch of one thread
  int num_threads = 1;
  // One product is cut into row_parts x column_parts. The parts share nothing that they write:
  // panels packed by another core come slower than packing them twice.
  std::int64_t row_parts = 1, column_parts = 1;

  struct Operands {
    const float* lhs;
    const float* rhs;
    const float* bias;
    float* out;
    std::byte* const* all;
    std::int64_t first_row = 0;  // among those of all products of the batch
  };

  std::int64_t thread_floats() const {
    return rhs_floats + lhs_floats +
           static_cast<std::int64_t>(problem.finish_scratch() / sizeof(float));
  }

  /// One block of columns and of the depth.
  void multiply_columns(const Operands& at, const Part& part, std::int64_t column,
                        std::int64_t columns, std::int64_t k, float* scratch) const {
    const MatMulProblem& p = problem;
    const std::int64_t steps = std::min(depth, p.k - k);
    const PackSource rhs{at.rhs + k * p.rhs_row + column * p.rhs_column, p.rhs_column, p.rhs_row};
    HWY_DYNAMIC_DISPATCH(PackColumns)(rhs, columns, steps, scratch);
    float* packed_lhs = scratch + rhs_floats;
    for (std::int64_t row = part.row; row < part.row + part.rows; row += block_rows) {
      const std::int64_t rows = std::min(block_rows, part.row + part.rows - row);
      const PackSource lhs{at.lhs + row * p.lhs_row + k * p.lhs_column, p.lhs_row, p.lhs_column};
      HWY_DYNAMIC_DISPATCH(PackRows)(lhs, rows, steps, packed_lhs);
      HWY_DYNAMIC_DISPATCH(MultiplyBlock)
      ({packed_lhs, scratch, rows, columns, steps, at.out + row * p.out_row + column, p.out_row,
        k == 0, at.bias == nullptr ? nullptr : at.bias + column});
      if (k + steps == p.k) {
        p.finish(at.all, reinterpret_cast<std::byte*>(packed_lhs + lhs_floats),
                 {at.first_row + row, rows, column, columns});
      }
    }
  }

  void multiply(const Operands& at, const Part& part, float* scratch) const {
    const std::int64_t end = part.column + part.columns;
    for (std::int64_t column = part.column; column < end; column += block_columns) {
      const std::int64_t columns = std::min(block_columns, end - column);
      for (std::int64_t k = 0; k < problem.k; k += depth) {
        multiply_columns(at, part, column, columns, k, scratch);
      }
    }
  }

  /// Tile-aligned, nearly equal parts; some at the end may be empty.
  Part part(std::int64_t index) const {
    const auto cut = [](std::int64_t size, std::int64_t unit, std::int64_t parts, std::int64_t i) {
      const std::int64_t units = ceil_div(size, unit);
      return std::min(size, units * i / parts * unit);
    };
    const std::int64_t i = index / column_parts, j = index % column_parts;
    const std::int64_t row = cut(problem.m, tile.rows, row_parts, i);
    const std::int64_t column = cut(problem.n, tile.columns, column_parts, j);
    return {row, cut(problem.m, tile.rows, row_parts, i + 1) - row, column,
            cut(problem.n, tile.columns, column_parts, j + 1) - column};
  }

  Operands operands_of(const Operands& first, std::int64_t batch) const {
    Operands at = first;
    at.lhs += batch_offset(problem, problem.lhs_batch, batch);
    at.rhs += batch_offset(problem, problem.rhs_batch, batch);
    at.out += batch * problem.out_product;
    at.first_row = batch * problem.m;
    return at;
  }

  void operator()(std::byte* const* operands, std::byte* scratch) const {
    const Operands first{reinterpret_cast<const float*>(operands[0]),
                         reinterpret_cast<const float*>(operands[1]),
                         problem.has_bias ? reinterpret_cast<const float*>(operands[2]) : nullptr,
                         reinterpret_cast<float*>(operands[problem.out_operand()]), operands};
    const std::int64_t parts = row_parts * column_parts;
    parallel_for(
        num_threads, problem.batch_count() * parts, 1, [&](std::int64_t begin, std::int64_t end) {
          auto* mine = reinterpret_cast<float*>(scratch) + thread_index() * thread_floats();
          for (std::int64_t i = begin; i < end; ++i) {
            multiply(operands_of(first, i / parts), part(i % parts), mine);
          }
        });
  }

  /// Cuts each product for the threads that its batch does not feed, with the least packing.
  void choose_parts() {
    const MatMulProblem& p = problem;
    const double flops = 2.0 * double(p.batch_count()) * double(p.m) * double(p.n) * double(p.k);
    const auto tasks = std::clamp<std::int64_t>(static_cast<std::int64_t>(flops / kMinFlopsPerTask),
                                                1, num_threads);
    num_threads = static_cast<int>(tasks);
    if (p.batch_count() % tasks == 0 || p.batch_count() >= 8 * tasks) return;
    std::int64_t least = -1;
    for (std::int64_t rows = 1; rows <= tasks; ++rows) {
      if (tasks % rows != 0) continue;
      const std::int64_t cost = round_up(ceil_div(p.m, rows), tile.rows) +
                                round_up(ceil_div(p.n, tasks / rows), tile.columns);
      if (least >= 0 && cost >= least) continue;
      least = cost;
      row_parts = rows;
      column_parts = tasks / rows;
    }
  }
};

}  // namespace

KernelPlan plan_packed_matmul(const MatMulProblem& problem, int num_threads) {
  PackedMatMul matmul;
  matmul.problem = problem;
  const MatMulProblem& p = matmul.problem;
  if (p.m * p.n * p.k * p.batch_count() == 0) return KernelPlan::reject("empty product");
  if ((p.lhs_row != 1 && p.lhs_column != 1) || (p.rhs_row != 1 && p.rhs_column != 1)) {
    return KernelPlan::reject("no unit stride in the last two dimensions");
  }
  if (p.m < kMinRows) return KernelPlan::reject(str_cat("fewer than ", kMinRows, " rows"));
  if (p.n < kMinColumns) return KernelPlan::reject(str_cat("fewer than ", kMinColumns, " columns"));
  if (p.k < kMinDepth) return KernelPlan::reject(str_cat("fewer than ", kMinDepth, " terms"));
  if (p.m * p.n * p.k < kMinMultiplications) return KernelPlan::reject("small");
  matmul.num_threads = num_threads;
  matmul.tile = HWY_DYNAMIC_DISPATCH(TileSize)();
  if (matmul.tile.columns > kMaxTileColumns) return KernelPlan::reject("512-bit vectors");
  matmul.choose_parts();
  const std::int64_t most_rows = ceil_div(ceil_div(p.m, matmul.tile.rows), matmul.row_parts);
  const std::int64_t most_columns =
      ceil_div(ceil_div(p.n, matmul.tile.columns), matmul.column_parts);
  matmul.depth = even_part(p.k, kMaxDepth, 4);
  matmul.block_rows = even_part(most_rows * matmul.tile.rows, kMaxRows, matmul.tile.rows);
  matmul.block_columns =
      even_part(most_columns * matmul.tile.columns, kMaxColumns, matmul.tile.columns);
  matmul.lhs_floats =
      round_up(round_up(matmul.block_rows, matmul.tile.rows) * matmul.depth + kPanelSlack, 16);
  matmul.rhs_floats = round_up(
      round_up(matmul.block_columns, matmul.tile.columns) * matmul.depth + kPanelSlack, 16);
  KernelPlan plan;
  plan.scratch_bytes =
      static_cast<std::size_t>(matmul.thread_floats() * matmul.num_threads) * sizeof(float);
  plan.detail = str_cat("tiles of ", matmul.tile.rows, " x ", matmul.tile.columns);
  plan.run = std::move(matmul);
  return plan;
}

}  // namespace pando::cpu
#endif  // HWY_ONCE
