#include "pando/backends/cpu/kernels/row_sums.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/kernels/row_sums.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/cache_control.h>

#include <algorithm>
#include <type_traits>

#include "pando/backends/cpu/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pando::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// The processor cannot know where the next rows are: it is told their lines.
constexpr std::int64_t kAhead = 6, kLine = 16;

HWY_INLINE std::int64_t NumLanes() { return static_cast<std::int64_t>(hn::Lanes(D())); }

/// The vectors of some columns of one result. Only the last one may be partial.
template <int kVectors, bool kPartial>
class Columns {
 public:
  Columns(const RowTerms<float>& terms, std::int64_t columns, std::int64_t begin,
          std::int64_t count)
      : terms_(terms),
        columns_(columns),
        begin_(begin),
        count_(count),
        mask_(hn::FirstN(D(), static_cast<std::size_t>(count - (kVectors - 1) * NumLanes()))) {}

  HWY_INLINE void Sum(const RowOrder& order, const RowPiece& piece) const {
    const std::int64_t stop = order.starts[piece.last];
    for (std::int64_t t = piece.first; t < piece.last; ++t) {
      if (terms_.keeps(order, t)) continue;
      const float* initial =
          terms_.initial == nullptr ? nullptr : terms_.initial + t * columns_ + begin_;
      V sums[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        sums[v] = initial == nullptr ? hn::Zero(D()) : Load(initial, v);
      }
      for (std::int64_t k = order.starts[t]; k < order.starts[t + 1]; ++k) {
        if (k + kAhead < stop) PrefetchRow(order.positions[k + kAhead]);
        Add(order.positions[k], sums);
      }
      Store(sums, terms_.out + t * columns_ + begin_);
    }
  }

 private:
  HWY_INLINE void Add(std::int64_t position, V* sums) const {
    const float* row = terms_.x + position * columns_ + begin_;
    for (int v = 0; v < kVectors; ++v) sums[v] = hn::Add(sums[v], Load(row, v));
  }

  HWY_INLINE void PrefetchRow(std::int64_t position) const {
    const float* row = terms_.x + position * columns_ + begin_;
    for (std::int64_t c = 0; c < count_; c += kLine) hwy::Prefetch(row + c);
  }

  HWY_INLINE V Load(const float* from, int v) const {
    const float* at = from + v * NumLanes();
    return kPartial && v == kVectors - 1 ? LoadFirst(mask_, D(), at) : hn::LoadU(D(), at);
  }

  HWY_INLINE void Store(const V* sums, float* to) const {
    for (int v = 0; v < kVectors; ++v) {
      float* at = to + v * NumLanes();
      if (kPartial && v == kVectors - 1) {
        hn::BlendedStore(sums[v], mask_, D(), at);
      } else {
        hn::StoreU(sums[v], D(), at);
      }
    }
  }

  const RowTerms<float>& terms_;
  std::int64_t columns_, begin_, count_;
  hn::Mask<D> mask_;
};

constexpr int kMostVectors = 8;

/// Calls `body` with a constant of at most kMostVectors that equals `vectors`.
template <int kVectors = kMostVectors, class Body>
HWY_INLINE void WithVectors(std::int64_t vectors, const Body& body) {
  if constexpr (kVectors > 1) {
    if (vectors < kVectors) return WithVectors<kVectors - 1>(vectors, body);
  }
  body(std::integral_constant<int, kVectors>());
}

void SumRows(const RowOrder& order, const RowPiece& piece, std::int64_t columns,
             const RowTerms<float>& terms) {
  const std::int64_t lanes = NumLanes();
  for (std::int64_t begin = piece.begin; begin < piece.end; begin += kMostVectors * lanes) {
    const std::int64_t count = std::min(kMostVectors * lanes, piece.end - begin);
    WithVectors((count + lanes - 1) / lanes, [&](auto vectors) {
      if (count % lanes == 0) {
        Columns<vectors, false>(terms, columns, begin, count).Sum(order, piece);
      } else {
        Columns<vectors, true>(terms, columns, begin, count).Sum(order, piece);
      }
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace pando::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {

HWY_EXPORT(SumRows);

void sum_rows_f32(const RowOrder& order, const RowPiece& piece, std::int64_t columns,
                  const RowTerms<float>& terms) {
  HWY_DYNAMIC_DISPATCH(SumRows)(order, piece, columns, terms);
}

}  // namespace pando::cpu
#endif  // HWY_ONCE
