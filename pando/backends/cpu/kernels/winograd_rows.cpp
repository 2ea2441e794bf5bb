#include "pando/backends/cpu/kernels/winograd_rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/kernels/winograd_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "pando/backends/cpu/unroll.hpp"

HWY_BEFORE_NAMESPACE();
namespace pando::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr std::int64_t kLanes = hn::MaxLanes(D());
static_assert(kWinogradChannels % kLanes == 0);

void Tile(const float* const* tile, std::int64_t channels, float* to, std::int64_t stride) {
  const D d;
  for (std::int64_t c = 0; c < channels; c += kLanes) {
    V rows[16];
    PANDO_UNROLL
    for (int j = 0; j < 4; ++j) {
      const V a = hn::LoadU(d, tile[j] + c), b = hn::LoadU(d, tile[4 + j] + c);
      const V e = hn::LoadU(d, tile[8 + j] + c), f = hn::LoadU(d, tile[12 + j] + c);
      rows[j] = hn::Sub(a, e);
      rows[4 + j] = hn::Add(b, e);
      rows[8 + j] = hn::Sub(e, b);
      rows[12 + j] = hn::Sub(b, f);
    }
    PANDO_UNROLL
    for (int i = 0; i < 4; ++i) {
      const V a = rows[4 * i], b = rows[4 * i + 1], e = rows[4 * i + 2], f = rows[4 * i + 3];
      float* at = to + 4 * i * stride + c;
      hn::StoreU(hn::Sub(a, e), d, at);
      hn::StoreU(hn::Add(b, e), d, at + stride);
      hn::StoreU(hn::Sub(e, b), d, at + 2 * stride);
      hn::StoreU(hn::Sub(b, f), d, at + 3 * stride);
    }
  }
}

void Pixels(const float* from, std::int64_t stride, std::int64_t channels, float* const* pixels) {
  const D d;
  for (std::int64_t c = 0; c < channels; c += kLanes) {
    V rows[8];
    PANDO_UNROLL
    for (int j = 0; j < 4; ++j) {
      const auto product = [&](int i) HWY_ATTR { return hn::LoadU(d, from + i * stride + c); };
      const V b = product(4 + j), e = product(8 + j);
      rows[j] = hn::Add(product(j), hn::Add(b, e));
      rows[4 + j] = hn::Sub(hn::Sub(b, e), product(12 + j));
    }
    PANDO_UNROLL
    for (int i = 0; i < 2; ++i) {
      const V b = rows[4 * i + 1], e = rows[4 * i + 2];
      hn::StoreU(hn::Add(rows[4 * i], hn::Add(b, e)), d, pixels[2 * i] + c);
      hn::StoreU(hn::Sub(hn::Sub(b, e), rows[4 * i + 3]), d, pixels[2 * i + 1] + c);
    }
  }
}

void PixelsGrad(const float* const* pixels, std::int64_t channels, float* to, std::int64_t stride) {
  const D d;
  for (std::int64_t c = 0; c < channels; c += kLanes) {
    V rows[8];
    PANDO_UNROLL
    for (int j = 0; j < 2; ++j) {
      const V a = hn::LoadU(d, pixels[j] + c), b = hn::LoadU(d, pixels[2 + j] + c);
      rows[j] = a;
      rows[2 + j] = hn::Add(a, b);
      rows[4 + j] = hn::Sub(a, b);
      rows[6 + j] = hn::Neg(b);
    }
    PANDO_UNROLL
    for (int i = 0; i < 4; ++i) {
      const V a = rows[2 * i], b = rows[2 * i + 1];
      float* at = to + 4 * i * stride + c;
      hn::StoreU(a, d, at);
      hn::StoreU(hn::Add(a, b), d, at + stride);
      hn::StoreU(hn::Sub(a, b), d, at + 2 * stride);
      hn::StoreU(hn::Neg(b), d, at + 3 * stride);
    }
  }
}

/// Element t of filter f at `lanes[t * kLanes + f]`.
HWY_INLINE void SpreadTaps(const float* filters, FilterOrder order, float* lanes) {
  for (std::int64_t f = 0; f < kLanes; ++f) {
    for (int t = 0; t < kWinogradTaps; ++t) {
      const int to = order.rotates ? kWinogradTaps - 1 - t : t;
      lanes[to * kLanes + f] = filters[f * order.distance + t];
    }
  }
}

/// Of three taps: the first, the halves of both sums, the last.
HWY_INLINE void Spread(V a, V b, V e, V* to) {
  const V half = hn::Set(D(), 0.5F);
  const V outer = hn::Add(a, e);
  to[0] = a;
  to[1] = hn::Mul(half, hn::Add(outer, b));
  to[2] = hn::Mul(half, hn::Sub(outer, b));
  to[3] = e;
}

void Filters(const float* filters, std::int64_t count, FilterOrder order, float* to,
             std::int64_t stride) {
  const D d;
  HWY_ALIGN float lanes[kWinogradTaps * kLanes];
  for (std::int64_t f = 0; f < count; f += kLanes) {
    SpreadTaps(filters + f * order.distance, order, lanes);
    V columns[3][4];
    PANDO_UNROLL
    for (int j = 0; j < 3; ++j) {
      Spread(hn::Load(d, lanes + j * kLanes), hn::Load(d, lanes + (3 + j) * kLanes),
             hn::Load(d, lanes + (6 + j) * kLanes), columns[j]);
    }
    PANDO_UNROLL
    for (int i = 0; i < 4; ++i) {
      V row[4];
      Spread(columns[0][i], columns[1][i], columns[2][i], row);
      PANDO_UNROLL
      for (int j = 0; j < 4; ++j) hn::StoreU(row[j], d, to + (4 * i + j) * stride + f);
    }
  }
}

/// The transpose of Spread.
HWY_INLINE void Gather(V a, V b, V e, V f, V* to) {
  const V half = hn::Set(D(), 0.5F);
  const V sum = hn::Mul(half, hn::Add(b, e));
  to[0] = hn::Add(a, sum);
  to[1] = hn::Mul(half, hn::Sub(b, e));
  to[2] = hn::Add(sum, f);
}

void FiltersGrad(const float* from, std::int64_t stride, std::int64_t count, float* filters) {
  const D d;
  HWY_ALIGN float lanes[kWinogradTaps * kLanes];
  for (std::int64_t f = 0; f < count; f += kLanes) {
    V columns[4][3];
    PANDO_UNROLL
    for (int j = 0; j < 4; ++j) {
      const auto product = [&](int i) HWY_ATTR { return hn::LoadU(d, from + i * stride + f); };
      Gather(product(j), product(4 + j), product(8 + j), product(12 + j), columns[j]);
    }
    PANDO_UNROLL
    for (int i = 0; i < 3; ++i) {
      V row[3];
      Gather(columns[0][i], columns[1][i], columns[2][i], columns[3][i], row);
      PANDO_UNROLL
      for (int j = 0; j < 3; ++j) hn::Store(row[j], d, lanes + (3 * i + j) * kLanes);
    }
    for (std::int64_t k = 0; k < kLanes; ++k) {
      for (int t = 0; t < kWinogradTaps; ++t) {
        filters[(f + k) * kWinogradTaps + t] = lanes[t * kLanes + k];
      }
    }
  }
}

}  // namespace
}  // namespace pando::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {

HWY_EXPORT(Tile);
HWY_EXPORT(Pixels);
HWY_EXPORT(PixelsGrad);
HWY_EXPORT(Filters);
HWY_EXPORT(FiltersGrad);

void winograd_tile_f32(const float* const* tile, std::int64_t channels, float* to,
                       std::int64_t stride) {
  HWY_DYNAMIC_DISPATCH(Tile)(tile, channels, to, stride);
}

void winograd_pixels_f32(const float* from, std::int64_t stride, std::int64_t channels,
                         float* const* pixels) {
  HWY_DYNAMIC_DISPATCH(Pixels)(from, stride, channels, pixels);
}

void winograd_pixels_grad_f32(const float* const* pixels, std::int64_t channels, float* to,
                              std::int64_t stride) {
  HWY_DYNAMIC_DISPATCH(PixelsGrad)(pixels, channels, to, stride);
}

void winograd_filters_f32(const float* filters, std::int64_t count, FilterOrder order, float* to,
                          std::int64_t stride) {
  HWY_DYNAMIC_DISPATCH(Filters)(filters, count, order, to, stride);
}

void winograd_filters_grad_f32(const float* from, std::int64_t stride, std::int64_t count,
                               float* filters) {
  HWY_DYNAMIC_DISPATCH(FiltersGrad)(from, stride, count, filters);
}

}  // namespace pando::cpu
#endif  // HWY_ONCE
