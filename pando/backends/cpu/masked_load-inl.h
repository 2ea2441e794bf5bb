// Loads of the last, partial vector of a row. Included once per SIMD target.
#include <cstring>

#include "hwy/highway.h"

#if defined(PANDO_MASKED_LOAD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PANDO_MASKED_LOAD_INL_H
#undef PANDO_MASKED_LOAD_INL_H
#else
#define PANDO_MASKED_LOAD_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace pando::cpu::HWY_NAMESPACE {
namespace {

/// The lanes in which `first`, a mask of the first ones, holds, and zeros. Highway's MaskedLoad
/// wants aligned addresses where the processor has no such instruction, and reads all lanes.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> LoadFirst(hwy::HWY_NAMESPACE::Mask<D> first, D d,
                                                const hwy::HWY_NAMESPACE::TFromD<D>* from) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_TARGET <= HWY_AVX2
  return hn::MaskedLoad(first, d, from);
#else
  const std::size_t count = hn::CountTrue(d, first);
  if (count == hn::Lanes(d)) return hn::LoadU(d, from);
  HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(d)] = {};
  std::memcpy(lanes, from, count * sizeof(lanes[0]));
  return hn::Load(d, lanes);
#endif
}

}  // namespace
}  // namespace pando::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
