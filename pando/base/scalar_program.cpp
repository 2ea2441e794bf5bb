#include "pando/base/scalar_program.hpp"

#include <array>
#include <cmath>

#include "pando/base/error.hpp"
#include "pando/base/lane_names.hpp"

namespace pando {
namespace {

constexpr std::array kOpNames = {
#define PANDO_SCALAR_NAME(name, arity) std::string_view(#name),
    PANDO_SCALAR_OPS(PANDO_SCALAR_NAME)
#undef PANDO_SCALAR_NAME
};

bool gives_truth_value(ScalarOp op) {
  switch (op) {
    case ScalarOp::Equal:
    case ScalarOp::Less:
    case ScalarOp::LessEqual:
    case ScalarOp::IsNan:
    case ScalarOp::IsInf:
      return true;
    default:
      return false;
  }
}

bool is_integer_lane(LaneType lane) { return lane != LaneType::F32 && lane != LaneType::F64; }

/// NaN immediates compare unequal, so sharing must look at the bits.
bool same(const ScalarInstruction& x, const ScalarInstruction& y) {
  if (std::isnan(x.immediate) && std::isnan(y.immediate)) {
    ScalarInstruction a = x, b = y;
    a.immediate = b.immediate = 0.0;
    return a == b;
  }
  return x == y && std::signbit(x.immediate) == std::signbit(y.immediate);
}

}  // namespace

std::string_view scalar_op_name(ScalarOp op) { return kOpNames[static_cast<std::size_t>(op)]; }

std::string scalar_program_text(const ScalarProgram& program) {
  std::string text;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const ScalarInstruction& in = program.instructions[i];
    text += str_cat("%", i, " = ", scalar_op_name(in.op), ".", lane_name(in.lane));
    for (ScalarValue value : {in.a, in.b, in.c}) {
      if (value != kNoValue) text += str_cat(" %", value);
    }
    switch (in.op) {
      case ScalarOp::Load:
      case ScalarOp::Store:
        text += str_cat(" [", in.index, "] ", in.dtype);
        break;
      case ScalarOp::Round:
        text += str_cat(" ", in.dtype);
        break;
      case ScalarOp::Philox:
        text += str_cat(" stream ", in.index);
        break;
      case ScalarOp::Constant:
        text += is_integer_lane(in.lane) ? str_cat(" ", in.integer_immediate)
                                         : str_cat(" ", in.immediate);
        break;
      default:
        break;
    }
    text += "\n";
  }
  return text;
}

ScalarValue ScalarEmitter::append(const ScalarInstruction& instruction) {
  auto& list = program_.instructions;
  const bool pure = instruction.op != ScalarOp::Store;
  for (std::size_t i = 0; pure && i < list.size(); ++i) {
    if (same(list[i], instruction)) return static_cast<ScalarValue>(i);
  }
  list.push_back(instruction);
  return static_cast<ScalarValue>(list.size() - 1);
}

LaneType ScalarEmitter::lane(ScalarValue value) const {
  return program_.instructions[static_cast<std::size_t>(value)].lane;
}

ScalarValue ScalarEmitter::load(int operand, DType dtype) {
  return append({.op = ScalarOp::Load, .lane = lane_of(dtype), .dtype = dtype, .index = operand});
}

ScalarValue ScalarEmitter::constant(double value, LaneType lane) {
  if (is_integer_lane(lane)) return integer_constant(static_cast<std::int64_t>(value), lane);
  return append({.op = ScalarOp::Constant, .lane = lane, .immediate = value});
}

ScalarValue ScalarEmitter::integer_constant(std::int64_t value, LaneType lane) {
  return append({.op = ScalarOp::Constant,
                 .lane = lane,
                 .immediate = static_cast<double>(value),
                 .integer_immediate = value});
}

ScalarValue ScalarEmitter::constant_like(double value, ScalarValue like) {
  return constant(value, lane(like));
}

ScalarValue ScalarEmitter::iota() { return append({.op = ScalarOp::Iota, .lane = LaneType::U32}); }

ScalarValue ScalarEmitter::convert(ScalarValue value, LaneType target) {
  if (lane(value) == target) return value;
  return append({.op = ScalarOp::Convert, .lane = target, .a = value});
}

ScalarValue ScalarEmitter::as_dtype(ScalarValue value, DType dtype) {
  if (dtype == DType::Bool) {
    const ScalarInstruction& made = program_.instructions[static_cast<std::size_t>(value)];
    const bool loaded = made.op == ScalarOp::Load && made.dtype == DType::Bool;
    if (loaded || gives_truth_value(made.op)) return value;
    const ScalarValue zero = constant_like(0.0, value);
    const ScalarValue is_zero = emit(ScalarOp::Equal, value, zero);
    return emit(ScalarOp::Xor, is_zero, integer_constant(1, LaneType::I32));
  }
  const bool narrow_float = is_float8(dtype) || is_half_precision(dtype);
  const bool narrow_int = is_integer(dtype) && dtype_bytes(dtype) < 4;
  if (narrow_int && !is_integer_lane(lane(value))) return clamped_integer(value, dtype);
  ScalarValue result = convert(value, lane_of(dtype));
  if (narrow_float || narrow_int) {
    result = append({.op = ScalarOp::Round, .lane = lane_of(dtype), .dtype = dtype, .a = result});
  }
  return result;
}

/// A float as an integer of a dtype that is narrower than its lane.
ScalarValue ScalarEmitter::clamped_integer(ScalarValue value, DType dtype) {
  const int bits = 8 * static_cast<int>(dtype_bytes(dtype));
  const bool is_signed = traits(dtype).is_signed;
  const double last = std::ldexp(1.0, is_signed ? bits - 1 : bits) - 1.0;
  const double first = is_signed ? -1.0 - last : 0.0;
  value = emit(ScalarOp::Max, value, constant_like(first, value));
  return convert(emit(ScalarOp::Min, value, constant_like(last, value)), lane_of(dtype));
}

ScalarValue ScalarEmitter::philox(ScalarValue key0, ScalarValue key1, ScalarValue index,
                                  int stream) {
  return append({.op = ScalarOp::Philox,
                 .lane = LaneType::U32,
                 .index = stream,
                 .a = key0,
                 .b = key1,
                 .c = index});
}

ScalarValue ScalarEmitter::emit(ScalarOp op, ScalarValue a, ScalarValue b, ScalarValue c) {
  LaneType result = lane(op == ScalarOp::Select ? b : a);
  if (gives_truth_value(op)) result = LaneType::I32;
  return append({.op = op, .lane = result, .a = a, .b = b, .c = c});
}

void ScalarEmitter::store(int output, ScalarValue value, DType dtype) {
  if (is_integer(dtype) && !is_integer_lane(lane(value))) value = as_dtype(value, dtype);
  append({.op = ScalarOp::Store, .lane = lane(value), .dtype = dtype, .index = output, .a = value});
}

}  // namespace pando
