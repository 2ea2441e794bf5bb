#include "pando/backends/cpu/kernels/attention_tiles.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/kernels/attention_tiles.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "pando/backends/cpu/exp-inl.h"
#include "pando/backends/cpu/unroll.hpp"
#include "pando/base/philox.hpp"

HWY_BEFORE_NAMESPACE();
namespace pando::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr std::int64_t kLanes = hn::MaxLanes(D());
constexpr std::int64_t kVectors = HWY_TARGET <= HWY_AVX3 ? 4 : 2;  // of a register tile
constexpr std::int64_t kPanel = kVectors * kLanes;
constexpr std::int64_t kTileRows = kAttentionTileRows;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
static_assert(kAttentionKeys % kPanel == 0 && kAttentionRows % kLanes == 0);

AttentionWidths Widths() { return {kLanes, kPanel}; }

/// kTileRows rows of c += a b. Strides in floats; `columns` is a multiple of kLanes.
struct RowProduct {
  const float* a;
  std::int64_t a_row, a_depth;
  const float* b;
  std::int64_t b_row;
  float* c;
  std::int64_t c_row;
  std::int64_t columns, depth;
};

template <std::int64_t kWidth, bool kAdd>
HWY_INLINE void MultiplyTile(const RowProduct& p, std::int64_t column) {
  const D d;
  V acc[kTileRows][kWidth];
  float* c = p.c + column;
  PANDO_UNROLL for (std::int64_t r = 0; r < kTileRows; ++r) {
    PANDO_UNROLL for (std::int64_t i = 0; i < kWidth; ++i) {
      acc[r][i] = kAdd ? hn::LoadU(d, c + r * p.c_row + i * kLanes) : hn::Zero(d);
    }
  }
  const float* HWY_RESTRICT a = p.a;
  const float* HWY_RESTRICT b = p.b + column;
  for (std::int64_t k = 0; k < p.depth; ++k, a += p.a_depth, b += p.b_row) {
    V row[kWidth];
    PANDO_UNROLL for (std::int64_t i = 0; i < kWidth; ++i) row[i] = hn::LoadU(d, b + i * kLanes);
    PANDO_UNROLL for (std::int64_t r = 0; r < kTileRows; ++r) {
      const V factor = hn::Set(d, a[r * p.a_row]);
      PANDO_UNROLL for (std::int64_t i = 0; i < kWidth; ++i) {
        acc[r][i] = hn::MulAdd(factor, row[i], acc[r][i]);
      }
    }
  }
  PANDO_UNROLL for (std::int64_t r = 0; r < kTileRows; ++r) {
    PANDO_UNROLL for (std::int64_t i = 0; i < kWidth; ++i) {
      hn::StoreU(acc[r][i], d, c + r * p.c_row + i * kLanes);
    }
  }
}

/// The `vectors` vectors from `column` on, at most kWidth.
template <std::int64_t kWidth, bool kAdd>
HWY_INLINE void MultiplyTail(const RowProduct& p, std::int64_t column, std::int64_t vectors) {
  if (vectors == kWidth) return MultiplyTile<kWidth, kAdd>(p, column);
  if constexpr (kWidth > 1) MultiplyTail<kWidth - 1, kAdd>(p, column, vectors);
}

template <bool kAdd>
HWY_INLINE void MultiplyRows(const RowProduct& p) {
  std::int64_t column = 0;
  for (; column + kPanel <= p.columns; column += kPanel) MultiplyTile<kVectors, kAdd>(p, column);
  MultiplyTail<kVectors, kAdd>(p, column, (p.columns - column) / kLanes);
}

/// The keys that some of kTileRows rows see, and the whole vectors that hold them.
struct TileKeys {
  IndexRange seen, vectors;

  explicit TileKeys(const IndexRange* visible) {
    seen = {kAttentionKeys, 0};
    for (std::int64_t r = 0; r < kTileRows; ++r) {
      if (visible[r].size() == 0) continue;
      seen = {std::min(seen.begin, visible[r].begin), std::max(seen.end, visible[r].end)};
    }
    if (seen.size() == 0) seen = {0, 0};
    vectors = {seen.begin / kLanes * kLanes, (seen.end + kLanes - 1) / kLanes * kLanes};
  }
};

/// to[row, key] = rows times panels, of the keys that each tile of rows sees.
HWY_INLINE void MultiplyPanels(const AttentionScores& s, const float* rows, std::int64_t row_stride,
                               const float* panels, std::int64_t depth, float* to) {
  for (std::int64_t first = 0; first < kAttentionKeys; first += kPanel, panels += depth * kPanel) {
    for (std::int64_t r = 0; r < s.rows; r += kTileRows) {
      const IndexRange keys = TileKeys(s.visible + r).vectors.intersection({first, first + kPanel});
      if (keys.size() == 0) continue;
      MultiplyRows<false>({rows + r * row_stride, row_stride, 1, panels + (keys.begin - first),
                           kPanel, to + r * kAttentionScoreRow + keys.begin, kAttentionScoreRow,
                           keys.size(), depth});
    }
  }
}

/// to[row] += weights[row] times the rows of `values`, of the keys that each tile of rows sees.
HWY_INLINE void AddWeightedRows(const AttentionScores& s, const float* weights, const float* values,
                                std::int64_t value_row, float* to) {
  // Half of the keys at a time stays in the first level of the cache.
  constexpr std::int64_t kStep = kAttentionKeys / 2;
  for (std::int64_t first = 0; first < kAttentionKeys; first += kStep) {
    for (std::int64_t r = 0; r < s.rows; r += kTileRows) {
      const IndexRange keys = TileKeys(s.visible + r).seen.intersection({first, first + kStep});
      if (keys.size() == 0) continue;
      MultiplyRows<true>({weights + r * kAttentionScoreRow + keys.begin, kAttentionScoreRow, 1,
                          values + keys.begin * value_row, value_row, to + r * value_row, value_row,
                          value_row, keys.size()});
    }
  }
}

/// Which lanes from key `key` on are in `range`.
HWY_INLINE hn::Mask<D> Inside(const IndexRange& range, std::int64_t key) {
  const D d;
  const auto up_to = [&](std::int64_t end) HWY_ATTR {
    return hn::FirstN(d, static_cast<std::size_t>(std::clamp<std::int64_t>(end - key, 0, kLanes)));
  };
  return hn::AndNot(up_to(range.begin), up_to(range.end));
}

HWY_INLINE bool IsInside(const IndexRange& range, std::int64_t key) {
  return range.begin <= key && key + kLanes <= range.end;
}

/// Scales and masks the scores of row r; gives the largest and what it was before.
HWY_INLINE float MaskRow(const AttentionScores& s, std::int64_t r, const IndexRange& vectors) {
  const D d;
  const V scale = hn::Set(d, s.scale), hidden = hn::Set(d, -kInfinity);
  float* row = s.scores + r * kAttentionScoreRow;
  const float* mask = s.mask == nullptr ? nullptr : s.mask + r * kAttentionScoreRow;
  V max = hidden;
  for (std::int64_t key = vectors.begin; key < vectors.end; key += kLanes) {
    V x = hn::Mul(scale, hn::LoadU(d, row + key));
    if (mask != nullptr) x = hn::Add(x, hn::LoadU(d, mask + key));
    if (!IsInside(s.visible[r], key)) x = hn::IfThenElse(Inside(s.visible[r], key), x, hidden);
    max = hn::Max(max, x);
    hn::StoreU(x, d, row + key);
  }
  return hn::GetLane(hn::MaxOfLanes(d, max));
}

/// What is subtracted from scores: 0 where all of them are -infinity.
HWY_INLINE V ShiftOf(V max) {
  const D d;
  return hn::IfThenZeroElse(hn::Eq(max, hn::Set(d, -kInfinity)), max);
}

/// Exponentials of the scores of row r in place; gives their sum before dropout.
HWY_INLINE float ExponentialsOfRow(const AttentionScores& s, std::int64_t r, float max,
                                   const IndexRange& vectors) {
  const D d;
  const V shift = ShiftOf(hn::Set(d, max));
  float* row = s.scores + r * kAttentionScoreRow;
  const float* keep = s.keep == nullptr ? nullptr : s.keep + r * kAttentionScoreRow;
  V sum = hn::Zero(d);
  for (std::int64_t key = vectors.begin; key < vectors.end; key += kLanes) {
    V e = ExpNonPositive(d, hn::Sub(hn::LoadU(d, row + key), shift));
    sum = hn::Add(sum, e);
    if (keep != nullptr) e = hn::Mul(e, hn::LoadU(d, keep + key));
    hn::StoreU(e, d, row + key);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

HWY_INLINE void ScaleRow(float* row, std::int64_t count, float factor) {
  const D d;
  const V f = hn::Set(d, factor);
  for (std::int64_t i = 0; i < count; i += kLanes) {
    hn::StoreU(hn::Mul(f, hn::LoadU(d, row + i)), d, row + i);
  }
}

/// New maxima of the rows, and the factors of what was summed with the old ones.
HWY_INLINE void UpdateMaxima(const AttentionForwardBlock& block) {
  const D d;
  const AttentionScores& s = block.scores;
  float* found = block.factor;
  for (std::int64_t r = 0; r < s.rows; r += kTileRows) {
    const IndexRange vectors = TileKeys(s.visible + r).vectors;
    for (std::int64_t i = r; i < r + kTileRows; ++i) found[i] = MaskRow(s, i, vectors);
  }
  for (std::int64_t r = 0; r < s.rows; r += kLanes) {
    const V old = hn::LoadU(d, block.max + r);
    const V max = hn::Max(old, hn::LoadU(d, found + r));
    hn::StoreU(max, d, block.max + r);
    hn::StoreU(ExpNonPositive(d, hn::Sub(old, ShiftOf(max))), d, found + r);
  }
}

void ForwardBlock(const AttentionForwardBlock& block) {
  const AttentionScores& s = block.scores;
  MultiplyPanels(s, s.q, s.q_row, s.key_panels, s.depth, s.scores);
  UpdateMaxima(block);
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const IndexRange vectors = TileKeys(s.visible + r / kTileRows * kTileRows).vectors;
    const float sum = ExponentialsOfRow(s, r, block.max[r], vectors);
    block.sum[r] = block.sum[r] * block.factor[r] + sum;
    if (block.factor[r] != 1) {
      ScaleRow(block.out + r * block.value_row, block.value_row, block.factor[r]);
    }
  }
  AddWeightedRows(s, s.scores, block.values, block.value_row, block.out);
}

/// Scores of row r become weights, and gradients of weights those of scores.
HWY_INLINE void WeightsOfRow(const AttentionBackwardBlock& block, std::int64_t r,
                             const IndexRange& vectors) {
  const D d;
  const AttentionScores& s = block.scores;
  const std::int64_t at = r * kAttentionScoreRow;
  const V scale = hn::Set(d, s.scale), shift = hn::Set(d, block.log_sum_exp[r]);
  const V g_out = hn::Set(d, block.g_out[r]);
  for (std::int64_t i = at + vectors.begin; i < at + vectors.end; i += kLanes) {
    V x = hn::Mul(scale, hn::LoadU(d, s.scores + i));
    if (s.mask != nullptr) x = hn::Add(x, hn::LoadU(d, s.mask + i));
    V weight = ExpNonPositive(d, hn::Sub(x, shift));
    V g = hn::LoadU(d, block.score_gradients + i);
    V kept = weight;
    if (s.keep != nullptr) {
      const V keep = hn::LoadU(d, s.keep + i);
      kept = hn::Mul(kept, keep);
      g = hn::Mul(g, keep);
    }
    g = hn::Mul(weight, hn::Sub(g, g_out));
    if (!IsInside(s.visible[r], i - at)) {
      const auto inside = Inside(s.visible[r], i - at);
      kept = hn::IfThenElseZero(inside, kept);
      g = hn::IfThenElseZero(inside, g);
    }
    hn::StoreU(kept, d, s.scores + i);
    hn::StoreU(g, d, block.score_gradients + i);
  }
}

HWY_INLINE void ZeroOutside(float* rows, const IndexRange& vectors) {
  for (std::int64_t r = 0; r < kTileRows; ++r, rows += kAttentionScoreRow) {
    std::fill(rows, rows + vectors.begin, 0.f);
    std::fill(rows + vectors.end, rows + kAttentionKeys, 0.f);
  }
}

/// to[key] += sum over rows of weights[row, key] * values[row], of the rows that see the key.
/// Ranges of keys begin and end no earlier than those of the row before.
HWY_INLINE void AddTransposed(const AttentionScores& s, const float* weights, const float* values,
                              std::int64_t value_row, float* to) {
  std::int64_t begin = 0, end = 0;
  for (std::int64_t key = 0; key < kAttentionKeys; key += kTileRows) {
    while (begin < s.rows && s.visible[begin].end <= key) ++begin;
    while (end < s.rows && s.visible[end].begin < key + kTileRows) ++end;
    if (begin >= end) continue;
    MultiplyRows<true>({weights + begin * kAttentionScoreRow + key, 1, kAttentionScoreRow,
                        values + begin * value_row, value_row, to + key * value_row, value_row,
                        value_row, end - begin});
  }
}

void BackwardBlock(const AttentionBackwardBlock& block) {
  const AttentionScores& s = block.scores;
  MultiplyPanels(s, s.q, s.q_row, s.key_panels, s.depth, s.scores);
  MultiplyPanels(s, block.g, block.value_row, block.value_panels, block.value_depth,
                 block.score_gradients);
  for (std::int64_t r = 0; r < s.rows; r += kTileRows) {
    const IndexRange vectors = TileKeys(s.visible + r).vectors;
    for (std::int64_t i = r; i < r + kTileRows; ++i) WeightsOfRow(block, i, vectors);
    ZeroOutside(s.scores + r * kAttentionScoreRow, vectors);
    ZeroOutside(block.score_gradients + r * kAttentionScoreRow, vectors);
  }
  AddTransposed(s, s.scores, block.g, block.value_row, block.dv);
  AddTransposed(s, block.score_gradients, s.q, s.q_row, block.dk);
  AddWeightedRows(s, block.score_gradients, block.keys, s.q_row, block.dq);
}

void TransposePanel(const float* from, std::int64_t from_row, std::int64_t depth, float* to) {
  constexpr std::int64_t kLines = 4;
  const D d;
  HWY_ALIGN float mixed[kLines * kLanes];
  for (std::int64_t i = 0; i + kLines <= kPanel; i += kLines, from += kLines * from_row) {
    std::int64_t k = 0;
    for (; k + kLanes <= depth; k += kLanes) {
      hn::StoreInterleaved4(hn::LoadU(d, from + k), hn::LoadU(d, from + from_row + k),
                            hn::LoadU(d, from + 2 * from_row + k),
                            hn::LoadU(d, from + 3 * from_row + k), d, mixed);
      for (std::int64_t j = 0; j < kLanes; ++j) {
        std::memcpy(to + (k + j) * kPanel + i, mixed + j * kLines, sizeof(float) * kLines);
      }
    }
    for (; k < depth; ++k) {
      for (std::int64_t j = 0; j < kLines; ++j) to[k * kPanel + i + j] = from[j * from_row + k];
    }
  }
  for (std::int64_t i = kPanel / kLines * kLines; i < kPanel; ++i, from += from_row) {
    for (std::int64_t k = 0; k < depth; ++k) to[k * kPanel + i] = from[k];
  }
}

template <int kWord>
HWY_INLINE void FactorsOfWord(const DropoutRow& row, std::uint32_t counter, std::int64_t count,
                              float* factors) {
  const auto stream = static_cast<std::uint32_t>(PhiloxStream::Dropout);
  for (std::int64_t j = 0; j < count; ++j) {
    const std::uint32_t word = philox4x32_10(
        {counter + static_cast<std::uint32_t>(j), 0, stream, 0}, {row.key0, row.key1})[kWord];
    factors[j] = word >= row.threshold ? row.factor : 0.f;
  }
}

void DropoutFactors(const DropoutRow& row, std::int64_t count, float* factors) {
  constexpr std::uint32_t kRun = 256;  // elements with the same word of consecutive counters
  std::uint32_t index = row.first;
  for (std::int64_t done = 0; done < count;) {
    const auto run = std::min<std::int64_t>(kRun - index % kRun, count - done);
    const PhiloxPosition at = philox_position(index);
    switch (at.word) {
      case 0:
        FactorsOfWord<0>(row, at.counter, run, factors + done);
        break;
      case 1:
        FactorsOfWord<1>(row, at.counter, run, factors + done);
        break;
      case 2:
        FactorsOfWord<2>(row, at.counter, run, factors + done);
        break;
      default:
        FactorsOfWord<3>(row, at.counter, run, factors + done);
    }
    done += run;
    index += static_cast<std::uint32_t>(run);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace pando::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {

HWY_EXPORT(Widths);
HWY_EXPORT(ForwardBlock);
HWY_EXPORT(BackwardBlock);
HWY_EXPORT(TransposePanel);
HWY_EXPORT(DropoutFactors);

AttentionWidths attention_widths() { return HWY_DYNAMIC_DISPATCH(Widths)(); }

void attend_forward_f32(const AttentionForwardBlock& block) {
  HWY_DYNAMIC_DISPATCH(ForwardBlock)(block);
}

void attend_backward_f32(const AttentionBackwardBlock& block) {
  HWY_DYNAMIC_DISPATCH(BackwardBlock)(block);
}

void transpose_panel_f32(const float* from, std::int64_t from_row, std::int64_t depth, float* to) {
  HWY_DYNAMIC_DISPATCH(TransposePanel)(from, from_row, depth, to);
}

void dropout_factors_f32(const DropoutRow& row, std::int64_t count, float* factors) {
  HWY_DYNAMIC_DISPATCH(DropoutFactors)(row, count, factors);
}

}  // namespace pando::cpu
#endif  // HWY_ONCE
