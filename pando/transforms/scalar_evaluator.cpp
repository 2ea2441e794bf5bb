#include "pando/transforms/scalar_evaluator.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "pando/base/error.hpp"
#include "pando/base/half.hpp"
#include "pando/base/integers.hpp"
#include "pando/base/philox.hpp"

namespace pando {
namespace {

bool is_float(LaneType lane) { return lane == LaneType::F32 || lane == LaneType::F64; }

/// A value in its lane: floats in `real`, integers in `bits` (sign- or zero-extended).
struct Cell {
  double real = 0.0;
  std::int64_t bits = 0;
};

Cell wrapped(std::int64_t bits, LaneType lane) {
  if (lane == LaneType::I32) return {0.0, static_cast<std::int32_t>(bits)};
  if (lane == LaneType::U32) return {0.0, static_cast<std::uint32_t>(bits)};
  return {0.0, bits};
}

Cell rounded(double value, LaneType lane) {
  return {lane == LaneType::F32 ? static_cast<double>(static_cast<float>(value)) : value, 0};
}

double as_double(const Cell& cell, LaneType lane) {
  if (is_float(lane)) return cell.real;
  if (lane == LaneType::U64) return static_cast<double>(static_cast<std::uint64_t>(cell.bits));
  return static_cast<double>(cell.bits);
}

Cell to_integer(double value, LaneType lane) {
  switch (lane) {
    case LaneType::I32:
      return {0.0, saturated<std::int32_t>(value)};
    case LaneType::U32:
      return {0.0, saturated<std::uint32_t>(value)};
    case LaneType::U64:
      return {0.0, static_cast<std::int64_t>(saturated<std::uint64_t>(value))};
    default:
      return {0.0, saturated<std::int64_t>(value)};
  }
}

Cell convert(const Cell& cell, LaneType from, LaneType to) {
  if (is_float(to)) {
    // 64-bit integers go to float32 directly: through double they would be rounded twice.
    if (to == LaneType::F32 && from == LaneType::I64) return {static_cast<float>(cell.bits), 0};
    if (to == LaneType::F32 && from == LaneType::U64) {
      return {static_cast<float>(static_cast<std::uint64_t>(cell.bits)), 0};
    }
    return rounded(as_double(cell, from), to);
  }
  return is_float(from) ? to_integer(cell.real, to) : wrapped(cell.bits, to);
}

template <class T>
T read(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

template <class T>
void write(std::byte* data, T value) {
  std::memcpy(data, &value, sizeof value);
}

bool load(const std::byte* data, DType dtype, Cell& result) {
  switch (dtype) {
    case DType::Bool:
      result = {0.0, read<std::uint8_t>(data) != 0};
      return true;
    case DType::Int8:
      result = {0.0, read<std::int8_t>(data)};
      return true;
    case DType::UInt8:
      result = {0.0, read<std::uint8_t>(data)};
      return true;
    case DType::Int16:
      result = {0.0, read<std::int16_t>(data)};
      return true;
    case DType::UInt16:
      result = {0.0, read<std::uint16_t>(data)};
      return true;
    case DType::Int32:
      result = {0.0, read<std::int32_t>(data)};
      return true;
    case DType::UInt32:
      result = {0.0, read<std::uint32_t>(data)};
      return true;
    case DType::Int64:
    case DType::UInt64:
      result = {0.0, read<std::int64_t>(data)};
      return true;
    case DType::Float8_143:
    case DType::Float8_152:
      result = {float8_to_float(read<std::uint8_t>(data), dtype), 0};
      return true;
    case DType::Float16:
    case DType::BFloat16:
      result = {half_precision_to_float(read<std::uint16_t>(data), dtype), 0};
      return true;
    case DType::Float32:
      result = {read<float>(data), 0};
      return true;
    case DType::Float64:
      result = {read<double>(data), 0};
      return true;
    case DType::Complex64:
    case DType::Complex128:
      break;
  }
  return false;
}

bool store(std::byte* data, DType dtype, const Cell& cell, LaneType lane) {
  if (dtype == DType::Bool) {
    write<std::uint8_t>(data, is_float(lane) ? cell.real != 0.0 : cell.bits != 0);
    return true;
  }
  if (traits(dtype).is_complex) return false;
  const Cell value = convert(cell, lane, lane_of(dtype));
  switch (dtype) {
    case DType::Float8_143:
    case DType::Float8_152:
      write(data, float_to_float8(static_cast<float>(value.real), dtype));
      break;
    case DType::Float16:
    case DType::BFloat16:
      write(data, float_to_half_precision(static_cast<float>(value.real), dtype));
      break;
    case DType::Float32:
      write(data, static_cast<float>(value.real));
      break;
    case DType::Float64:
      write(data, value.real);
      break;
    default:
      std::memcpy(data, &value.bits, dtype_bytes(dtype));  // little-endian: the low bytes
      break;
  }
  return true;
}

Cell round_to(const Cell& cell, DType dtype) {
  switch (dtype) {
    case DType::Float16:
    case DType::BFloat16:
      return {rounded_to_half_precision(static_cast<float>(cell.real), dtype), 0};
    case DType::Float8_143:
    case DType::Float8_152:
      return {float8_to_float(float_to_float8(static_cast<float>(cell.real), dtype), dtype), 0};
    case DType::Int8:
      return {0.0, static_cast<std::int8_t>(cell.bits)};
    case DType::UInt8:
      return {0.0, static_cast<std::uint8_t>(cell.bits)};
    case DType::Int16:
      return {0.0, static_cast<std::int16_t>(cell.bits)};
    case DType::UInt16:
      return {0.0, static_cast<std::uint16_t>(cell.bits)};
    default:
      return cell;
  }
}

double nan_of(double a, double b, double otherwise) {
  if (std::isnan(a)) return a;
  return std::isnan(b) ? b : otherwise;
}

double float_fma(double a, double b, double c, LaneType lane) {
  if (lane == LaneType::F64) return std::fma(a, b, c);
  return std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c));
}

/// Ops of two or three operands with a float result, before rounding to the lane.
bool float_combination(const ScalarInstruction& in, double a, double b, double c, double& r) {
  switch (in.op) {
    case ScalarOp::Add:
      r = a + b;
      return true;
    case ScalarOp::Sub:
      r = a - b;
      return true;
    case ScalarOp::Mul:
      r = a * b;
      return true;
    case ScalarOp::Div:
      r = a / b;
      return true;
    case ScalarOp::Rem:
      r = std::fmod(a, b);
      return true;
    case ScalarOp::Pow:
      r = std::pow(a, b);
      return true;
    case ScalarOp::Fma:
      r = float_fma(a, b, c, in.lane);
      return true;
    case ScalarOp::Min:
      r = nan_of(a, b, std::fmin(a, b));
      return true;
    case ScalarOp::Max:
      r = nan_of(a, b, std::fmax(a, b));
      return true;
    default:
      return false;
  }
}

/// Functions of one float, before rounding to the lane.
bool float_function(ScalarOp op, double a, double& r) {
  switch (op) {
    case ScalarOp::Neg:
      r = -a;
      return true;
    case ScalarOp::Abs:
      r = std::fabs(a);
      return true;
    case ScalarOp::Sign:
      r = std::isnan(a) ? a : (a > 0.0) - (a < 0.0);
      return true;
    case ScalarOp::Exp:
      r = std::exp(a);
      return true;
    case ScalarOp::Log:
      r = std::log(a);
      return true;
    case ScalarOp::Sqrt:
      r = std::sqrt(a);
      return true;
    case ScalarOp::Tanh:
      r = std::tanh(a);
      return true;
    case ScalarOp::Sigmoid:
      r = 1.0 / (1.0 + std::exp(-a));
      return true;
    case ScalarOp::Erf:
      r = std::erf(a);
      return true;
    case ScalarOp::Erfc:
      r = std::erfc(a);
      return true;
    case ScalarOp::Log1p:
      r = std::log1p(a);
      return true;
    case ScalarOp::Expm1:
      r = std::expm1(a);
      return true;
    case ScalarOp::Atan:
      r = std::atan(a);
      return true;
    case ScalarOp::Sin:
      r = std::sin(a);
      return true;
    case ScalarOp::Cos:
      r = std::cos(a);
      return true;
    case ScalarOp::Floor:
      r = std::floor(a);
      return true;
    case ScalarOp::Ceil:
      r = std::ceil(a);
      return true;
    case ScalarOp::RoundEven:
      r = std::nearbyint(a);
      return true;
    default:
      return false;
  }
}

bool float_result(const ScalarInstruction& in, double a, double b, double c, double& r) {
  return float_function(in.op, a, r) || float_combination(in, a, b, c, r);
}

std::int64_t divided(std::int64_t a, std::int64_t b, bool is_signed, bool remainder) {
  if (b == 0) return 0;
  if (!is_signed) {
    const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
    return static_cast<std::int64_t>(remainder ? x % y : x / y);
  }
  // The one quotient that overflows wraps.
  if (b == -1) return remainder ? 0 : static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(a));
  return remainder ? a % b : a / b;
}

/// Ops with an integer result in the lane of their operands, before wrapping.
bool integer_result(const ScalarInstruction& in, std::int64_t a, std::int64_t b, std::int64_t c,
                    std::int64_t& r) {
  const bool is_signed = in.lane == LaneType::I32 || in.lane == LaneType::I64;
  const auto ua = static_cast<std::uint64_t>(a), ub = static_cast<std::uint64_t>(b);
  const auto set = [&](std::uint64_t value) { r = static_cast<std::int64_t>(value); };
  const bool less = is_signed ? a < b : ua < ub;
  switch (in.op) {
    case ScalarOp::Add:
      set(ua + ub);
      return true;
    case ScalarOp::Sub:
      set(ua - ub);
      return true;
    case ScalarOp::Mul:
      set(ua * ub);
      return true;
    case ScalarOp::Div:
    case ScalarOp::Rem:
      r = divided(a, b, is_signed, in.op == ScalarOp::Rem);
      return true;
    case ScalarOp::Fma:
      set(ua * ub + static_cast<std::uint64_t>(c));
      return true;
    case ScalarOp::Pow:
      r = is_signed ? wrapped_power(a, b) : static_cast<std::int64_t>(wrapped_power(ua, ub));
      return true;
    case ScalarOp::Min:
      r = less ? a : b;
      return true;
    case ScalarOp::Max:
      r = less ? b : a;
      return true;
    case ScalarOp::Neg:
      set(0 - ua);
      return true;
    case ScalarOp::Abs:
      set(is_signed && a < 0 ? 0 - ua : ua);
      return true;
    case ScalarOp::Sign:
      r = is_signed ? (a > 0) - (a < 0) : a != 0;
      return true;
    case ScalarOp::And:
      r = a & b;
      return true;
    case ScalarOp::Or:
      r = a | b;
      return true;
    case ScalarOp::Xor:
      r = a ^ b;
      return true;
    case ScalarOp::Floor:
    case ScalarOp::Ceil:
    case ScalarOp::RoundEven:
      r = a;
      return true;
    default:
      return false;
  }
}

bool compare(ScalarOp op, const Cell& a, const Cell& b, LaneType lane, std::int64_t& r) {
  const bool real = is_float(lane);
  const bool is_signed = lane == LaneType::I32 || lane == LaneType::I64;
  const bool equal = real ? a.real == b.real : a.bits == b.bits;
  const bool less = real ? a.real < b.real
                    : is_signed
                        ? a.bits < b.bits
                        : static_cast<std::uint64_t>(a.bits) < static_cast<std::uint64_t>(b.bits);
  switch (op) {
    case ScalarOp::Equal:
      r = equal;
      return true;
    case ScalarOp::Less:
      r = less;
      return true;
    case ScalarOp::LessEqual:
      r = less || equal;
      return true;
    case ScalarOp::IsNan:
      r = real && std::isnan(a.real);
      return true;
    case ScalarOp::IsInf:
      r = real && std::isinf(a.real);
      return true;
    default:
      return false;
  }
}

class Evaluator {
 public:
  Evaluator(const ScalarProgram& program, std::span<const std::byte* const> inputs,
            std::span<std::byte* const> outputs, std::uint32_t index)
      : program_(program), inputs_(inputs), outputs_(outputs), index_(index) {}

  bool run() {
    cells_.reserve(program_.instructions.size());
    for (const ScalarInstruction& in : program_.instructions) {
      Cell result;
      if (!step(in, result)) return false;
      cells_.push_back(result);
    }
    return true;
  }

 private:
  Cell cell(ScalarValue v) const {
    return v == kNoValue ? Cell{} : cells_[static_cast<std::size_t>(v)];
  }
  LaneType lane(ScalarValue v) const {
    return program_.instructions[static_cast<std::size_t>(v)].lane;
  }

  bool step(const ScalarInstruction& in, Cell& result) const {
    const auto operand = static_cast<std::size_t>(in.index);
    switch (in.op) {
      case ScalarOp::Load:
        return load(inputs_[operand], in.dtype, result);
      case ScalarOp::Store:
        return store(outputs_[operand], in.dtype, cell(in.a), lane(in.a));
      case ScalarOp::Constant:
        result = is_float(in.lane) ? rounded(in.immediate, in.lane)
                                   : wrapped(in.integer_immediate, in.lane);
        return true;
      case ScalarOp::Iota:
        result = {0.0, index_};
        return true;
      case ScalarOp::Convert:
        result = convert(cell(in.a), lane(in.a), in.lane);
        return true;
      case ScalarOp::Round:
        result = round_to(cell(in.a), in.dtype);
        return true;
      case ScalarOp::Select:
        result = cell(in.a).bits != 0 ? cell(in.b) : cell(in.c);
        return true;
      case ScalarOp::Philox:
        result = {0.0, philox_word(static_cast<std::uint32_t>(cell(in.a).bits),
                                   static_cast<std::uint32_t>(cell(in.b).bits),
                                   static_cast<std::uint32_t>(cell(in.c).bits),
                                   static_cast<std::uint32_t>(in.index))};
        return true;
      default:
        return arithmetic(in, result);
    }
  }

  bool arithmetic(const ScalarInstruction& in, Cell& result) const {
    const Cell a = cell(in.a), b = cell(in.b), c = cell(in.c);
    std::int64_t truth = 0;
    if (compare(in.op, a, b, lane(in.a), truth)) {
      result = {0.0, truth};
      return true;
    }
    if (is_float(in.lane)) {
      double value = 0.0;
      if (!float_result(in, a.real, b.real, c.real, value)) return false;
      result = rounded(value, in.lane);
      return true;
    }
    std::int64_t bits = 0;
    if (!integer_result(in, a.bits, b.bits, c.bits, bits)) return false;
    result = wrapped(bits, in.lane);
    return true;
  }

  const ScalarProgram& program_;
  std::span<const std::byte* const> inputs_;
  std::span<std::byte* const> outputs_;
  std::uint32_t index_;
  std::vector<Cell> cells_;
};

}  // namespace

bool evaluate_scalar(const ScalarProgram& program, std::span<const std::byte* const> inputs,
                     std::span<std::byte* const> outputs, std::uint32_t index) {
  return Evaluator(program, inputs, outputs, index).run();
}

}  // namespace pando
