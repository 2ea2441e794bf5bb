#include <algorithm>
#include <array>

#include "pando/backends/cpu/fused/micro_op.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pando/backends/cpu/fused/chain_ops.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "pando/backends/cpu/half-inl.h"
#include "pando/backends/cpu/number_bounds-inl.h"

// Vector types as template arguments lose their attributes; nothing here depends on them.
#pragma GCC diagnostic ignored "-Wignored-attributes"

HWY_BEFORE_NAMESPACE();
namespace pando::cpu::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<D>;
using V = hn::Vec<D>;
using VI = hn::Vec<DI>;
constexpr std::size_t kLanes = hn::MaxLanes(D());
constexpr std::size_t kVectors = 8;

// The eight vectors travel as arguments: the calling convention keeps them in registers.
using Handler = void (*)(const MicroOp*, Slots, V, V, V, V, V, V, V, V);

HWY_INLINE VI Int(V v) { return hn::BitCast(DI(), v); }
HWY_INLINE V Bits(VI v) { return hn::BitCast(D(), v); }
template <class M>
HWY_INLINE V Truth(M mask) {
  return hn::IfThenElseZero(mask, Bits(hn::Set(DI(), 1)));
}
template <class M>
HWY_INLINE V TruthI(M mask) {
  return Bits(hn::IfThenElseZero(mask, hn::Set(DI(), 1)));
}

#define PANDO_UNARY(name, expression)                           \
  struct name##Code {                                           \
    static HWY_INLINE V Apply(V a, V, V) { return expression; } \
  };
#define PANDO_BINARY(name, expression)                            \
  struct name##Code {                                             \
    static HWY_INLINE V Apply(V a, V b, V) { return expression; } \
  };

PANDO_UNARY(Move, a)
PANDO_UNARY(LoadHalf, a)
PANDO_UNARY(LoadBFloat16, a)
PANDO_UNARY(Square, hn::Mul(a, a))
PANDO_UNARY(NegF, hn::Neg(a))
PANDO_UNARY(AbsF, hn::Abs(a))
PANDO_UNARY(SqrtF, hn::Sqrt(a))
PANDO_UNARY(FloorF, hn::Floor(a))
PANDO_UNARY(CeilF, hn::Ceil(a))
PANDO_UNARY(RoundEvenF, hn::Round(a))
// hn::Ne is false for NaN on AVX2.
PANDO_UNARY(IsNanF, hn::IfThenZeroElse(hn::Eq(a, a), Bits(hn::Set(DI(), 1))))
PANDO_UNARY(IsInfF, TruthI(hn::Eq(Int(hn::Abs(a)), hn::Set(DI(), 0x7f800000))))
PANDO_UNARY(RoundHalf, Float16Vectors::Round(D(), a))
PANDO_UNARY(RoundBFloat16, BFloat16Vectors::Round(D(), a))
PANDO_UNARY(NegI, Bits(hn::Sub(hn::Zero(DI()), Int(a))))
PANDO_UNARY(AbsI, Bits(hn::Max(Int(a), hn::Sub(hn::Zero(DI()), Int(a)))))
// hn::ConvertTo saturates; what it makes of NaN depends on the target.
PANDO_UNARY(FloatToInt, hn::IfThenElseZero(hn::Eq(a, a), Bits(hn::ConvertTo(DI(), a))))
PANDO_UNARY(IntToFloat, hn::ConvertTo(D(), Int(a)))
struct SignFCode {
  static HWY_INLINE V Apply(V a, V, V) {
    const V zero = hn::Zero(D());
    const V one = hn::Set(D(), 1.0f);
    const V positive = hn::IfThenElseZero(hn::Gt(a, zero), one);
    const V sign = hn::IfThenElse(hn::Lt(a, zero), hn::Neg(one), positive);
    return hn::IfThenElse(hn::Eq(a, a), sign, a);
  }
};

PANDO_BINARY(AddF, hn::Add(a, b))
PANDO_BINARY(SubF, hn::Sub(a, b))
PANDO_BINARY(MulF, hn::Mul(a, b))
PANDO_BINARY(DivF, hn::Div(a, b))
PANDO_BINARY(AddRoundHalf, Float16Vectors::Round(D(), hn::Add(a, b)))
PANDO_BINARY(SubRoundHalf, Float16Vectors::Round(D(), hn::Sub(a, b)))
PANDO_BINARY(MulRoundHalf, Float16Vectors::Round(D(), hn::Mul(a, b)))
PANDO_BINARY(AddRoundBFloat16, BFloat16Vectors::Round(D(), hn::Add(a, b)))
PANDO_BINARY(SubRoundBFloat16, BFloat16Vectors::Round(D(), hn::Sub(a, b)))
PANDO_BINARY(MulRoundBFloat16, BFloat16Vectors::Round(D(), hn::Mul(a, b)))
PANDO_BINARY(MinF, hn::IfThenElse(hn::Eq(b, b), SmallerOfNumber(a, b), b))
PANDO_BINARY(MaxF, hn::IfThenElse(hn::Eq(b, b), LargerOfNumber(a, b), b))
PANDO_BINARY(MinNumberF, SmallerOfNumber(a, b))
PANDO_BINARY(MaxNumberF, LargerOfNumber(a, b))
PANDO_BINARY(EqualF, Truth(hn::Eq(a, b)))
PANDO_BINARY(LessF, Truth(hn::Lt(a, b)))
PANDO_BINARY(LessEqualF, Truth(hn::Le(a, b)))
PANDO_BINARY(AddI, Bits(hn::Add(Int(a), Int(b))))
PANDO_BINARY(SubI, Bits(hn::Sub(Int(a), Int(b))))
PANDO_BINARY(MulI, Bits(hn::Mul(Int(a), Int(b))))
PANDO_BINARY(MinI, Bits(hn::Min(Int(a), Int(b))))
PANDO_BINARY(MaxI, Bits(hn::Max(Int(a), Int(b))))
PANDO_BINARY(EqualI, TruthI(hn::Eq(Int(a), Int(b))))
PANDO_BINARY(LessI, TruthI(hn::Lt(Int(a), Int(b))))
PANDO_BINARY(LessEqualI, TruthI(hn::Not(hn::Lt(Int(b), Int(a)))))
PANDO_BINARY(AndI, Bits(hn::And(Int(a), Int(b))))
PANDO_BINARY(OrI, Bits(hn::Or(Int(a), Int(b))))
PANDO_BINARY(XorI, Bits(hn::Xor(Int(a), Int(b))))

struct FmaFCode {
  static HWY_INLINE V Apply(V a, V b, V c) { return hn::MulAdd(a, b, c); }
};
struct SqrtThenFmaCode {
  static HWY_INLINE V Apply(V a, V b, V c) { return hn::MulAdd(hn::Sqrt(a), b, c); }
};
struct SelectICode {
  static HWY_INLINE V Apply(V a, V b, V c) {
    const auto zero = hn::RebindMask(D(), hn::Eq(Int(a), hn::Zero(DI())));
    return hn::IfThenElse(zero, c, b);
  }
};
struct AddProductCode {
  static HWY_INLINE V Apply(V a, V b, V c) { return hn::Add(a, hn::Mul(b, c)); }
};
struct SubProductCode {
  static HWY_INLINE V Apply(V a, V b, V c) { return hn::Sub(a, hn::Mul(b, c)); }
};
struct RsubProductCode {
  static HWY_INLINE V Apply(V a, V b, V c) { return hn::Sub(hn::Mul(b, c), a); }
};

template <PairPart kPart>
HWY_INLINE V Part(V a, V b) {
  if constexpr (kPart == PairPart::Add) return hn::Add(a, b);
  if constexpr (kPart == PairPart::Sub) return hn::Sub(a, b);
  if constexpr (kPart == PairPart::Rsub) return hn::Sub(b, a);
  if constexpr (kPart == PairPart::Mul) return hn::Mul(a, b);
  if constexpr (kPart == PairPart::Div) return hn::Div(a, b);
  if constexpr (kPart == PairPart::Rdiv) return hn::Div(b, a);
}
template <PairPart kFirst, PairPart kSecond>
struct PairCode {
  static HWY_INLINE V Apply(V a, V b, V c) { return Part<kSecond>(Part<kFirst>(a, b), c); }
};

#define PANDO_BLOCK_PARAMETERS V v0, V v1, V v2, V v3, V v4, V v5, V v6, V v7
#define PANDO_EACH_VECTOR(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define PANDO_NEXT(op, slots) \
  reinterpret_cast<Handler>((op)[1].code)((op) + 1, slots, v0, v1, v2, v3, v4, v5, v6, v7)

template <bool kPassed>
HWY_INLINE V Operand(V passed, const float* from) {
  if constexpr (kPassed) {
    return passed;
  } else {
    return hn::LoadU(D(), from);
  }
}

template <class Code, int kArity, int kPassed, bool kKeep>
void Step(const MicroOp* op, Slots slots, PANDO_BLOCK_PARAMETERS) {
  const auto* a = reinterpret_cast<const float*>(slots[op->in[0]]);
  const auto* b = reinterpret_cast<const float*>(slots[kArity > 1 ? op->in[1] : 0]);
  const auto* c = reinterpret_cast<const float*>(slots[kArity > 2 ? op->in[2] : 0]);
#define PANDO_APPLY(k)                                                          \
  v##k = Code::Apply(Operand<kPassed == 0>(v##k, a + (k)*kLanes),               \
                     Operand < kPassed == 1 || kArity<2>(v##k, b + (k)*kLanes), \
                     Operand < kPassed == 2 || kArity<3>(v##k, c + (k)*kLanes));
  PANDO_EACH_VECTOR(PANDO_APPLY)
#undef PANDO_APPLY
  if constexpr (kKeep) {
    auto* out = reinterpret_cast<float*>(slots[op->out]);
#define PANDO_KEEP(k) hn::StoreU(v##k, D(), out + (k)*kLanes);
    PANDO_EACH_VECTOR(PANDO_KEEP)
#undef PANDO_KEEP
  }
  PANDO_NEXT(op, slots);
}

template <class Format, bool kKeep>
void LoadStep(const MicroOp* op, Slots slots, PANDO_BLOCK_PARAMETERS) {
  const auto* from = reinterpret_cast<const std::uint16_t*>(slots[op->in[0]]);
#define PANDO_LOAD(k) v##k = Format::Load(D(), from + (k)*kLanes);
  PANDO_EACH_VECTOR(PANDO_LOAD)
#undef PANDO_LOAD
  if constexpr (kKeep) {
    auto* out = reinterpret_cast<float*>(slots[op->out]);
#define PANDO_KEEP(k) hn::StoreU(v##k, D(), out + (k)*kLanes);
    PANDO_EACH_VECTOR(PANDO_KEEP)
#undef PANDO_KEEP
  }
  PANDO_NEXT(op, slots);
}

template <class Format, bool kRound>
void StoreStep(const MicroOp* op, Slots slots, PANDO_BLOCK_PARAMETERS) {
  auto* out = reinterpret_cast<std::uint16_t*>(slots[op->out]);
#define PANDO_STORE(k) Format::Store(D(), v##k, out + (k)*kLanes);
  PANDO_EACH_VECTOR(PANDO_STORE)
#undef PANDO_STORE
  if constexpr (kRound) {
#define PANDO_ROUND(k) v##k = Format::Round(D(), v##k);
    PANDO_EACH_VECTOR(PANDO_ROUND)
#undef PANDO_ROUND
  }
  PANDO_NEXT(op, slots);
}

void RunTile(const MicroOp* op, Slots slots, PANDO_BLOCK_PARAMETERS) {
  op->tile(*op, slots);
  v0 = v1 = v2 = v3 = v4 = v5 = v6 = v7 = hn::Zero(D());
  PANDO_NEXT(op, slots);
}

void End(const MicroOp*, Slots, V, V, V, V, V, V, V, V) {}

void Run(const MicroOp* ops, std::byte** slots, const std::int64_t* steps, std::size_t moving,
         std::int64_t blocks) {
  const V v = hn::Zero(D());
  for (std::int64_t block = 0; block < blocks; ++block) {
    reinterpret_cast<Handler>(ops->code)(ops, slots, v, v, v, v, v, v, v, v);
    for (std::size_t i = 0; i < moving; i += kSlotGroup) {
      for (std::size_t k = 0; k < kSlotGroup; ++k) slots[i + k] += steps[i + k];
    }
  }
}

ChainFunction Erase(Handler handler) { return reinterpret_cast<ChainFunction>(handler); }

template <class Code, int kArity, int kPassed>
ChainFunction Keeping(bool keep) {
  return keep ? Erase(&Step<Code, kArity, kPassed, true>)
              : Erase(&Step<Code, kArity, kPassed, false>);
}

/// kForms: how many operands may be the passed block.
template <class Code, int kArity, int kForms>
ChainFunction Form(int from_chain, bool keep) {
  if constexpr (kForms > 1) {
    if (from_chain == 1) return Keeping<Code, kArity, 1>(keep);
  }
  if constexpr (kForms > 2) {
    if (from_chain == 2) return Keeping<Code, kArity, 2>(keep);
  }
  if (from_chain == 0) return Keeping<Code, kArity, 0>(keep);
  return Keeping<Code, kArity, -1>(keep);
}

template <class Format>
ChainFunction Load(bool keep) {
  return keep ? Erase(&LoadStep<Format, true>) : Erase(&LoadStep<Format, false>);
}

ChainFunction Function(ChainOp op, int from_chain, bool keep) {
  // These read another element size.
  if (op == ChainOp::LoadHalf) return Load<Float16Vectors>(keep);
  if (op == ChainOp::LoadBFloat16) return Load<BFloat16Vectors>(keep);
  switch (op) {
#define PANDO_CASE(name, arity, ...) \
  case ChainOp::name:                \
    return Form<name##Code, arity, arity>(from_chain, keep);
    PANDO_SIMPLE_CHAIN_OPS(PANDO_CASE)
#undef PANDO_CASE
#define PANDO_CASE(first, second)    \
  case ChainOp::first##Then##second: \
    return Form<PairCode<PairPart::first, PairPart::second>, 3, 1>(from_chain, keep);
    PANDO_PAIR_CHAIN_OPS(PANDO_CASE)
#undef PANDO_CASE
#define PANDO_CASE(name) \
  case ChainOp::name:    \
    return Form<name##Code, 3, 1>(from_chain, keep);
    PANDO_PRODUCT_CHAIN_OPS(PANDO_CASE)
#undef PANDO_CASE
    default:
      return nullptr;
  }
}

template <class Format>
ChainFunction Store(bool round) {
  return round ? Erase(&StoreStep<Format, true>) : Erase(&StoreStep<Format, false>);
}

ChainFunction StoreHalfPrecision(DType format, bool round) {
  return format == DType::Float16 ? Store<Float16Vectors>(round) : Store<BFloat16Vectors>(round);
}

const ChainMachine& ChainMachineOfTarget() {
  static const ChainMachine machine = {
      .target = hwy::TargetName(HWY_TARGET),
      .block_lanes = kVectors * kLanes,
      .has_fma = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3,
      .has_mantissas = HWY_TARGET == HWY_AVX3,
      .function = &Function,
      .store_half_precision = &StoreHalfPrecision,
      .run_tile = Erase(&RunTile),
      .end = Erase(&End),
      .run = &Run,
  };
  return machine;
}

}  // namespace
}  // namespace pando::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pando::cpu {

HWY_EXPORT(ChainMachineOfTarget);

const ChainMachine& chain_machine() { return HWY_DYNAMIC_DISPATCH(ChainMachineOfTarget)(); }

namespace {

constexpr std::array kChainFacts = {
#define PANDO_FACTS(name, arity, scalar, types, memory) \
  ChainFacts{#name, arity, ScalarOp::scalar, lanes::types, memory},
    PANDO_SIMPLE_CHAIN_OPS(PANDO_FACTS)
#undef PANDO_FACTS
#define PANDO_FACTS(first, second) ChainFacts{#first "Then" #second, 3},
        PANDO_PAIR_CHAIN_OPS(PANDO_FACTS)
#undef PANDO_FACTS
#define PANDO_FACTS(name) ChainFacts{#name, 3},
            PANDO_PRODUCT_CHAIN_OPS(PANDO_FACTS)
#undef PANDO_FACTS
#define PANDO_FACTS(name, arity) ChainFacts{#name, arity},
                PANDO_FUNCTION_CHAIN_OPS(PANDO_FACTS)
#undef PANDO_FACTS
};

std::uint8_t lanes_of(LaneType lane) {
  switch (lane) {
    case LaneType::F32:
      return lanes::kF32;
    case LaneType::I32:
      return lanes::kI32;
    case LaneType::U32:
      return lanes::kU32;
    default:
      return lanes::kNone;
  }
}

}  // namespace

const ChainFacts& chain_facts(ChainOp op) { return kChainFacts[static_cast<std::size_t>(op)]; }

std::optional<ChainOp> chain_op_of(ScalarOp op, LaneType lane) {
  if (op == ScalarOp::Fma && !chain_machine().has_fma) return std::nullopt;
  const auto* const facts =
      std::find_if(kChainFacts.begin(), kChainFacts.end(), [&](const ChainFacts& each) {
        return each.scalar == op && (each.lanes & lanes_of(lane)) != 0;
      });
  if (facts == kChainFacts.end()) return std::nullopt;
  return static_cast<ChainOp>(facts - kChainFacts.begin());
}

ChainOp pair_op(PairPart first, PairPart second) {
  constexpr int kFirsts = 4;
  return static_cast<ChainOp>(static_cast<int>(ChainOp::AddThenAdd) +
                              kFirsts * static_cast<int>(second) + static_cast<int>(first));
}

}  // namespace pando::cpu
#endif  // HWY_ONCE
