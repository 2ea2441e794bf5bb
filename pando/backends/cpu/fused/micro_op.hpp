// Micro-operations: what a fused kernel runs for every block of lanes.
//
// A block is a fixed number of lanes (eight SIMD vectors of float). A micro-op reads and writes
// whole blocks through slots, a table of pointers, so one piece of code serves operands in the
// caller's memory, constants, broadcast values and temporaries. There are two sorts:
// - chain ops (4-byte lanes) pass one block from each to the next in eight vector registers and
//   call the next op themselves (a tail call), so a chain of ops touches memory only for its other
//   operands;
// - tile ops (every lane type) go from slots to a slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "pando/base/scalar_program.hpp"

namespace pando::cpu {

struct MicroOp;
/// Pointers to one block each.
using Slots = std::byte* const*;
using TileFunction = void (*)(const MicroOp& op, Slots slots);
/// A chain op; the true signature has the vectors of the SIMD target.
using ChainFunction = void (*)();

struct MicroOp {
  ChainFunction code = nullptr;
  TileFunction tile = nullptr;
  /// Slots of the operands and the result.
  std::uint16_t in[3] = {0, 0, 0};
  std::uint16_t out = 0;
  std::int32_t stream = 0;  // Philox
  bool is_uniform = false;  // all lanes of each operand are the same
};

/// Types of lanes with four bytes, as a set.
namespace lanes {
constexpr std::uint8_t kNone = 0, kF32 = 1, kI32 = 2, kU32 = 4;
constexpr std::uint8_t kInt = kI32 | kU32, kAny = kF32 | kInt;
}  // namespace lanes

// One row for each op: name, number of operands; the scalar op that it is, for those lanes (kNone:
// it is none by itself); the operands that machine code may read from memory, as a set of bits. The
// vector form is in chain_ops.cpp, the machine code in chain_encoder.cpp. F: float, I: int32
// bit patterns. Min and MaxNumber: operand 1 is never NaN.
// clang-format off: one entry a line; version 14 does not settle on a layout
#define PANDO_SIMPLE_CHAIN_OPS(X)                \
  X(Move, 1, Constant, kNone, 0b000)             \
  X(Square, 1, Constant, kNone, 0b000)           \
  X(NegF, 1, Neg, kF32, 0b000)                   \
  X(AbsF, 1, Abs, kF32, 0b000)                   \
  X(SqrtF, 1, Sqrt, kF32, 0b001)                 \
  X(FloorF, 1, Floor, kF32, 0b001)               \
  X(CeilF, 1, Ceil, kF32, 0b001)                 \
  X(RoundEvenF, 1, RoundEven, kF32, 0b001)       \
  X(SignF, 1, Sign, kF32, 0b000)                 \
  X(IsNanF, 1, IsNan, kF32, 0b000)               \
  X(IsInfF, 1, IsInf, kF32, 0b000)               \
  X(RoundHalf, 1, Constant, kNone, 0b000)        \
  X(LoadHalf, 1, Constant, kNone, 0b000)         \
  X(RoundBFloat16, 1, Constant, kNone, 0b000)    \
  X(LoadBFloat16, 1, Constant, kNone, 0b000)     \
  X(NegI, 1, Neg, kInt, 0b000)                   \
  X(AbsI, 1, Abs, kI32, 0b000)                   \
  X(FloatToInt, 1, Constant, kNone, 0b000)       \
  X(IntToFloat, 1, Constant, kNone, 0b001)       \
  X(AddRoundHalf, 2, Constant, kNone, 0b000)     \
  X(SubRoundHalf, 2, Constant, kNone, 0b000)     \
  X(MulRoundHalf, 2, Constant, kNone, 0b000)     \
  X(AddRoundBFloat16, 2, Constant, kNone, 0b000) \
  X(SubRoundBFloat16, 2, Constant, kNone, 0b000) \
  X(MulRoundBFloat16, 2, Constant, kNone, 0b000) \
  X(AddF, 2, Add, kF32, 0b011)                   \
  X(SubF, 2, Sub, kF32, 0b010)                   \
  X(MulF, 2, Mul, kF32, 0b011)                   \
  X(DivF, 2, Div, kF32, 0b010)                   \
  X(MinF, 2, Min, kF32, 0b001)                   \
  X(MaxF, 2, Max, kF32, 0b001)                   \
  X(MinNumberF, 2, Constant, kNone, 0b001)       \
  X(MaxNumberF, 2, Constant, kNone, 0b001)       \
  X(EqualF, 2, Equal, kF32, 0b011)               \
  X(LessF, 2, Less, kF32, 0b010)                 \
  X(LessEqualF, 2, LessEqual, kF32, 0b010)       \
  X(AddI, 2, Add, kInt, 0b011)                   \
  X(SubI, 2, Sub, kInt, 0b010)                   \
  X(MulI, 2, Mul, kInt, 0b011)                   \
  X(MinI, 2, Min, kI32, 0b011)                   \
  X(MaxI, 2, Max, kI32, 0b011)                   \
  X(EqualI, 2, Equal, kInt, 0b011)               \
  X(LessI, 2, Less, kI32, 0b001)                 \
  X(LessEqualI, 2, LessEqual, kI32, 0b010)       \
  X(AndI, 2, And, kInt, 0b011)                   \
  X(OrI, 2, Or, kInt, 0b011)                     \
  X(XorI, 2, Xor, kInt, 0b011)                   \
  X(FmaF, 3, Fma, kF32, 0b100)                   \
  X(SelectI, 3, Select, kAny, 0b100)
// clang-format on

// Two roundings, as the ops they stand for: second(first(X, operand 1), operand 2). Rsub and Rdiv
// have X on the right.
#define PANDO_PAIR_FIRST(X, second) X(Add, second) X(Sub, second) X(Rsub, second) X(Mul, second)
// clang-format off: one entry a line; version 14 does not settle on a layout
#define PANDO_PAIR_CHAIN_OPS(X) \
  PANDO_PAIR_FIRST(X, Add)      \
  PANDO_PAIR_FIRST(X, Sub)      \
  PANDO_PAIR_FIRST(X, Rsub)     \
  PANDO_PAIR_FIRST(X, Mul) PANDO_PAIR_FIRST(X, Div) PANDO_PAIR_FIRST(X, Rdiv)

// X + p * q, X - p * q, p * q - X, fma(sqrt(X), p, q): three operands X, p, q.
#define PANDO_PRODUCT_CHAIN_OPS(X) X(AddProduct) X(SubProduct) X(RsubProduct) X(SqrtThenFma)

// Only machine code has these, for the functions that are tile ops here (chain_functions.hpp).
// SelectNegativeF: operand 1 where the sign bit of operand 0 is set, else operand 2.
// ShiftToExponent: the low bits of a lane to where a float has its exponent.
// MantissaF: a float with its exponent set to 0, in [1, 2) with its sign; 1 for zeros and
// infinities. ExponentF: that exponent as a float; an infinity for those, negative for zeros.
// ScaleF: operand 0 times 2 to the power of operand 1, rounded once.
#define PANDO_FUNCTION_CHAIN_OPS(X) \
  X(SelectNegativeF, 3) X(ShiftToExponent, 1) X(MantissaF, 1) X(ExponentF, 1) X(ScaleF, 2)

enum class ChainOp : std::uint8_t {
#define PANDO_CHAIN_ENUM(name, ...) name,
  PANDO_SIMPLE_CHAIN_OPS(PANDO_CHAIN_ENUM)
#undef PANDO_CHAIN_ENUM
#define PANDO_CHAIN_ENUM(first, second) first##Then##second,
      PANDO_PAIR_CHAIN_OPS(PANDO_CHAIN_ENUM)
#undef PANDO_CHAIN_ENUM
#define PANDO_CHAIN_ENUM(name) name,
          PANDO_PRODUCT_CHAIN_OPS(PANDO_CHAIN_ENUM)
#undef PANDO_CHAIN_ENUM
#define PANDO_CHAIN_ENUM(name, arity) name,
              PANDO_FUNCTION_CHAIN_OPS(PANDO_CHAIN_ENUM)
#undef PANDO_CHAIN_ENUM
};

/// What the tables above say of an op.
struct ChainFacts {
  std::string_view name;
  int arity;
  ScalarOp scalar = ScalarOp::Constant;
  std::uint8_t lanes = lanes::kNone;
  std::uint8_t memory = 0;
};
const ChainFacts& chain_facts(ChainOp op);
/// The op that a scalar op is for lanes of that type; nullopt: a tile op.
std::optional<ChainOp> chain_op_of(ScalarOp op, LaneType lane);
/// `second(first(X, .), .)` as one op. Kinds are Add, Sub, Rsub, Mul, Div, Rdiv in this order; the
/// first is one of the first four.
enum class PairPart : std::uint8_t { Add, Sub, Rsub, Mul, Div, Rdiv };
ChainOp pair_op(PairPart first, PairPart second);

constexpr bool loads_half_precision(ChainOp op) {
  return op == ChainOp::LoadHalf || op == ChainOp::LoadBFloat16;
}

/// Slots are moved on in groups.
constexpr std::size_t kSlotGroup = 4;

/// Chain ops of the SIMD target of this machine.
struct ChainMachine {
  const char* target = "";
  std::size_t block_lanes = 0;
  /// Fma has one rounding (else the tile op has to be used).
  bool has_fma = false;
  bool has_mantissas = false;  // instructions for MantissaF, ExponentF and ScaleF
  /// `from_chain`: the operand that is the passed block, -1 for none; Fma and Select take any,
  /// binary ops 0 or 1, the others 0. `keep`: also write the result to slot `out`.
  ChainFunction (*function)(ChainOp op, int from_chain, bool keep) = nullptr;
  /// Rounds the passed block to a format of 16 bits and writes that to `out`; passes the block on
  /// unrounded, with `round` rounded.
  ChainFunction (*store_half_precision)(DType format, bool round) = nullptr;
  /// Runs `op.tile`; passes on nothing of use.
  ChainFunction run_tile = nullptr;
  ChainFunction end = nullptr;
  /// Runs the ops up to the `end` op for `blocks` blocks; after each adds steps[i] bytes to slot i,
  /// for the first `moving` slots rounded up to kSlotGroup (steps are 0 there).
  void (*run)(const MicroOp* ops, std::byte** slots, const std::int64_t* steps, std::size_t moving,
              std::int64_t blocks) = nullptr;
};
const ChainMachine& chain_machine();

/// Tile ops of the SIMD target of this machine; nullptr where there is none.
struct TileMachine {
  /// By the lane type of the operands (Select: of operands 1 and 2).
  TileFunction (*function)(ScalarOp op, LaneType lane) = nullptr;
  TileFunction (*convert)(LaneType from, LaneType to) = nullptr;
  /// Storage dtype to its lane type.
  TileFunction (*load)(DType dtype) = nullptr;
  /// Lane type to storage dtype; Bool takes every lane type, others their own.
  TileFunction (*store)(DType dtype, LaneType lane) = nullptr;
  TileFunction (*round)(DType dtype) = nullptr;
  /// The 1024 words of elements [1024 * group, 1024 * (group + 1)).
  void (*philox_group)(std::uint32_t group, std::uint32_t key0, std::uint32_t key1,
                       std::uint32_t stream, std::uint32_t* words) = nullptr;
};
const TileMachine& tile_machine();

constexpr std::size_t kPhiloxGroup = 1024;

/// Rows of a product: out[i * columns + j] is the sum of
/// left[i * left_row + k * left_stride] * right[k * right_stride + j] over k < depth, for i < rows
/// and j < columns. On the SIMD target of this machine.
struct RowProducts {
  const float* left = nullptr;
  std::int64_t left_row = 0;
  std::int64_t left_stride = 0;
  const float* right = nullptr;
  std::int64_t right_stride = 0;
  std::int64_t depth = 0;
  std::int64_t columns = 0;
  std::int64_t rows = 1;
};
void multiply_row_products(const RowProducts& operands, float* out);

}  // namespace pando::cpu
