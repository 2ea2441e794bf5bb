#include "pando/backends/cpu/fused/tile_functions.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "pando/base/error.hpp"
#include "pando/base/half.hpp"
#include "pando/base/philox.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/fused/tile_functions.cpp"
#include "hwy/foreach_target.h"
//
#include "pando/backends/cpu/fused/tile_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pando::cpu::HWY_NAMESPACE {

using FloatTag = hn::ScalableTag<float>;

/// Runs `op(d, a, b, c)` over an F32 tile. Tails use masked loads and stores: operands may be the
/// caller's memory, with nothing after the last element.
template <int kArity, SplatMask kSplats, class Op>
HWY_ATTR void FloatLoop(const TileArguments& args, Op op) {
  const FloatTag d;
  using V = hn::Vec<FloatTag>;
  const std::size_t lanes = hn::Lanes(d);
  const auto* a = static_cast<const float*>(args.a);
  const auto* b = static_cast<const float*>(args.b);
  const auto* c = static_cast<const float*>(args.c);
  auto* out = static_cast<float*>(args.out);
  const V splat_a = (kSplats & 1) != 0 ? hn::Set(d, *a) : hn::Zero(d);
  const V splat_b = (kSplats & 2) != 0 ? hn::Set(d, *b) : hn::Zero(d);
  const V splat_c = (kSplats & 4) != 0 ? hn::Set(d, *c) : hn::Zero(d);
  const std::size_t count = args.count;
  std::size_t i = 0;
  const auto step = [&](auto load) HWY_ATTR {
    const V va = (kSplats & 1) != 0 ? splat_a : load(a);
    const V vb = kArity < 2 || (kSplats & 2) != 0 ? splat_b : load(b);
    const V vc = kArity < 3 || (kSplats & 4) != 0 ? splat_c : load(c);
    return op(d, va, vb, vc);
  };
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(step([&](const float* p) HWY_ATTR { return hn::LoadU(d, p + i); }), d, out + i);
  }
  if (i < count) {
    const auto mask = hn::FirstN(d, count - i);
    const V v = step([&](const float* p) HWY_ATTR { return hn::MaskedLoad(mask, d, p + i); });
    hn::BlendedStore(v, mask, d, out + i);
  }
}

/// Scalar loop in type T; the compiler vectorises it for the target.
template <class T, class Out, int kArity, SplatMask kSplats, class Op>
HWY_ATTR void PlainLoop(const TileArguments& args, Op op) {
  const auto* a = static_cast<const T*>(args.a);
  const auto* b = static_cast<const T*>(args.b);
  const auto* c = static_cast<const T*>(args.c);
  auto* out = static_cast<Out*>(args.out);
  for (std::size_t i = 0; i < args.count; ++i) {
    const T va = a[(kSplats & 1) != 0 ? 0 : i];
    const T vb = kArity < 2 ? T{} : b[(kSplats & 2) != 0 ? 0 : i];
    const T vc = kArity < 3 ? T{} : c[(kSplats & 4) != 0 ? 0 : i];
    out[i] = static_cast<Out>(op(va, vb, vc));
  }
}

#define PANDO_FLOAT_OP(name, arity, expression)                                   \
  template <SplatMask kSplats>                                                    \
  HWY_ATTR void name##F32Tile(const TileArguments& args) {                        \
    FloatLoop<arity, kSplats>(args, [](auto d, auto a, auto b, auto c) HWY_ATTR { \
      (void)d, (void)a, (void)b, (void)c;                                         \
      return expression;                                                          \
    });                                                                           \
  }

PANDO_FLOAT_OP(Add, 2, hn::Add(a, b))
PANDO_FLOAT_OP(Sub, 2, hn::Sub(a, b))
PANDO_FLOAT_OP(Mul, 2, hn::Mul(a, b))
PANDO_FLOAT_OP(Div, 2, hn::Div(a, b))
PANDO_FLOAT_OP(Fma, 3, hn::MulAdd(a, b, c))
PANDO_FLOAT_OP(Min, 2, hn::IfThenElse(hn::Eq(a, a), hn::IfThenElse(hn::Lt(a, b), a, b), a))
PANDO_FLOAT_OP(Max, 2, hn::IfThenElse(hn::Eq(a, a), hn::IfThenElse(hn::Gt(a, b), a, b), a))
PANDO_FLOAT_OP(Neg, 1, hn::Neg(a))
PANDO_FLOAT_OP(Abs, 1, hn::Abs(a))
PANDO_FLOAT_OP(Sqrt, 1, hn::Sqrt(a))
PANDO_FLOAT_OP(Exp, 1, ExpF32(d, a))
PANDO_FLOAT_OP(Log, 1, LogF32(d, a))
PANDO_FLOAT_OP(Tanh, 1, TanhF32(d, a))
PANDO_FLOAT_OP(Sigmoid, 1, SigmoidF32(d, a))
PANDO_FLOAT_OP(Erf, 1, ErfF32(d, a))
PANDO_FLOAT_OP(Floor, 1, hn::Floor(a))
PANDO_FLOAT_OP(Ceil, 1, hn::Ceil(a))
PANDO_FLOAT_OP(RoundEven, 1, hn::Round(a))
#undef PANDO_FLOAT_OP

/// Comparison of F32 tiles into an I32 tile of 0 and 1.
template <SplatMask kSplats, class Compare>
HWY_ATTR void CompareF32(const TileArguments& args, Compare compare) {
  FloatLoop<2, kSplats>(args, [&](auto d, auto a, auto b, auto) HWY_ATTR {
    const hn::RebindToSigned<FloatTag> di;
    const auto ones = hn::BitCast(d, hn::Set(di, 1));
    return hn::IfThenElseZero(compare(a, b), ones);
  });
}
template <SplatMask kSplats>
HWY_ATTR void EqualF32Tile(const TileArguments& args) {
  CompareF32<kSplats>(args, [](auto a, auto b) HWY_ATTR { return hn::Eq(a, b); });
}
template <SplatMask kSplats>
HWY_ATTR void LessF32Tile(const TileArguments& args) {
  CompareF32<kSplats>(args, [](auto a, auto b) HWY_ATTR { return hn::Lt(a, b); });
}
template <SplatMask kSplats>
HWY_ATTR void LessEqualF32Tile(const TileArguments& args) {
  CompareF32<kSplats>(args, [](auto a, auto b) HWY_ATTR { return hn::Le(a, b); });
}
/// a is an I32 tile; b and c are 4-byte tiles of any lane type.
template <SplatMask kSplats>
HWY_ATTR void Select4Tile(const TileArguments& args) {
  FloatLoop<3, kSplats>(args, [](auto d, auto a, auto b, auto c) HWY_ATTR {
    const hn::RebindToSigned<FloatTag> di;
    const auto zero = hn::RebindMask(d, hn::Eq(hn::BitCast(di, a), hn::Zero(di)));
    return hn::IfThenElse(zero, c, b);
  });
}
template <SplatMask kSplats>
HWY_ATTR void Select8Tile(const TileArguments& args) {
  const auto* a = static_cast<const std::int32_t*>(args.a);
  const auto* b = static_cast<const std::uint64_t*>(args.b);
  const auto* c = static_cast<const std::uint64_t*>(args.c);
  auto* out = static_cast<std::uint64_t*>(args.out);
  for (std::size_t i = 0; i < args.count; ++i) {
    const bool chosen = a[(kSplats & 1) != 0 ? 0 : i] != 0;
    out[i] = chosen ? b[(kSplats & 2) != 0 ? 0 : i] : c[(kSplats & 4) != 0 ? 0 : i];
  }
}

template <class T>
using Unsigned = std::make_unsigned_t<std::conditional_t<std::is_floating_point_v<T>, int, T>>;

/// a / b and a % b of integers: truncating, 0 for a zero divisor, wrapping for -1.
template <class T>
T IntegerDiv(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return static_cast<T>(Unsigned<T>{0} - static_cast<Unsigned<T>>(a));
  }
  return static_cast<T>(a / b);
}
template <class T>
T IntegerRem(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return static_cast<T>(a % b);
}

template <ScalarOp kOp, class T>
HWY_INLINE T FloatResult(T a, T b, T c) {
  if constexpr (kOp == ScalarOp::Add) return a + b;
  if constexpr (kOp == ScalarOp::Sub) return a - b;
  if constexpr (kOp == ScalarOp::Mul) return a * b;
  if constexpr (kOp == ScalarOp::Div) return a / b;
  if constexpr (kOp == ScalarOp::Rem) return std::fmod(a, b);
  if constexpr (kOp == ScalarOp::Fma) return std::fma(a, b, c);
  if constexpr (kOp == ScalarOp::Neg) return -a;
  if constexpr (kOp == ScalarOp::Abs) return std::fabs(a);
  if constexpr (kOp == ScalarOp::Exp) return std::exp(a);
  if constexpr (kOp == ScalarOp::Log) return std::log(a);
  if constexpr (kOp == ScalarOp::Sqrt) return std::sqrt(a);
  if constexpr (kOp == ScalarOp::Tanh) return std::tanh(a);
  if constexpr (kOp == ScalarOp::Sigmoid) return 1 / (1 + std::exp(-a));
  if constexpr (kOp == ScalarOp::Erf) return std::erf(a);
  if constexpr (kOp == ScalarOp::Sin) return std::sin(a);
  if constexpr (kOp == ScalarOp::Cos) return std::cos(a);
  if constexpr (kOp == ScalarOp::Pow) return std::pow(a, b);
  if constexpr (kOp == ScalarOp::Floor) return std::floor(a);
  if constexpr (kOp == ScalarOp::Ceil) return std::ceil(a);
  if constexpr (kOp == ScalarOp::RoundEven) return std::nearbyint(a);
  return a;
}

/// Add, Sub, Mul, Neg and Fma wrap: done on the unsigned type.
template <ScalarOp kOp, class T>
HWY_INLINE T IntegerResult(T a, T b, T c) {
  using U = Unsigned<T>;
  const auto ua = static_cast<U>(a), ub = static_cast<U>(b), uc = static_cast<U>(c);
  if constexpr (kOp == ScalarOp::Add) return static_cast<T>(ua + ub);
  if constexpr (kOp == ScalarOp::Sub) return static_cast<T>(ua - ub);
  if constexpr (kOp == ScalarOp::Mul) return static_cast<T>(ua * ub);
  if constexpr (kOp == ScalarOp::Fma) return static_cast<T>(ua * ub + uc);
  if constexpr (kOp == ScalarOp::Neg) return static_cast<T>(U{0} - ua);
  if constexpr (kOp == ScalarOp::And) return static_cast<T>(ua & ub);
  if constexpr (kOp == ScalarOp::Or) return static_cast<T>(ua | ub);
  if constexpr (kOp == ScalarOp::Xor) return static_cast<T>(ua ^ ub);
  if constexpr (kOp == ScalarOp::Div) return IntegerDiv(a, b);
  if constexpr (kOp == ScalarOp::Rem) return IntegerRem(a, b);
  if constexpr (kOp == ScalarOp::Abs) {
    return std::is_signed_v<T> && a < T{0} ? static_cast<T>(U{0} - ua) : a;
  }
  constexpr bool kReal = kOp == ScalarOp::Exp || kOp == ScalarOp::Log || kOp == ScalarOp::Sqrt ||
                         kOp == ScalarOp::Tanh || kOp == ScalarOp::Sigmoid ||
                         kOp == ScalarOp::Erf || kOp == ScalarOp::Sin || kOp == ScalarOp::Cos ||
                         kOp == ScalarOp::Pow;
  if constexpr (kReal) {
    return static_cast<T>(FloatResult<kOp>(static_cast<double>(a), static_cast<double>(b), 0.0));
  }
  return a;
}

template <ScalarOp kOp>
constexpr bool GivesTruth() {
  return kOp == ScalarOp::Equal || kOp == ScalarOp::Less || kOp == ScalarOp::LessEqual ||
         kOp == ScalarOp::IsNan || kOp == ScalarOp::IsInf;
}

template <ScalarOp kOp, class T>
HWY_INLINE bool Truth(T a, T b) {
  if constexpr (kOp == ScalarOp::Equal) return a == b;
  if constexpr (kOp == ScalarOp::Less) return a < b;
  if constexpr (kOp == ScalarOp::LessEqual) return a <= b;
  if constexpr (kOp == ScalarOp::IsNan) return a != a;
  if constexpr (kOp == ScalarOp::IsInf && std::is_floating_point_v<T>) {
    return std::fabs(a) == std::numeric_limits<T>::infinity();
  }
  return false;
}

template <ScalarOp kOp, class T>
HWY_INLINE T Result(T a, T b, T c) {
  if constexpr (kOp == ScalarOp::Min) return a != a ? a : (a < b ? a : b);
  if constexpr (kOp == ScalarOp::Max) return a != a ? a : (a > b ? a : b);
  if constexpr (kOp == ScalarOp::Sign) {
    return a != a ? a : static_cast<T>(static_cast<int>(T{0} < a) - static_cast<int>(a < T{0}));
  }
  if constexpr (std::is_floating_point_v<T>)
    return FloatResult<kOp>(a, b, c);
  else
    return IntegerResult<kOp>(a, b, c);
}

template <class T, ScalarOp kOp, SplatMask kSplats>
HWY_ATTR void PlainTile(const TileArguments& args) {
  constexpr int kArity = kOp == ScalarOp::Fma ? 3 : 2;
  if constexpr (kOp == ScalarOp::Select) {
    if constexpr (sizeof(T) == 4)
      Select4Tile<kSplats>(args);
    else
      Select8Tile<kSplats>(args);
  } else if constexpr (GivesTruth<kOp>()) {
    constexpr int kInputs = kOp == ScalarOp::IsNan || kOp == ScalarOp::IsInf ? 1 : 2;
    PlainLoop<T, std::int32_t, kInputs, kSplats>(
        args, [](T a, T b, T) { return Truth<kOp>(a, b) ? 1 : 0; });
  } else {
    constexpr int kInputs = scalar_arity(kOp) < kArity ? scalar_arity(kOp) : kArity;
    PlainLoop<T, T, kInputs, kSplats>(args, [](T a, T b, T c) { return Result<kOp>(a, b, c); });
  }
}

template <SplatMask kSplats>
HWY_ATTR void PhiloxTile(const TileArguments& args) {
  const auto* key0 = static_cast<const std::uint32_t*>(args.a);
  const auto* key1 = static_cast<const std::uint32_t*>(args.b);
  const auto* index = static_cast<const std::uint32_t*>(args.c);
  auto* out = static_cast<std::uint32_t*>(args.out);
  for (std::size_t i = 0; i < args.count; ++i) {
    out[i] = philox_word(key0[(kSplats & 1) != 0 ? 0 : i], key1[(kSplats & 2) != 0 ? 0 : i],
                         index[(kSplats & 4) != 0 ? 0 : i], static_cast<std::uint32_t>(args.index));
  }
}

HWY_ATTR void IotaTile(const TileArguments& args) {
  auto* out = static_cast<std::uint32_t*>(args.out);
  const auto first = static_cast<std::uint32_t>(args.first);
  for (std::size_t i = 0; i < args.count; ++i) out[i] = first + static_cast<std::uint32_t>(i);
}

template <class From, class To>
HWY_ATTR void ConvertTile(const TileArguments& args) {
  const auto* a = static_cast<const From*>(args.a);
  auto* out = static_cast<To*>(args.out);
  for (std::size_t i = 0; i < args.count; ++i) out[i] = static_cast<To>(a[i]);
}

HWY_ATTR void LoadHalfTile(const TileArguments& args) {
  const FloatTag d;
  const hn::Rebind<hwy::float16_t, FloatTag> half;
  const auto* in = static_cast<const hwy::float16_t*>(args.a);
  auto* out = static_cast<float*>(args.out);
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= args.count; i += lanes) {
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(half, in + i)), d, out + i);
  }
  for (; i < args.count; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, in + i, sizeof bits);
    out[i] = half_to_float(bits);
  }
}

HWY_ATTR void StoreHalfTile(const TileArguments& args) {
  const FloatTag d;
  const hn::Rebind<hwy::float16_t, FloatTag> half;
  const auto* in = static_cast<const float*>(args.a);
  auto* out = static_cast<hwy::float16_t*>(args.out);
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= args.count; i += lanes) {
    hn::StoreU(hn::DemoteTo(half, hn::LoadU(d, in + i)), half, out + i);
  }
  for (; i < args.count; ++i) {
    const std::uint16_t bits = float_to_half(in[i]);
    std::memcpy(out + i, &bits, sizeof bits);
  }
}

HWY_ATTR void RoundHalfTile(const TileArguments& args) {
  FloatLoop<1, 0>(args, [](auto d, auto a, auto, auto) HWY_ATTR { return RoundToHalf(d, a); });
}

HWY_ATTR void EmaSquareTile(const TileArguments& args) {
  const auto s0 = hn::Set(FloatTag(), args.s0), s1 = hn::Set(FloatTag(), args.s1);
  FloatLoop<2, 0>(args, [=](auto, auto a, auto b, auto) HWY_ATTR {
    return hn::Add(hn::Mul(a, s0), hn::Mul(hn::Mul(b, s1), b));
  });
}
template <bool kHalf>
HWY_ATTR void DivSqrtAddTile(const TileArguments& args) {
  const auto s0 = hn::Set(FloatTag(), args.s0);
  FloatLoop<2, 0>(args, [=](auto d, auto a, auto b, auto) HWY_ATTR {
    const auto y = hn::Div(a, hn::Add(hn::Sqrt(b), s0));
    if constexpr (kHalf) return RoundToHalf(d, y);
    (void)d;
    return y;
  });
}
/// a: half memory; b: F32; out: F32 tile; out2: half memory (may be a).
HWY_ATTR void EmaHalfTile(const TileArguments& args) {
  const FloatTag d;
  const hn::Rebind<hwy::float16_t, FloatTag> half;
  const auto* m = static_cast<const hwy::float16_t*>(args.a);
  const auto* g = static_cast<const float*>(args.b);
  auto* out = static_cast<float*>(args.out);
  auto* stored = static_cast<hwy::float16_t*>(args.out2);
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t count = args.count;
  const auto keep = hn::Set(d, args.s0);
  const auto add = hn::Set(d, args.s1);
  const auto step = [&](auto vm, auto vg) HWY_ATTR {
    const auto kept = RoundToHalf(d, hn::Mul(vm, keep));
    const auto added = RoundToHalf(d, hn::Mul(RoundToHalf(d, vg), add));
    return hn::DemoteTo(half, hn::Add(kept, added));
  };
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto result = step(hn::PromoteTo(d, hn::LoadU(half, m + i)), hn::LoadU(d, g + i));
    hn::StoreU(result, half, stored + i);
    hn::StoreU(hn::PromoteTo(d, result), d, out + i);
  }
  for (; i < args.count; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, m + i, sizeof bits);
    const auto round = [](float x) { return half_to_float(float_to_half(x)); };
    const float kept = round(half_to_float(bits) * args.s0);
    const float added = round(round(g[i]) * args.s1);
    bits = float_to_half(kept + added);
    std::memcpy(stored + i, &bits, sizeof bits);
    out[i] = half_to_float(bits);
  }
}

template <class T, ScalarOp kOp>
TileFunction ForSplats(SplatMask splats) {
  constexpr int kArity = scalar_arity(kOp);
  if (splats == 0) return &PlainTile<T, kOp, 0>;
  if (splats == 1) return &PlainTile<T, kOp, 1>;
  if constexpr (kArity >= 2) {
    if (splats == 2) return &PlainTile<T, kOp, 2>;
    if (splats == 3) return &PlainTile<T, kOp, 3>;
  }
  if constexpr (kArity == 3) {
    if (splats == 4) return &PlainTile<T, kOp, 4>;
    if (splats == 5) return &PlainTile<T, kOp, 5>;
    if (splats == 6) return &PlainTile<T, kOp, 6>;
    if (splats == 7) return &PlainTile<T, kOp, 7>;
  }
  return nullptr;
}

TileFunction PhiloxFunction(SplatMask splats) {
  switch (splats) {
    case 0:
      return &PhiloxTile<0>;
    case 3:
      return &PhiloxTile<3>;
    case 7:
      return &PhiloxTile<7>;
    default:
      return nullptr;
  }
}

/// Ops of the machine itself are handled elsewhere.
constexpr bool IsArithmetic(ScalarOp op) {
  switch (op) {
    case ScalarOp::Load:
    case ScalarOp::Store:
    case ScalarOp::Constant:
    case ScalarOp::Iota:
    case ScalarOp::Convert:
    case ScalarOp::Round:
    case ScalarOp::Philox:
      return false;
    default:
      return true;
  }
}

template <class T>
TileFunction PlainFunction(ScalarOp op, SplatMask splats) {
  switch (op) {
#define PANDO_PLAIN_CASE(name, arity)                                                        \
  case ScalarOp::name:                                                                       \
    if constexpr (IsArithmetic(ScalarOp::name)) return ForSplats<T, ScalarOp::name>(splats); \
    break;
    PANDO_SCALAR_OPS(PANDO_PLAIN_CASE)
#undef PANDO_PLAIN_CASE
  }
  return nullptr;
}

/// The explicit SIMD version of an F32 op, or nullptr.
TileFunction FloatFunction(ScalarOp op, SplatMask splats) {
#define PANDO_UNARY_CASE(name) \
  case ScalarOp::name:         \
    return splats == 0 ? &name##F32Tile<0> : &name##F32Tile<1>;
#define PANDO_BINARY_CASE(name)              \
  case ScalarOp::name:                       \
    return splats == 0   ? &name##F32Tile<0> \
           : splats == 1 ? &name##F32Tile<1> \
           : splats == 2 ? &name##F32Tile<2> \
                         : &name##F32Tile<3>;
  switch (op) {
    PANDO_BINARY_CASE(Add)
    PANDO_BINARY_CASE(Sub)
    PANDO_BINARY_CASE(Mul)
    PANDO_BINARY_CASE(Div)
    PANDO_BINARY_CASE(Min)
    PANDO_BINARY_CASE(Max)
    PANDO_BINARY_CASE(Equal)
    PANDO_BINARY_CASE(Less)
    PANDO_BINARY_CASE(LessEqual)
    PANDO_UNARY_CASE(Neg)
    PANDO_UNARY_CASE(Abs)
    PANDO_UNARY_CASE(Sqrt)
    PANDO_UNARY_CASE(Exp)
    PANDO_UNARY_CASE(Log)
    PANDO_UNARY_CASE(Tanh)
    PANDO_UNARY_CASE(Sigmoid)
    PANDO_UNARY_CASE(Erf)
    PANDO_UNARY_CASE(Floor)
    PANDO_UNARY_CASE(Ceil)
    PANDO_UNARY_CASE(RoundEven)
    case ScalarOp::Fma:
      switch (splats) {
        case 0:
          return &FmaF32Tile<0>;
        case 1:
          return &FmaF32Tile<1>;
        case 2:
          return &FmaF32Tile<2>;
        case 3:
          return &FmaF32Tile<3>;
        case 4:
          return &FmaF32Tile<4>;
        case 5:
          return &FmaF32Tile<5>;
        case 6:
          return &FmaF32Tile<6>;
        default:
          return &FmaF32Tile<7>;
      }
    default:
      return nullptr;
  }
#undef PANDO_UNARY_CASE
#undef PANDO_BINARY_CASE
}

TileFunction FindTileFunction(ScalarOp op, LaneType lane, SplatMask splats) {
  if (op == ScalarOp::Philox) return PhiloxFunction(splats);
  if (op == ScalarOp::Iota) return &IotaTile;
  switch (lane) {
    case LaneType::F32: {
      const TileFunction simd = FloatFunction(op, splats);
      return simd != nullptr ? simd : PlainFunction<float>(op, splats);
    }
    case LaneType::F64:
      return PlainFunction<double>(op, splats);
    case LaneType::I32:
      return PlainFunction<std::int32_t>(op, splats);
    case LaneType::I64:
      return PlainFunction<std::int64_t>(op, splats);
    case LaneType::U32:
      return PlainFunction<std::uint32_t>(op, splats);
    case LaneType::U64:
      return PlainFunction<std::uint64_t>(op, splats);
  }
  return nullptr;
}

template <class From>
TileFunction ConvertTo(LaneType to) {
  switch (to) {
    case LaneType::F32:
      return &ConvertTile<From, float>;
    case LaneType::F64:
      return &ConvertTile<From, double>;
    case LaneType::I32:
      return &ConvertTile<From, std::int32_t>;
    case LaneType::I64:
      return &ConvertTile<From, std::int64_t>;
    case LaneType::U32:
      return &ConvertTile<From, std::uint32_t>;
    case LaneType::U64:
      return &ConvertTile<From, std::uint64_t>;
  }
  return nullptr;
}

TileFunction FindConvertFunction(LaneType from, LaneType to) {
  switch (from) {
    case LaneType::F32:
      return ConvertTo<float>(to);
    case LaneType::F64:
      return ConvertTo<double>(to);
    case LaneType::I32:
      return ConvertTo<std::int32_t>(to);
    case LaneType::I64:
      return ConvertTo<std::int64_t>(to);
    case LaneType::U32:
      return ConvertTo<std::uint32_t>(to);
    case LaneType::U64:
      return ConvertTo<std::uint64_t>(to);
  }
  return nullptr;
}

template <DType kFormat>
HWY_ATTR void LoadFloat8Tile(const TileArguments& args) {
  const auto* in = static_cast<const std::uint8_t*>(args.a);
  auto* out = static_cast<float*>(args.out);
  for (std::size_t i = 0; i < args.count; ++i) out[i] = float8_to_float(in[i], kFormat);
}
template <DType kFormat>
HWY_ATTR void StoreFloat8Tile(const TileArguments& args) {
  const auto* in = static_cast<const float*>(args.a);
  auto* out = static_cast<std::uint8_t*>(args.out);
  for (std::size_t i = 0; i < args.count; ++i) out[i] = float_to_float8(in[i], kFormat);
}
template <DType kFormat>
HWY_ATTR void RoundFloat8Tile(const TileArguments& args) {
  const auto* in = static_cast<const float*>(args.a);
  auto* out = static_cast<float*>(args.out);
  for (std::size_t i = 0; i < args.count; ++i) {
    out[i] = float8_to_float(float_to_float8(in[i], kFormat), kFormat);
  }
}
template <class Narrow>
HWY_ATTR void RoundIntTile(const TileArguments& args) {
  const auto* in = static_cast<const std::int32_t*>(args.a);
  auto* out = static_cast<std::int32_t*>(args.out);
  for (std::size_t i = 0; i < args.count; ++i) out[i] = static_cast<Narrow>(in[i]);
}
template <class T>
HWY_ATTR void StoreBoolTile(const TileArguments& args) {
  const auto* in = static_cast<const T*>(args.a);
  auto* out = static_cast<std::uint8_t*>(args.out);
  for (std::size_t i = 0; i < args.count; ++i) out[i] = in[i] != T{0} ? 1 : 0;
}

TileFunction FindLoadFunction(DType dtype) {
  switch (dtype) {
    case DType::Bool:
    case DType::UInt8:
      return &ConvertTile<std::uint8_t, std::int32_t>;
    case DType::Int8:
      return &ConvertTile<std::int8_t, std::int32_t>;
    case DType::Int16:
      return &ConvertTile<std::int16_t, std::int32_t>;
    case DType::UInt16:
      return &ConvertTile<std::uint16_t, std::int32_t>;
    case DType::Float16:
      return &LoadHalfTile;
    case DType::Float8_143:
      return &LoadFloat8Tile<DType::Float8_143>;
    case DType::Float8_152:
      return &LoadFloat8Tile<DType::Float8_152>;
    case DType::Int32:
      return &ConvertTile<std::int32_t, std::int32_t>;
    case DType::UInt32:
      return &ConvertTile<std::uint32_t, std::uint32_t>;
    case DType::Float32:
      return &ConvertTile<float, float>;
    case DType::Int64:
      return &ConvertTile<std::int64_t, std::int64_t>;
    case DType::UInt64:
      return &ConvertTile<std::uint64_t, std::uint64_t>;
    case DType::Float64:
      return &ConvertTile<double, double>;
    case DType::Complex64:
    case DType::Complex128:
      break;
  }
  return nullptr;
}

template <class From>
TileFunction StoreFrom(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return &StoreBoolTile<From>;
    case DType::Int8:
      return &ConvertTile<From, std::int8_t>;
    case DType::Int16:
      return &ConvertTile<From, std::int16_t>;
    case DType::Int32:
      return &ConvertTile<From, std::int32_t>;
    case DType::Int64:
      return &ConvertTile<From, std::int64_t>;
    case DType::UInt8:
      return &ConvertTile<From, std::uint8_t>;
    case DType::UInt16:
      return &ConvertTile<From, std::uint16_t>;
    case DType::UInt32:
      return &ConvertTile<From, std::uint32_t>;
    case DType::UInt64:
      return &ConvertTile<From, std::uint64_t>;
    case DType::Float32:
      return &ConvertTile<From, float>;
    case DType::Float64:
      return &ConvertTile<From, double>;
    default:
      return nullptr;
  }
}

TileFunction FindStoreFunction(DType dtype, LaneType lane) {
  if (lane == LaneType::F32) {
    if (dtype == DType::Float16) return &StoreHalfTile;
    if (dtype == DType::Float8_143) return &StoreFloat8Tile<DType::Float8_143>;
    if (dtype == DType::Float8_152) return &StoreFloat8Tile<DType::Float8_152>;
  }
  switch (lane) {
    case LaneType::F32:
      return StoreFrom<float>(dtype);
    case LaneType::F64:
      return StoreFrom<double>(dtype);
    case LaneType::I32:
      return StoreFrom<std::int32_t>(dtype);
    case LaneType::I64:
      return StoreFrom<std::int64_t>(dtype);
    case LaneType::U32:
      return StoreFrom<std::uint32_t>(dtype);
    case LaneType::U64:
      return StoreFrom<std::uint64_t>(dtype);
  }
  return nullptr;
}

TileFunction FindRoundFunction(DType dtype) {
  switch (dtype) {
    case DType::Float16:
      return &RoundHalfTile;
    case DType::Float8_143:
      return &RoundFloat8Tile<DType::Float8_143>;
    case DType::Float8_152:
      return &RoundFloat8Tile<DType::Float8_152>;
    case DType::Int8:
      return &RoundIntTile<std::int8_t>;
    case DType::Int16:
      return &RoundIntTile<std::int16_t>;
    case DType::UInt8:
      return &RoundIntTile<std::uint8_t>;
    case DType::UInt16:
      return &RoundIntTile<std::uint16_t>;
    default:
      return nullptr;
  }
}

TileFunction FindSuperFunction(SuperOp op) {
  switch (op) {
    case SuperOp::EmaHalf:
      return &EmaHalfTile;
    case SuperOp::EmaSquare:
      return &EmaSquareTile;
    case SuperOp::DivSqrtAdd:
      return &DivSqrtAddTile<false>;
    case SuperOp::DivSqrtAddHalf:
      return &DivSqrtAddTile<true>;
  }
  return nullptr;
}

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace pando::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {

HWY_EXPORT(FindTileFunction);
HWY_EXPORT(FindConvertFunction);
HWY_EXPORT(FindLoadFunction);
HWY_EXPORT(FindStoreFunction);
HWY_EXPORT(FindRoundFunction);
HWY_EXPORT(FindSuperFunction);
HWY_EXPORT(TargetName);

namespace {

TileFunction checked(TileFunction function, std::string_view what) {
  if (function == nullptr) {
    throw NotSupported(str_cat("pointwise arithmetic: no CPU code for ", what));
  }
  return function;
}

}  // namespace

TileFunction tile_function(ScalarOp op, LaneType lane, SplatMask splats) {
  return checked(HWY_DYNAMIC_DISPATCH(FindTileFunction)(op, lane, splats), scalar_op_name(op));
}
TileFunction convert_function(LaneType from, LaneType to) {
  return checked(HWY_DYNAMIC_DISPATCH(FindConvertFunction)(from, to), "Convert");
}
TileFunction load_function(DType dtype) {
  return checked(HWY_DYNAMIC_DISPATCH(FindLoadFunction)(dtype),
                 str_cat("loads of ", dtype_name(dtype)));
}
TileFunction store_function(DType dtype, LaneType lane) {
  return checked(HWY_DYNAMIC_DISPATCH(FindStoreFunction)(dtype, lane),
                 str_cat("stores of ", dtype_name(dtype)));
}
TileFunction round_function(DType dtype) {
  return checked(HWY_DYNAMIC_DISPATCH(FindRoundFunction)(dtype),
                 str_cat("rounding to ", dtype_name(dtype)));
}
TileFunction super_function(SuperOp op) { return HWY_DYNAMIC_DISPATCH(FindSuperFunction)(op); }
const char* simd_target_name() { return HWY_DYNAMIC_DISPATCH(TargetName)(); }

}  // namespace pando::cpu
#endif  // HWY_ONCE
