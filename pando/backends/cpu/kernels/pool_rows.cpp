#include "pando/backends/cpu/kernels/pool_rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/kernels/pool_rows.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace pando::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr std::int64_t kLanes = hn::MaxLanes(D());

/// Results that whole vectors may cover: with stride 2 a vector also touches the cell after its
/// last one, which must lie before the last cell of the row.
HWY_INLINE std::int64_t VectorCount(std::int64_t stride, std::int64_t count) {
  if (stride == 1) return count / kLanes * kLanes;
  if (stride == 2 && count > 0) return (count - 1) / kLanes * kLanes;
  return 0;
}

HWY_INLINE V LoadCells(const float* x, std::int64_t stride) {
  const D d;
  if (stride == 1) return hn::LoadU(d, x);
  V even, odd;
  hn::LoadInterleaved2(d, x, even, odd);
  return even;
}

HWY_INLINE V LargerOrNan(V value, V best) {
  const auto take = hn::Or(hn::Gt(value, best), hn::IsNaN(value));
  return hn::IfThenElse(take, value, best);
}

/// Calls body(i) for whole vectors of [0, count), the last one moved back to end there; needs
/// count >= kLanes and a body that may visit an element twice.
template <class Body>
HWY_INLINE void ForVectors(std::int64_t count, const Body& body) {
  for (std::int64_t i = 0; i + kLanes < count; i += kLanes) body(i);
  body(count - kLanes);
}

void MaxCells(const float* x, std::int64_t stride, float* y, std::int64_t count) {
  const D d;
  if (stride == 1 && count >= kLanes) {
    ForVectors(count, [&](std::int64_t i) HWY_ATTR {
      hn::StoreU(LargerOrNan(hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, y + i);
    });
    return;
  }
  const std::int64_t whole = VectorCount(stride, count);
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    hn::StoreU(LargerOrNan(LoadCells(x + i * stride, stride), hn::LoadU(d, y + i)), d, y + i);
  }
  max_cells<float>(x + whole * stride, stride, y + whole, count - whole);
}

/// dx[i * stride] += share(i) for `whole` elements, a number of full vectors.
template <class Share>
HWY_INLINE void AddShares(float* dx, std::int64_t stride, std::int64_t whole, const Share& share) {
  const D d;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    float* to = dx + i * stride;
    if (stride == 1) {
      hn::StoreU(hn::Add(hn::LoadU(d, to), share(i)), d, to);
    } else {
      V even, odd;
      hn::LoadInterleaved2(d, to, even, odd);
      hn::StoreInterleaved2(hn::Add(even, share(i)), odd, d, to);
    }
  }
}

void MaxCellsGrad(const float* x, const float* y, const float* g, std::int64_t stride, float* dx,
                  std::int64_t count) {
  const D d;
  const std::int64_t whole = VectorCount(stride, count);
  AddShares(dx, stride, whole, [&](std::int64_t i) HWY_ATTR {
    const auto is_max = hn::Eq(LoadCells(x + i * stride, stride), hn::LoadU(d, y + i));
    return hn::IfThenElseZero(is_max, hn::LoadU(d, g + i));
  });
  max_cells_grad<float>(x + whole * stride, y + whole, g + whole, stride, dx + whole * stride,
                        count - whole);
}

void FirstMaxCellsGrad(const float* x, const float* y, float* left, std::int64_t stride, float* dx,
                       std::int64_t count) {
  const D d;
  const std::int64_t whole = VectorCount(stride, count);
  AddShares(dx, stride, whole, [&](std::int64_t i) HWY_ATTR {
    const auto is_max = hn::Eq(LoadCells(x + i * stride, stride), hn::LoadU(d, y + i));
    const V share = hn::LoadU(d, left + i);
    hn::StoreU(hn::IfThenZeroElse(is_max, share), d, left + i);
    return hn::IfThenElseZero(is_max, share);
  });
  first_max_cells_grad<float>(x + whole * stride, y + whole, left + whole, stride,
                              dx + whole * stride, count - whole);
}

void AddCells(const float* x, std::int64_t stride, float* y, std::int64_t count) {
  const D d;
  const std::int64_t whole = VectorCount(stride, count);
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    hn::StoreU(hn::Add(LoadCells(x + i * stride, stride), hn::LoadU(d, y + i)), d, y + i);
  }
  add_cells<float>(x + whole * stride, stride, y + whole, count - whole);
}

void AddCellsGrad(const float* g, std::int64_t stride, float* dx, std::int64_t count) {
  const std::int64_t whole = VectorCount(stride, count);
  AddShares(dx, stride, whole, [&](std::int64_t i) HWY_ATTR { return hn::LoadU(D(), g + i); });
  add_cells_grad<float>(g + whole, stride, dx + whole * stride, count - whole);
}

void AddRuns(const float* x, std::int64_t stride, float* y, std::span<const RowRun> runs) {
  for (const RowRun& run : runs) AddCells(x + run.from, stride, y + run.to, run.count);
}

void AddRunsGrad(const float* g, std::int64_t stride, float* dx, std::span<const RowRun> runs) {
  for (const RowRun& run : runs) AddCellsGrad(g + run.to, stride, dx + run.from, run.count);
}

void RepeatCells(const float* from, std::int64_t stride, float* to, std::int64_t count) {
  const D d;
  const std::int64_t whole = stride == 2 ? count / kLanes * kLanes : 0;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    const V cells = hn::LoadU(d, from + i);
    hn::StoreInterleaved2(cells, cells, d, to + 2 * i);
  }
  repeat_cells<float>(from + whole, stride, to + whole * stride, count - whole);
}

void SelectMax(const float* x, const float* y, const float* g, float* dx, std::int64_t count) {
  const D d;
  if (count < kLanes) return select_max<float>(x, y, g, dx, count);
  ForVectors(count, [&](std::int64_t i) HWY_ATTR {
    const auto is_max = hn::Eq(hn::LoadU(d, x + i), hn::LoadU(d, y + i));
    hn::StoreU(hn::IfThenElseZero(is_max, hn::LoadU(d, g + i)), d, dx + i);
  });
}

}  // namespace
}  // namespace pando::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {

HWY_EXPORT(MaxCells);
HWY_EXPORT(MaxCellsGrad);
HWY_EXPORT(FirstMaxCellsGrad);
HWY_EXPORT(AddCells);
HWY_EXPORT(AddCellsGrad);
HWY_EXPORT(AddRuns);
HWY_EXPORT(AddRunsGrad);
HWY_EXPORT(RepeatCells);
HWY_EXPORT(SelectMax);

void max_cells(const float* x, std::int64_t stride, float* y, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(MaxCells)(x, stride, y, count);
}

void max_cells_grad(const float* x, const float* y, const float* g, std::int64_t stride, float* dx,
                    std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(MaxCellsGrad)(x, y, g, stride, dx, count);
}

void first_max_cells_grad(const float* x, const float* y, float* left, std::int64_t stride,
                          float* dx, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(FirstMaxCellsGrad)(x, y, left, stride, dx, count);
}

void add_cells(const float* x, std::int64_t stride, float* y, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(AddCells)(x, stride, y, count);
}

void add_cells_grad(const float* g, std::int64_t stride, float* dx, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(AddCellsGrad)(g, stride, dx, count);
}

void add_runs(const float* x, std::int64_t stride, float* y, std::span<const RowRun> runs) {
  HWY_DYNAMIC_DISPATCH(AddRuns)(x, stride, y, runs);
}

void add_runs_grad(const float* g, std::int64_t stride, float* dx, std::span<const RowRun> runs) {
  HWY_DYNAMIC_DISPATCH(AddRunsGrad)(g, stride, dx, runs);
}

void repeat_cells(const float* from, std::int64_t stride, float* to, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(RepeatCells)(from, stride, to, count);
}

void select_max(const float* x, const float* y, const float* g, float* dx, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(SelectMax)(x, y, g, dx, count);
}

}  // namespace pando::cpu
#endif  // HWY_ONCE
