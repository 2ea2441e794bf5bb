#include "pando/backends/cpu/kernels/recurrent_cells.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/kernels/recurrent_cells.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "pando/backends/cpu/fused/float_math-inl.h"
#include "pando/backends/cpu/masked_load-inl.h"

// Vector types as template arguments lose their attributes; nothing here depends on them.
#pragma GCC diagnostic ignored "-Wignored-attributes"

HWY_BEFORE_NAMESPACE();
namespace pando::cpu {
namespace HWY_NAMESPACE {
namespace {

using M = hn::Mask<D>;

/// What a lane of rows is loaded and stored with; `Whole` needs no mask.
struct Whole {
  HWY_INLINE V Load(const float* at) const { return hn::LoadU(D(), at); }
  HWY_INLINE void Store(V v, float* at) const { hn::StoreU(v, D(), at); }
};
struct First {
  M mask;
  HWY_INLINE V Load(const float* at) const { return LoadFirst(mask, D(), at); }
  HWY_INLINE void Store(V v, float* at) const { hn::BlendedStore(v, mask, D(), at); }
};

/// Calls body(i, Whole or First) for the vectors of [0, count).
template <class Body>
HWY_INLINE void ForVectors(std::int64_t count, const Body& body) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(i, Whole{});
  if (i < count) body(i, First{hn::FirstN(D(), static_cast<std::size_t>(count - i))});
}

HWY_INLINE V One() { return hn::Set(D(), 1.0f); }
/// g s (1 - s): the gradient through a sigmoid with the value s.
HWY_INLINE V ThroughSigmoid(V g, V s) { return hn::Mul(hn::Mul(g, s), hn::Sub(One(), s)); }
/// g (1 - t^2): the gradient through a tanh with the value t.
HWY_INLINE V ThroughTanh(V g, V t) { return hn::Mul(g, hn::NegMulAdd(t, t, One())); }

/// Keeps what the gradient reads.
template <class At>
HWY_INLINE void Save(const CellStep& s, std::int64_t k, At at, const V (&gates)[4]) {
  if (s.saved == nullptr) return;
  for (std::int64_t n = 0; n < 4; ++n) at.Store(gates[n], s.saved + n * s.hidden + k);
}

void LstmStep(const CellStep& s) {
  const std::int64_t h = s.hidden;
  ForVectors(s.count, [&](std::int64_t k, auto at) HWY_ATTR {
    const auto gate = [&](std::int64_t n) HWY_ATTR {
      return hn::Add(at.Load(s.parts + n * h + k), at.Load(s.product + n * s.product_gate + k));
    };
    const V i = SigmoidF(gate(0)), f = SigmoidF(gate(1)), g = TanhF(gate(2)), o = SigmoidF(gate(3));
    const V cell = hn::MulAdd(f, at.Load(s.cell + k), hn::Mul(i, g));
    Save(s, k, at, {i, f, g, o});
    at.Store(cell, s.next_cell + k);
    at.Store(hn::Mul(o, TanhF(cell)), s.next_state + k);
  });
}

void GruStep(const CellStep& s) {
  const std::int64_t h = s.hidden;
  ForVectors(s.count, [&](std::int64_t k, auto at) HWY_ATTR {
    const auto gate = [&](std::int64_t n) HWY_ATTR {
      return hn::Add(at.Load(s.parts + n * h + k), at.Load(s.product + n * s.product_gate + k));
    };
    const V r = SigmoidF(gate(0)), z = SigmoidF(gate(1));
    const V q = at.Load(s.product + 2 * s.product_gate + k);
    const V n = TanhF(hn::MulAdd(r, q, at.Load(s.parts + 2 * h + k)));
    Save(s, k, at, {r, z, n, q});
    // (1 - z) n + z h
    at.Store(hn::MulAdd(z, hn::Sub(at.Load(s.state + k), n), n), s.next_state + k);
  });
}

template <bool kTanh>
void PlainStep(const CellStep& s) {
  ForVectors(s.count, [&](std::int64_t k, auto at) HWY_ATTR {
    const V sum = hn::Add(at.Load(s.parts + k), at.Load(s.product + k));
    if constexpr (kTanh) {
      at.Store(TanhF(sum), s.next_state + k);
    } else {
      at.Store(LargerOfNumber(sum, hn::Zero(D())), s.next_state + k);
    }
  });
}

void Step(Cell cell, const CellStep& step) {
  if (cell == Cell::Lstm) LstmStep(step);
  if (cell == Cell::Gru) GruStep(step);
  if (cell == Cell::Tanh) PlainStep<true>(step);
  if (cell == Cell::Relu) PlainStep<false>(step);
}

/// What reaches the state after the step.
template <class At>
HWY_INLINE V StateGradient(const CellGradient& s, std::int64_t k, At at) {
  const V later = at.Load(s.carried + k);
  return s.g == nullptr ? later : hn::Add(later, at.Load(s.g + k));
}

void LstmGradient(const CellGradient& s) {
  const std::int64_t h = s.hidden;
  ForVectors(s.count, [&](std::int64_t k, auto at) HWY_ATTR {
    const V i = at.Load(s.saved + k), f = at.Load(s.saved + h + k);
    const V g = at.Load(s.saved + 2 * h + k), o = at.Load(s.saved + 3 * h + k);
    const V state = StateGradient(s, k, at);
    const V t = TanhF(at.Load(s.next_cell + k));
    V cell = hn::Add(at.Load(s.carried_cell + k), ThroughTanh(hn::Mul(state, o), t));
    if (s.g_cell != nullptr) cell = hn::Add(cell, at.Load(s.g_cell + k));
    at.Store(ThroughSigmoid(hn::Mul(cell, g), i), s.parts + k);
    at.Store(ThroughSigmoid(hn::Mul(cell, at.Load(s.cell + k)), f), s.parts + h + k);
    at.Store(ThroughTanh(hn::Mul(cell, i), g), s.parts + 2 * h + k);
    at.Store(ThroughSigmoid(hn::Mul(state, t), o), s.parts + 3 * h + k);
    at.Store(hn::Mul(cell, f), s.carried_cell + k);
    at.Store(hn::Zero(D()), s.carried + k);
  });
}

void GruGradient(const CellGradient& s) {
  const std::int64_t h = s.hidden;
  ForVectors(s.count, [&](std::int64_t k, auto at) HWY_ATTR {
    const V r = at.Load(s.saved + k), z = at.Load(s.saved + h + k);
    const V n = at.Load(s.saved + 2 * h + k), q = at.Load(s.saved + 3 * h + k);
    const V state = StateGradient(s, k, at);
    const V through_n = ThroughTanh(hn::Mul(state, hn::Sub(One(), z)), n);
    const V through_r = ThroughSigmoid(hn::Mul(through_n, q), r);
    const V through_z = ThroughSigmoid(hn::Mul(state, hn::Sub(at.Load(s.state + k), n)), z);
    at.Store(through_r, s.parts + k);
    at.Store(through_z, s.parts + h + k);
    at.Store(through_n, s.parts + 2 * h + k);
    at.Store(through_r, s.product + k);
    at.Store(through_z, s.product + h + k);
    at.Store(hn::Mul(through_n, r), s.product + 2 * h + k);
    at.Store(hn::Mul(state, z), s.carried + k);
  });
}

template <bool kTanh>
void PlainGradient(const CellGradient& s) {
  ForVectors(s.count, [&](std::int64_t k, auto at) HWY_ATTR {
    const V state = StateGradient(s, k, at);
    const V after = at.Load(s.next_state + k);
    if constexpr (kTanh) {
      at.Store(ThroughTanh(state, after), s.parts + k);
    } else {
      at.Store(hn::IfThenElseZero(hn::Gt(after, hn::Zero(D())), state), s.parts + k);
    }
    at.Store(hn::Zero(D()), s.carried + k);
  });
}

void Gradient(Cell cell, const CellGradient& step) {
  if (cell == Cell::Lstm) LstmGradient(step);
  if (cell == Cell::Gru) GruGradient(step);
  if (cell == Cell::Tanh) PlainGradient<true>(step);
  if (cell == Cell::Relu) PlainGradient<false>(step);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace pando::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {
namespace {
HWY_EXPORT(Step);
HWY_EXPORT(Gradient);
}  // namespace

void cell_step(Cell cell, const CellStep& step) { HWY_DYNAMIC_DISPATCH(Step)(cell, step); }
void cell_gradient(Cell cell, const CellGradient& step) {
  HWY_DYNAMIC_DISPATCH(Gradient)(cell, step);
}

}  // namespace pando::cpu
#endif  // HWY_ONCE
