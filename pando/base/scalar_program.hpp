// The per-element program of pointwise ops: written by the ops, merged by the compiler, run by the
// backends over tiles.
//
// A program is a list of instructions in static single assignment form: instruction i defines value
// i. Values live in one of six lane types. Loads convert an operand's storage dtype to its lane
// type (bool, int8, int16, int32, uint8, uint16 -> I32; float8 to float32 -> F32; the rest
// to the lane type of the same name); stores convert back (int to bool is `!= 0`, narrowing ints
// wrap). Float to int truncates toward zero; what lies outside the range of the integers becomes
// the end of the range, and NaN becomes 0.
// Comparisons and logic give I32 values 0 or 1.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pando/base/dtype.hpp"

namespace pando {

enum class LaneType : std::uint8_t { F32, F64, I32, I64, U32, U64 };

constexpr LaneType lane_of(DType dtype) {
  switch (dtype) {
    case DType::Float64:
      return LaneType::F64;
    case DType::Int64:
      return LaneType::I64;
    case DType::UInt32:
      return LaneType::U32;
    case DType::UInt64:
      return LaneType::U64;
    case DType::Float8_143:
    case DType::Float8_152:
    case DType::Float16:
    case DType::BFloat16:
    case DType::Float32:
      return LaneType::F32;
    default:
      return LaneType::I32;
  }
}

// name, number of value operands. "Any" ops work in every lane type; "Float" ones in F32 and F64.
#define PANDO_SCALAR_OPS(X)                                                                \
  X(Load, 0)     /* operand `index`; lane = lane_of(its dtype) */                          \
  X(Constant, 0) /* `immediate` (64-bit ints: `integer_immediate`) */                      \
  X(Iota, 0)     /* U32: linear index of the element in the C-ordered iteration space */   \
  X(Convert, 1)  /* to `lane` */                                                           \
  X(Round, 1)    /* value as it reads back from `dtype`: narrower floats: to nearest even; \
                    narrow ints: wrapped */                                                \
  X(Add, 2)                                                                                \
  X(Sub, 2)                                                                                \
  X(Mul, 2)                                                                                \
  X(Div, 2) /* ints: truncating; a zero divisor gives 0 */                                 \
  X(Rem, 2) /* C remainder, sign of the dividend; zero divisor: ints 0, floats NaN */      \
  X(Fma, 3) /* a * b + c; floats with one rounding */                                      \
  X(Min, 2) /* floats: NaN if either is NaN */                                             \
  X(Max, 2)                                                                                \
  X(Neg, 1)                                                                                \
  X(Abs, 1)                                                                                \
  X(Sign, 1) /* -1, 0, 1; NaN gives NaN */                                                 \
  X(Exp, 1)  /* Float, <= 4 ULP; so are Log .. Cos below, and Pow of floats */             \
  X(Log, 1)                                                                                \
  X(Sqrt, 1) /* exact */                                                                   \
  X(Tanh, 1)                                                                               \
  X(Sigmoid, 1)                                                                            \
  X(Erf, 1)                                                                                \
  X(Erfc, 1)  /* <= 6 ULP, small results too */                                            \
  X(Log1p, 1) /* log(1 + x) */                                                             \
  X(Expm1, 1) /* e^x - 1 */                                                                \
  X(Atan, 1)                                                                               \
  X(Sin, 1)                                                                                \
  X(Cos, 1)                                                                                \
  X(Pow, 2) /* ints: modulo 2^bits; x^-n is 0 unless x is 1 or -1 */                       \
  X(Floor, 1)                                                                              \
  X(Ceil, 1)                                                                               \
  X(RoundEven, 1)                                                                          \
  X(Equal, 2)     /* -> I32 */                                                             \
  X(Less, 2)      /* -> I32 */                                                             \
  X(LessEqual, 2) /* -> I32 */                                                             \
  X(IsNan, 1)     /* -> I32 */                                                             \
  X(IsInf, 1)     /* -> I32 */                                                             \
  X(And, 2)       /* bitwise on ints; logic on 0/1 values */                               \
  X(Or, 2)                                                                                 \
  X(Xor, 2)                                                                                \
  X(Select, 3) /* a (I32) != 0 ? b : c */                                                  \
  X(Philox, 3) /* U32: word of Philox4x32-10, key (a, b) U32 values, counter derived from  \
                  (U32 value c = element index, `index` = stream). See base/philox.hpp */  \
  X(Store, 1)  /* to output `index`, converted to its dtype */

enum class ScalarOp : std::uint8_t {
#define PANDO_SCALAR_ENUM(name, arity) name,
  PANDO_SCALAR_OPS(PANDO_SCALAR_ENUM)
#undef PANDO_SCALAR_ENUM
};

std::string_view scalar_op_name(ScalarOp op);
constexpr int scalar_arity(ScalarOp op) {
  constexpr int kArities[] = {
#define PANDO_SCALAR_ARITY(name, arity) arity,
      PANDO_SCALAR_OPS(PANDO_SCALAR_ARITY)
#undef PANDO_SCALAR_ARITY
  };
  return kArities[static_cast<std::size_t>(op)];
}

/// Index of an instruction in its program.
using ScalarValue = std::int32_t;
inline constexpr ScalarValue kNoValue = -1;

struct ScalarInstruction {
  ScalarOp op = ScalarOp::Constant;
  LaneType lane = LaneType::F32;  // of the result
  DType dtype = DType::Float32;   // Load, Store, Round: the storage dtype
  std::int32_t index = 0;         // Load, Store: operand; Philox: stream
  ScalarValue a = kNoValue, b = kNoValue, c = kNoValue;
  double immediate = 0.0;
  std::int64_t integer_immediate = 0;

  bool operator==(const ScalarInstruction&) const = default;
};

struct ScalarProgram {
  std::vector<ScalarInstruction> instructions;

  bool empty() const { return instructions.empty(); }
  bool operator==(const ScalarProgram&) const = default;
};

/// One line per instruction: `%3 = Add.f32 %1 %2`.
std::string scalar_program_text(const ScalarProgram& program);

/// Appends instructions to a program; equal pure instructions are shared.
class ScalarEmitter {
 public:
  explicit ScalarEmitter(ScalarProgram& program) : program_(program) {}

  ScalarValue load(int operand, DType dtype);
  ScalarValue constant(double value, LaneType lane = LaneType::F32);
  ScalarValue integer_constant(std::int64_t value, LaneType lane);
  /// `value` in the lane type of `like`.
  ScalarValue constant_like(double value, ScalarValue like);
  ScalarValue iota();
  ScalarValue convert(ScalarValue value, LaneType lane);
  /// `value` as it reads back after being stored as `dtype`: precision, range and lane type.
  ScalarValue as_dtype(ScalarValue value, DType dtype);
  ScalarValue philox(ScalarValue key0, ScalarValue key1, ScalarValue index, int stream);
  ScalarValue emit(ScalarOp op, ScalarValue a, ScalarValue b = kNoValue, ScalarValue c = kNoValue);
  void store(int output, ScalarValue value, DType dtype);
  LaneType lane(ScalarValue value) const;

 private:
  ScalarValue append(const ScalarInstruction& instruction);
  ScalarValue clamped_integer(ScalarValue value, DType dtype);

  ScalarProgram& program_;
};

}  // namespace pando
