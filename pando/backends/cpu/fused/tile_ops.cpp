#include <algorithm>
#include <cstring>

#include "pando/backends/cpu/fused/micro_op.hpp"
#include "pando/base/half.hpp"
#include "pando/base/integers.hpp"
#include "pando/base/philox.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/fused/tile_ops.cpp"
#include "hwy/foreach_target.h"
//
#include "pando/backends/cpu/fused/float_math-inl.h"
#include "pando/backends/cpu/fused/lane_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pando::cpu::HWY_NAMESPACE {
namespace {

constexpr std::size_t kVectorLanes = hn::MaxLanes(D());
constexpr std::size_t kBlock = 8 * kVectorLanes;

template <class T>
HWY_INLINE const T* In(const MicroOp& op, Slots slots, int operand) {
  return reinterpret_cast<const T*>(slots[op.in[operand]]);
}
template <class T>
HWY_INLINE T* Out(const MicroOp& op, Slots slots) {
  return reinterpret_cast<T*>(slots[op.out]);
}

template <class Code, class T, int kArity>
void LaneTile(const MicroOp& op, Slots slots) {
  const T* a = In<T>(op, slots, 0);
  const T* b = In<T>(op, slots, kArity > 1 ? 1 : 0);
  const T* c = In<T>(op, slots, kArity > 2 ? 2 : 0);
  auto* out = Out<decltype(Code::Apply(T{}, T{}, T{}))>(op, slots);
  if (op.is_uniform) {  // a function in double precision takes long
    std::fill_n(out, kBlock, Code::Apply(a[0], b[0], c[0]));
    return;
  }
  for (std::size_t i = 0; i < kBlock; ++i) out[i] = Code::Apply(a[i], b[i], c[i]);
}

template <V (*kFunction)(V)>
void FloatTile(const MicroOp& op, Slots slots) {
  const D d;
  const float* a = In<float>(op, slots, 0);
  float* out = Out<float>(op, slots);
  for (std::size_t i = 0; i < kBlock; i += kVectorLanes) {
    hn::StoreU(kFunction(hn::LoadU(d, a + i)), d, out + i);
  }
}

template <class T>
void SelectTile(const MicroOp& op, Slots slots) {
  const auto* condition = In<std::int32_t>(op, slots, 0);
  const T* a = In<T>(op, slots, 1);
  const T* b = In<T>(op, slots, 2);
  T* out = Out<T>(op, slots);
  for (std::size_t i = 0; i < kBlock; ++i) out[i] = condition[i] != 0 ? a[i] : b[i];
}

void PhiloxTile(const MicroOp& op, Slots slots) {
  const auto* key0 = In<std::uint32_t>(op, slots, 0);
  const auto* key1 = In<std::uint32_t>(op, slots, 1);
  const auto* index = In<std::uint32_t>(op, slots, 2);
  auto* out = Out<std::uint32_t>(op, slots);
  for (std::size_t i = 0; i < kBlock; ++i) {
    out[i] = philox_word(key0[i], key1[i], index[i], static_cast<std::uint32_t>(op.stream));
  }
}

template <class From, class To>
void ConvertTile(const MicroOp& op, Slots slots) {
  const From* in = In<From>(op, slots, 0);
  To* out = Out<To>(op, slots);
  if constexpr (kIsFloat<From> && !kIsFloat<To>) {
    for (std::size_t i = 0; i < kBlock; ++i) out[i] = saturated<To>(in[i]);
  } else {
    for (std::size_t i = 0; i < kBlock; ++i) out[i] = static_cast<To>(in[i]);
  }
}

/// Through `Narrow` and back: wrapped.
template <class Narrow>
void RoundIntTile(const MicroOp& op, Slots slots) {
  const auto* in = In<std::int32_t>(op, slots, 0);
  auto* out = Out<std::int32_t>(op, slots);
  for (std::size_t i = 0; i < kBlock; ++i) {
    out[i] = static_cast<std::int32_t>(static_cast<Narrow>(in[i]));
  }
}

template <class T>
void StoreBoolTile(const MicroOp& op, Slots slots) {
  const T* in = In<T>(op, slots, 0);
  auto* out = Out<std::uint8_t>(op, slots);
  for (std::size_t i = 0; i < kBlock; ++i) out[i] = in[i] != T{0} ? 1 : 0;
}

template <DType kFormat>
void LoadFloat8Tile(const MicroOp& op, Slots slots) {
  const auto* in = In<std::uint8_t>(op, slots, 0);
  float* out = Out<float>(op, slots);
  for (std::size_t i = 0; i < kBlock; ++i) out[i] = float8_to_float(in[i], kFormat);
}
template <DType kFormat>
void StoreFloat8Tile(const MicroOp& op, Slots slots) {
  const float* in = In<float>(op, slots, 0);
  auto* out = Out<std::uint8_t>(op, slots);
  for (std::size_t i = 0; i < kBlock; ++i) out[i] = float_to_float8(in[i], kFormat);
}
template <DType kFormat>
void RoundFloat8Tile(const MicroOp& op, Slots slots) {
  const float* in = In<float>(op, slots, 0);
  float* out = Out<float>(op, slots);
  for (std::size_t i = 0; i < kBlock; ++i) {
    out[i] = float8_to_float(float_to_float8(in[i], kFormat), kFormat);
  }
}

// clang-format off: one entry a line; version 14 does not settle on a layout
#define PANDO_ANY_LANE_OPS(X) \
  X(Add, 2)                   \
  X(Sub, 2)                   \
  X(Mul, 2)                   \
  X(Div, 2)                   \
  X(Rem, 2)                   \
  X(Fma, 3)                   \
  X(Min, 2)                   \
  X(Max, 2)                   \
  X(Neg, 1)                   \
  X(Abs, 1)                   \
  X(Sign, 1)                  \
  X(Floor, 1)                 \
  X(Ceil, 1)                  \
  X(RoundEven, 1)             \
  X(Equal, 2)                 \
  X(Less, 2)                  \
  X(LessEqual, 2)             \
  X(IsNan, 1)                 \
  X(IsInf, 1)                 \
  X(Pow, 2)
// clang-format on
// clang-format off: one entry a line; version 14 does not settle on a layout
#define PANDO_FLOAT_LANE_OPS(X) \
  X(Exp, 1)                     \
  X(Log, 1)                     \
  X(Sqrt, 1)                    \
  X(Tanh, 1)                    \
  X(Sigmoid, 1)                 \
  X(Erf, 1)                     \
  X(Erfc, 1)                    \
  X(Log1p, 1)                   \
  X(Expm1, 1)                   \
  X(Atan, 1)                    \
  X(Sin, 1)                     \
  X(Cos, 1)
// clang-format on
#define PANDO_INT_LANE_OPS(X) X(And, 2) X(Or, 2) X(Xor, 2)

template <class T>
TileFunction LaneFunction(ScalarOp op) {
#define PANDO_CASE(name, arity) \
  case ScalarOp::name:          \
    return &LaneTile<name##Lane, T, arity>;
  switch (op) {
    PANDO_ANY_LANE_OPS(PANDO_CASE)
    case ScalarOp::Select:
      return &SelectTile<T>;
    default:
      break;
  }
  if constexpr (kIsFloat<T>) {
    switch (op) {
      PANDO_FLOAT_LANE_OPS(PANDO_CASE)
      default:
        return nullptr;
    }
  } else {
    switch (op) {
      PANDO_INT_LANE_OPS(PANDO_CASE)
      case ScalarOp::Philox:
        return std::is_same_v<T, std::uint32_t> ? &PhiloxTile : nullptr;
      default:
        return nullptr;
    }
  }
#undef PANDO_CASE
}

TileFunction Function(ScalarOp op, LaneType lane) {
  switch (lane) {
    case LaneType::F32:
      switch (op) {
        case ScalarOp::Exp:
          return &FloatTile<&ExpF>;
        case ScalarOp::Log:
          return &FloatTile<&LogF>;
        case ScalarOp::Tanh:
          return &FloatTile<&TanhF>;
        case ScalarOp::Sigmoid:
          return &FloatTile<&SigmoidF>;
        case ScalarOp::Erf:
          return &FloatTile<&ErfF>;
        case ScalarOp::Erfc:
          return &FloatTile<&ErfcF>;
        case ScalarOp::Log1p:
          return &FloatTile<&Log1pF>;
        case ScalarOp::Expm1:
          return &FloatTile<&Expm1F>;
        case ScalarOp::Atan:
          return &FloatTile<&AtanF>;
        case ScalarOp::Sin:
          return &FloatTile<&SinF>;
        case ScalarOp::Cos:
          return &FloatTile<&CosF>;
        default:
          return LaneFunction<float>(op);
      }
    case LaneType::F64:
      return LaneFunction<double>(op);
    case LaneType::I32:
      return LaneFunction<std::int32_t>(op);
    case LaneType::I64:
      return LaneFunction<std::int64_t>(op);
    case LaneType::U32:
      return LaneFunction<std::uint32_t>(op);
    case LaneType::U64:
      return LaneFunction<std::uint64_t>(op);
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

TileFunction ConvertFunction(LaneType from, LaneType to) {
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

// 4- and 8-byte dtypes equal to their lane type move as bits.
TileFunction LoadFunction(DType dtype) {
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
    case DType::Float8_143:
      return &LoadFloat8Tile<DType::Float8_143>;
    case DType::Float8_152:
      return &LoadFloat8Tile<DType::Float8_152>;
    default:
      return nullptr;
  }
}

TileFunction StoreBoolFunction(LaneType lane) {
  switch (lane) {
    case LaneType::F32:
      return &StoreBoolTile<float>;
    case LaneType::F64:
      return &StoreBoolTile<double>;
    case LaneType::I32:
    case LaneType::U32:
      return &StoreBoolTile<std::int32_t>;
    case LaneType::I64:
    case LaneType::U64:
      return &StoreBoolTile<std::int64_t>;
  }
  return nullptr;
}

TileFunction StoreFunction(DType dtype, LaneType lane) {
  switch (dtype) {
    case DType::Bool:
      return StoreBoolFunction(lane);
    case DType::Int8:
      return &ConvertTile<std::int32_t, std::int8_t>;
    case DType::Int16:
      return &ConvertTile<std::int32_t, std::int16_t>;
    case DType::UInt8:
      return &ConvertTile<std::int32_t, std::uint8_t>;
    case DType::UInt16:
      return &ConvertTile<std::int32_t, std::uint16_t>;
    case DType::Float8_143:
      return &StoreFloat8Tile<DType::Float8_143>;
    case DType::Float8_152:
      return &StoreFloat8Tile<DType::Float8_152>;
    case DType::Int64:
    case DType::UInt64:
    case DType::Float64:
      return &ConvertTile<std::uint64_t, std::uint64_t>;
    default:
      return nullptr;
  }
}

TileFunction RoundFunction(DType dtype) {
  switch (dtype) {
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

#if HWY_TARGET == HWY_SCALAR
void PhiloxGroup(std::uint32_t group, std::uint32_t key0, std::uint32_t key1, std::uint32_t stream,
                 std::uint32_t* words) {
  const auto first = group * static_cast<std::uint32_t>(kPhiloxGroup);
  for (std::uint32_t i = 0; i < kPhiloxGroup; ++i) {
    words[i] = philox_word(key0, key1, first + i, stream);
  }
}
#else
using WordTag = hn::CappedTag<std::uint32_t, 16>;
using Words = hn::Vec<WordTag>;

/// Philox counters, one in the lower half of each 64 bits: what is above does not count, because
/// products are of lower halves.
struct PhiloxCounters {
  Words c0, c1, c2, c3;

  HWY_INLINE void round(Words key0, Words key1) {
    const WordTag d;
    const auto p0 = hn::MulEven(c0, hn::Set(d, 0xD2511F53u));
    const auto p1 = hn::MulEven(c2, hn::Set(d, 0xCD9E8D57u));
    c0 = hn::Xor3(hn::BitCast(d, hn::ShiftRight<32>(p1)), c1, key0);
    c2 = hn::Xor3(hn::BitCast(d, hn::ShiftRight<32>(p0)), c3, key1);
    c1 = hn::BitCast(d, p1);
    c3 = hn::BitCast(d, p0);
  }
};

/// The words of counters with even and with odd numbers, one after the other.
HWY_INLINE Words Interleaved(Words even, Words odd) {
  const WordTag d;
  const hn::RepartitionToWide<WordTag> wide;
  return hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(hn::BitCast(wide, odd))), even);
}

void PhiloxGroup(std::uint32_t group, std::uint32_t key0, std::uint32_t key1, std::uint32_t stream,
                 std::uint32_t* words) {
  constexpr std::size_t kCounters = kPhiloxGroup / 4;
  constexpr std::size_t kPairs = 2;  // vectors of even and of odd counters at once
  const WordTag d;
  const std::size_t lanes = hn::Lanes(d);
  const Words none = hn::Zero(d), c2 = hn::Set(d, stream), one = hn::Set(d, 1u);
  for (std::size_t first = 0; first < kCounters; first += kPairs * lanes) {
    PhiloxCounters even[kPairs], odd[kPairs];
    for (std::size_t p = 0; p < kPairs; ++p) {
      const Words c0 = hn::Iota(d, group * static_cast<std::uint32_t>(kCounters) +
                                       static_cast<std::uint32_t>(first + p * lanes));
      even[p] = {c0, none, c2, none};
      odd[p] = {hn::Add(c0, one), none, c2, none};
    }
    std::uint32_t k0 = key0, k1 = key1;
    for (int round = 0; round < 10; ++round) {
      for (std::size_t p = 0; p < kPairs; ++p) {
        even[p].round(hn::Set(d, k0), hn::Set(d, k1));
        odd[p].round(hn::Set(d, k0), hn::Set(d, k1));
      }
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    for (std::size_t p = 0; p < kPairs; ++p) {
      std::uint32_t* to = words + first + p * lanes;
      hn::StoreU(Interleaved(even[p].c0, odd[p].c0), d, to);
      hn::StoreU(Interleaved(even[p].c1, odd[p].c1), d, to + kCounters);
      hn::StoreU(Interleaved(even[p].c2, odd[p].c2), d, to + 2 * kCounters);
      hn::StoreU(Interleaved(even[p].c3, odd[p].c3), d, to + 3 * kCounters);
    }
  }
}

#endif

const TileMachine& TileMachineOfTarget() {
  static const TileMachine machine = {
      .function = &Function,
      .convert = &ConvertFunction,
      .load = &LoadFunction,
      .store = &StoreFunction,
      .round = &RoundFunction,
      .philox_group = &PhiloxGroup,
  };
  return machine;
}

}  // namespace
}  // namespace pando::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {

HWY_EXPORT(TileMachineOfTarget);

const TileMachine& tile_machine() { return HWY_DYNAMIC_DISPATCH(TileMachineOfTarget)(); }

}  // namespace pando::cpu
#endif  // HWY_ONCE
