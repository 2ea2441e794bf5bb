#include "pando/backends/cpu/kernels/half_rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/kernels/half_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "pando/backends/cpu/half-inl.h"
#include "pando/base/half.hpp"

HWY_BEFORE_NAMESPACE();
namespace pando::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;

template <class Vectors, DType kFormat>
void ToFloats(const std::uint16_t* from, float* to, std::size_t count) {
  const D d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    hn::StoreU(Vectors::Load(d, from + i), d, to + i);
  }
  for (; i < count; ++i) to[i] = half_precision_to_float(from[i], kFormat);
}

template <class Vectors, DType kFormat>
void FromFloats(const float* from, std::uint16_t* to, std::size_t count) {
  const D d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    Vectors::Store(d, hn::LoadU(d, from + i), to + i);
  }
  for (; i < count; ++i) to[i] = float_to_half_precision(from[i], kFormat);
}

void HalfPrecisionToFloats(DType format, const std::uint16_t* from, float* to, std::size_t count) {
  if (format == DType::Float16) {
    ToFloats<Float16Vectors, DType::Float16>(from, to, count);
  } else {
    ToFloats<BFloat16Vectors, DType::BFloat16>(from, to, count);
  }
}

void FloatsToHalfPrecision(DType format, const float* from, std::uint16_t* to, std::size_t count) {
  if (format == DType::Float16) {
    FromFloats<Float16Vectors, DType::Float16>(from, to, count);
  } else {
    FromFloats<BFloat16Vectors, DType::BFloat16>(from, to, count);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace pando::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {

HWY_EXPORT(HalfPrecisionToFloats);
HWY_EXPORT(FloatsToHalfPrecision);

void half_precision_to_floats(DType format, const std::uint16_t* from, float* to,
                              std::size_t count) {
  HWY_DYNAMIC_DISPATCH(HalfPrecisionToFloats)(format, from, to, count);
}

void floats_to_half_precision(DType format, const float* from, std::uint16_t* to,
                              std::size_t count) {
  HWY_DYNAMIC_DISPATCH(FloatsToHalfPrecision)(format, from, to, count);
}

}  // namespace pando::cpu
#endif  // HWY_ONCE
