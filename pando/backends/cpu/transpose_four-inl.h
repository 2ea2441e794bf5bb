// Transposes of four by four elements of 4 bytes in registers. Included once per SIMD target.
#include "hwy/highway.h"

#if defined(PANDO_TRANSPOSE_FOUR_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PANDO_TRANSPOSE_FOUR_INL_H
#undef PANDO_TRANSPOSE_FOUR_INL_H
#else
#define PANDO_TRANSPOSE_FOUR_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace pando::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
/// `columns[i]` has element i of each of the four rows.
template <class D>
HWY_INLINE void TransposeFour(D d, const hn::Vec<D> (&rows)[4], hn::Vec<D> (&columns)[4]) {
  static_assert(hn::MaxLanes(d) == 4 && sizeof(hn::TFromD<D>) == 4);
  const hn::Repartition<double, D> pairs;
  const auto low_01 = hn::BitCast(pairs, hn::InterleaveLower(d, rows[0], rows[1]));
  const auto high_01 = hn::BitCast(pairs, hn::InterleaveUpper(d, rows[0], rows[1]));
  const auto low_23 = hn::BitCast(pairs, hn::InterleaveLower(d, rows[2], rows[3]));
  const auto high_23 = hn::BitCast(pairs, hn::InterleaveUpper(d, rows[2], rows[3]));
  columns[0] = hn::BitCast(d, hn::InterleaveLower(pairs, low_01, low_23));
  columns[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, low_01, low_23));
  columns[2] = hn::BitCast(d, hn::InterleaveLower(pairs, high_01, high_23));
  columns[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, high_01, high_23));
}
#endif

}  // namespace pando::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
