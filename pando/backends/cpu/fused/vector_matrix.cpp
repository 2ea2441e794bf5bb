#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/fused/vector_matrix.cpp"
// Highway includes this file once per SIMD target.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "pando/backends/cpu/fused/micro_op.hpp"
#include "pando/backends/cpu/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pando::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;

/// kVectors vectors of columns from `column` on, which stay in registers over the whole depth.
template <int kVectors>
HWY_INLINE void SumColumns(const VectorMatrix& m, std::int64_t column, float* out) {
  static_assert(kVectors == 1 || kVectors == 8);
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const float* right = m.right + column;
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  for (std::int64_t k = 0; k < m.depth; ++k, right += m.right_stride) {
    const auto factor = hn::Set(d, m.left[k * m.left_stride]);
    s0 = hn::MulAdd(factor, hn::LoadU(d, right), s0);
    if constexpr (kVectors == 8) {
      s1 = hn::MulAdd(factor, hn::LoadU(d, right + lanes), s1);
      s2 = hn::MulAdd(factor, hn::LoadU(d, right + 2 * lanes), s2);
      s3 = hn::MulAdd(factor, hn::LoadU(d, right + 3 * lanes), s3);
      s4 = hn::MulAdd(factor, hn::LoadU(d, right + 4 * lanes), s4);
      s5 = hn::MulAdd(factor, hn::LoadU(d, right + 5 * lanes), s5);
      s6 = hn::MulAdd(factor, hn::LoadU(d, right + 6 * lanes), s6);
      s7 = hn::MulAdd(factor, hn::LoadU(d, right + 7 * lanes), s7);
    }
  }
  hn::StoreU(s0, d, out + column);
  if constexpr (kVectors == 8) {
    hn::StoreU(s1, d, out + column + lanes);
    hn::StoreU(s2, d, out + column + 2 * lanes);
    hn::StoreU(s3, d, out + column + 3 * lanes);
    hn::StoreU(s4, d, out + column + 4 * lanes);
    hn::StoreU(s5, d, out + column + 5 * lanes);
    hn::StoreU(s6, d, out + column + 6 * lanes);
    hn::StoreU(s7, d, out + column + 7 * lanes);
  }
}

/// Fewer columns than a vector has lanes.
HWY_INLINE void SumLastColumns(const VectorMatrix& m, std::int64_t column, float* out) {
  const D d;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(m.columns - column));
  const float* right = m.right + column;
  auto sum = hn::Zero(d);
  for (std::int64_t k = 0; k < m.depth; ++k, right += m.right_stride) {
    const auto factor = hn::Set(d, m.left[k * m.left_stride]);
    sum = hn::MulAdd(factor, LoadFirst(rest, d, right), sum);
  }
  hn::BlendedStore(sum, rest, d, out + column);
}

void VectorTimesMatrix(const VectorMatrix& m, float* HWY_RESTRICT out) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  std::int64_t column = 0;
  for (; column + 8 * lanes <= m.columns; column += 8 * lanes) SumColumns<8>(m, column, out);
  for (; column + lanes <= m.columns; column += lanes) SumColumns<1>(m, column, out);
  if (column < m.columns) SumLastColumns(m, column, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace pando::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {

HWY_EXPORT(VectorTimesMatrix);

void vector_times_matrix(const VectorMatrix& operands, float* out) {
  HWY_DYNAMIC_DISPATCH(VectorTimesMatrix)(operands, out);
}

}  // namespace pando::cpu
#endif
