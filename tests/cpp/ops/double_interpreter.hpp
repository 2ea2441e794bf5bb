// A reference interpreter for scalar programs: one element at a time, in double. Lanes of 32 bits
// are not rounded; Round instructions are.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "pando/base/scalar_program.hpp"
#include "pando/ir/graph.hpp"

namespace pando::testing {

inline bool is_float_lane(LaneType lane) { return lane == LaneType::F32 || lane == LaneType::F64; }

inline double rounded(double value, DType dtype) {
  switch (dtype) {
    case DType::Float16:
      return static_cast<double>(static_cast<_Float16>(value));
    case DType::BFloat16: {
      if (!std::isfinite(value) || value == 0.0) return value;
      const double unit = std::ldexp(1.0, std::max(std::ilogb(value), -126) - 7);
      return std::nearbyint(value / unit) * unit;
    }
    case DType::Int8:
      return static_cast<std::int8_t>(static_cast<std::int64_t>(value));
    case DType::Int16:
      return static_cast<std::int16_t>(static_cast<std::int64_t>(value));
    case DType::UInt8:
      return static_cast<std::uint8_t>(static_cast<std::int64_t>(value));
    case DType::UInt16:
      return static_cast<std::uint16_t>(static_cast<std::int64_t>(value));
    default:
      throw std::logic_error("the reference interpreter does not round to this dtype");
  }
}

inline double divide(double a, double b, bool is_float) {
  if (is_float) return a / b;
  return b == 0.0 ? 0.0 : std::trunc(a / b);
}

inline double remainder_of(double a, double b, bool is_float) {
  if (!is_float && b == 0.0) return 0.0;
  return std::fmod(a, b);
}

inline double nan_or(double a, double b, double result) {
  return std::isnan(a) || std::isnan(b) ? std::nan("") : result;
}

/// The value of an instruction that is neither Load nor Store.
inline double scalar_value(const ScalarInstruction& in, double a, double b, double c) {
  const bool is_float = is_float_lane(in.lane);
  const auto bits = [](double x) { return static_cast<std::int64_t>(x); };
  switch (in.op) {
    case ScalarOp::Constant:
      return is_float ? in.immediate : static_cast<double>(in.integer_immediate);
    case ScalarOp::Convert:
      return is_float ? a : std::trunc(a);
    case ScalarOp::Round:
      return rounded(a, in.dtype);
    case ScalarOp::Add:
      return a + b;
    case ScalarOp::Sub:
      return a - b;
    case ScalarOp::Mul:
      return a * b;
    case ScalarOp::Div:
      return divide(a, b, is_float);
    case ScalarOp::Rem:
      return remainder_of(a, b, is_float);
    case ScalarOp::Fma:
      return std::fma(a, b, c);
    case ScalarOp::Min:
      return nan_or(a, b, std::fmin(a, b));
    case ScalarOp::Max:
      return nan_or(a, b, std::fmax(a, b));
    case ScalarOp::Neg:
      return -a;
    case ScalarOp::Abs:
      return std::fabs(a);
    case ScalarOp::Sign:
      return std::isnan(a) ? a : (a > 0) - (a < 0);
    case ScalarOp::Exp:
      return std::exp(a);
    case ScalarOp::Log:
      return std::log(a);
    case ScalarOp::Sqrt:
      return std::sqrt(a);
    case ScalarOp::Tanh:
      return std::tanh(a);
    case ScalarOp::Sigmoid:
      return 1.0 / (1.0 + std::exp(-a));
    case ScalarOp::Erf:
      return std::erf(a);
    case ScalarOp::Erfc:
      return std::erfc(a);
    case ScalarOp::Log1p:
      return std::log1p(a);
    case ScalarOp::Expm1:
      return std::expm1(a);
    case ScalarOp::Atan:
      return std::atan(a);
    case ScalarOp::Sin:
      return std::sin(a);
    case ScalarOp::Cos:
      return std::cos(a);
    case ScalarOp::Pow:
      return std::pow(a, b);
    case ScalarOp::Floor:
      return std::floor(a);
    case ScalarOp::Ceil:
      return std::ceil(a);
    case ScalarOp::RoundEven:
      return std::nearbyint(a);
    case ScalarOp::Equal:
      return a == b;
    case ScalarOp::Less:
      return a < b;
    case ScalarOp::LessEqual:
      return a <= b;
    case ScalarOp::IsNan:
      return std::isnan(a);
    case ScalarOp::IsInf:
      return std::isinf(a);
    case ScalarOp::And:
      return static_cast<double>(bits(a) & bits(b));
    case ScalarOp::Or:
      return static_cast<double>(bits(a) | bits(b));
    case ScalarOp::Xor:
      return static_cast<double>(bits(a) ^ bits(b));
    case ScalarOp::Select:
      return a != 0.0 ? b : c;
    case ScalarOp::Iota:
    case ScalarOp::Philox:
    case ScalarOp::Load:
    case ScalarOp::Store:
      break;
  }
  throw std::logic_error("the reference interpreter does not run " +
                         std::string(scalar_op_name(in.op)));
}

/// Runs `program` on one element. Loads read `inputs`; the result has `num_outputs` stored values.
inline std::vector<double> run_scalar_program(const ScalarProgram& program,
                                              std::span<const double> inputs, int num_outputs) {
  std::vector<double> values;
  std::vector<double> outputs(static_cast<std::size_t>(num_outputs));
  for (const ScalarInstruction& in : program.instructions) {
    const auto value = [&](ScalarValue v) {
      return v == kNoValue ? 0.0 : values[static_cast<std::size_t>(v)];
    };
    double result = 0.0;
    if (in.op == ScalarOp::Load) {
      result = inputs[static_cast<std::size_t>(in.index)];
    } else if (in.op == ScalarOp::Store) {
      const double stored = value(in.a);
      const bool to_int = !is_floating_point(in.dtype) && is_float_lane(in.lane);
      outputs[static_cast<std::size_t>(in.index)] = to_int ? std::trunc(stored) : stored;
    } else {
      result = scalar_value(in, value(in.a), value(in.b), value(in.c));
    }
    values.push_back(result);
  }
  return outputs;
}

/// The program of a pointwise op on its own: loads, body, stores.
inline ScalarProgram program_of(const Op& op) {
  ScalarProgram program;
  ScalarEmitter emitter(program);
  std::vector<ScalarValue> inputs;
  for (int i = 0; i < op.num_inputs(); ++i) {
    inputs.push_back(op.input(i) == nullptr ? kNoValue : emitter.load(i, op.input(i)->dtype()));
  }
  const std::vector<ScalarValue> results = op.def().scalar_body(emitter, op, inputs);
  for (int i = 0; i < op.num_outputs(); ++i) {
    emitter.store(i, results[static_cast<std::size_t>(i)], op.output(i)->dtype());
  }
  return program;
}

}  // namespace pando::testing
