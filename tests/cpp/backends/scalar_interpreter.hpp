// Runs a scalar program element by element: the meaning of Fused kernels, written plainly.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "pando/base/half.hpp"
#include "pando/base/philox.hpp"
#include "pando/program/program.hpp"

namespace pando::testing {

/// An operand with memory of its own.
class Operand {
 public:
  explicit Operand(OperandDesc desc) : desc_(std::move(desc)) {
    std::int64_t low = 0, high = 0;
    for (std::size_t d = 0; d < desc_.shape.size(); ++d) {
      const std::int64_t reach = std::max<std::int64_t>(0, desc_.shape[d] - 1) * desc_.strides[d];
      (reach < 0 ? low : high) += reach;
    }
    origin_ = -low * bytes();
    memory_.resize(static_cast<std::size_t>((high - low + 1) * bytes()), std::byte{0x5a});
  }

  const OperandDesc& desc() const { return desc_; }
  DType dtype() const { return desc_.dtype; }
  std::int64_t size() const { return num_elements(desc_.shape); }
  std::byte* data() { return memory_.data() + origin_; }
  /// Element `index` in C order.
  std::byte* at(std::int64_t index) {
    std::int64_t offset = 0;
    for (std::size_t d = desc_.shape.size(); d-- > 0;) {
      offset += index % desc_.shape[d] * desc_.strides[d];
      index /= desc_.shape[d];
    }
    return data() + offset * bytes();
  }
  const std::vector<std::byte>& memory() const { return memory_; }

 private:
  std::int64_t bytes() const { return static_cast<std::int64_t>(dtype_bytes(desc_.dtype)); }

  OperandDesc desc_;
  std::vector<std::byte> memory_;
  std::int64_t origin_ = 0;
};

/// A lane value of any type, as bits.
struct Lane {
  std::uint64_t bits = 0;

  template <class T>
  static Lane of(T value) {
    Lane lane;
    std::memcpy(&lane.bits, &value, sizeof value);
    return lane;
  }
  template <class T>
  T as() const {
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
};

/// Calls body(T{}) with the C++ type of a lane.
template <class Body>
Lane with_lane(LaneType lane, const Body& body) {
  switch (lane) {
    case LaneType::F32:
      return body(float{});
    case LaneType::F64:
      return body(double{});
    case LaneType::I32:
      return body(std::int32_t{});
    case LaneType::I64:
      return body(std::int64_t{});
    case LaneType::U32:
      return body(std::uint32_t{});
    case LaneType::U64:
      return body(std::uint64_t{});
  }
  return {};
}

template <class T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

inline Lane load_element(const std::byte* at, DType dtype) {
  switch (dtype) {
    case DType::Bool:
    case DType::UInt8:
      return Lane::of<std::int32_t>(read<std::uint8_t>(at));
    case DType::Int8:
      return Lane::of<std::int32_t>(read<std::int8_t>(at));
    case DType::Int16:
      return Lane::of<std::int32_t>(read<std::int16_t>(at));
    case DType::UInt16:
      return Lane::of<std::int32_t>(read<std::uint16_t>(at));
    case DType::Float16:
    case DType::BFloat16:
      return Lane::of(half_precision_to_float(read<std::uint16_t>(at), dtype));
    case DType::Float8_143:
    case DType::Float8_152:
      return Lane::of(float8_to_float(read<std::uint8_t>(at), dtype));
    default: {
      Lane lane;
      std::memcpy(&lane.bits, at, dtype_bytes(dtype));
      return lane;
    }
  }
}

inline void store_element(Lane lane, DType dtype, std::byte* at) {
  std::uint64_t bits = lane.bits;  // integers: the low bytes
  if (is_half_precision(dtype)) bits = float_to_half_precision(lane.as<float>(), dtype);
  if (is_float8(dtype)) bits = float_to_float8(lane.as<float>(), dtype);
  std::memcpy(at, &bits, dtype_bytes(dtype));
}

template <class T>
Lane apply_float(ScalarOp op, T a, T b, T c) {
  const auto truth = [](bool value) { return Lane::of<std::int32_t>(value ? 1 : 0); };
  switch (op) {
    case ScalarOp::Add:
      return Lane::of<T>(a + b);
    case ScalarOp::Sub:
      return Lane::of<T>(a - b);
    case ScalarOp::Mul:
      return Lane::of<T>(a * b);
    case ScalarOp::Div:
      return Lane::of<T>(a / b);
    case ScalarOp::Rem:
      return Lane::of<T>(std::fmod(a, b));
    case ScalarOp::Fma:
      return Lane::of<T>(std::fma(a, b, c));
    case ScalarOp::Min:
      return Lane::of<T>(std::isnan(a) ? a : (a < b ? a : b));
    case ScalarOp::Max:
      return Lane::of<T>(std::isnan(a) ? a : (a > b ? a : b));
    case ScalarOp::Neg:
      return Lane::of<T>(-a);
    case ScalarOp::Abs:
      return Lane::of<T>(std::fabs(a));
    case ScalarOp::Sign:
      return Lane::of<T>(std::isnan(a) ? a : T((a > 0) - (a < 0)));
    case ScalarOp::Exp:
      return Lane::of(static_cast<T>(std::exp(double(a))));
    case ScalarOp::Log:
      return Lane::of(static_cast<T>(std::log(double(a))));
    case ScalarOp::Sqrt:
      return Lane::of<T>(std::sqrt(a));
    case ScalarOp::Tanh:
      return Lane::of(static_cast<T>(std::tanh(double(a))));
    case ScalarOp::Sigmoid:
      return Lane::of(static_cast<T>(1.0 / (1.0 + std::exp(-double(a)))));
    case ScalarOp::Erf:
      return Lane::of(static_cast<T>(std::erf(double(a))));
    case ScalarOp::Erfc:
      return Lane::of(static_cast<T>(std::erfc(double(a))));
    case ScalarOp::Log1p:
      return Lane::of(static_cast<T>(std::log1p(double(a))));
    case ScalarOp::Expm1:
      return Lane::of(static_cast<T>(std::expm1(double(a))));
    case ScalarOp::Atan:
      return Lane::of(static_cast<T>(std::atan(double(a))));
    case ScalarOp::Sin:
      return Lane::of(static_cast<T>(std::sin(double(a))));
    case ScalarOp::Cos:
      return Lane::of(static_cast<T>(std::cos(double(a))));
    case ScalarOp::Pow:
      return Lane::of(static_cast<T>(std::pow(double(a), double(b))));
    case ScalarOp::Floor:
      return Lane::of<T>(std::floor(a));
    case ScalarOp::Ceil:
      return Lane::of<T>(std::ceil(a));
    case ScalarOp::RoundEven:
      return Lane::of<T>(std::nearbyint(a));
    case ScalarOp::Equal:
      return truth(a == b);
    case ScalarOp::Less:
      return truth(a < b);
    case ScalarOp::LessEqual:
      return truth(a <= b);
    case ScalarOp::IsNan:
      return truth(std::isnan(a));
    case ScalarOp::IsInf:
      return truth(std::isinf(a));
    default:
      throw InternalError("no such float op");
  }
}

template <class T>
Lane apply_int(ScalarOp op, T a, T b, T c) {
  using U = std::make_unsigned_t<T>;
  const U ua = static_cast<U>(a), ub = static_cast<U>(b), uc = static_cast<U>(c);
  const auto wrapped = [](U value) { return Lane::of(static_cast<T>(value)); };
  const auto truth = [](bool value) { return Lane::of<std::int32_t>(value ? 1 : 0); };
  const bool negative_one = std::is_signed_v<T> && ub == static_cast<U>(-1);
  switch (op) {
    case ScalarOp::Add:
      return wrapped(ua + ub);
    case ScalarOp::Sub:
      return wrapped(ua - ub);
    case ScalarOp::Mul:
      return wrapped(ua * ub);
    case ScalarOp::Div:
      return b == 0 ? wrapped(0) : negative_one ? wrapped(U{0} - ua) : Lane::of<T>(a / b);
    case ScalarOp::Rem:
      return b == 0 || negative_one ? wrapped(0) : Lane::of<T>(a % b);
    case ScalarOp::Fma:
      return wrapped(ua * ub + uc);
    case ScalarOp::Min:
      return Lane::of(a < b ? a : b);
    case ScalarOp::Max:
      return Lane::of(a > b ? a : b);
    case ScalarOp::Neg:
      return wrapped(U{0} - ua);
    case ScalarOp::Abs:
      return a < T{0} ? wrapped(U{0} - ua) : Lane::of(a);
    case ScalarOp::Sign:
      return Lane::of<T>(T(a > T{0}) - T(a < T{0}));
    case ScalarOp::Floor:
    case ScalarOp::Ceil:
    case ScalarOp::RoundEven:
      return Lane::of(a);
    case ScalarOp::Equal:
      return truth(a == b);
    case ScalarOp::Less:
      return truth(a < b);
    case ScalarOp::LessEqual:
      return truth(a <= b);
    case ScalarOp::IsNan:
    case ScalarOp::IsInf:
      return truth(false);
    case ScalarOp::And:
      return wrapped(ua & ub);
    case ScalarOp::Or:
      return wrapped(ua | ub);
    case ScalarOp::Xor:
      return wrapped(ua ^ ub);
    case ScalarOp::Pow: {
      if (a == 1 || b == 0) return Lane::of(T{1});
      if (b < T{0}) {
        return ua == static_cast<U>(-1) ? Lane::of<T>(b % 2 == 0 ? 1 : a) : wrapped(0);
      }
      U result = 1;
      for (T i = 0; i < b; ++i) result *= ua;
      return wrapped(result);
    }
    default:
      throw InternalError("no such integer op");
  }
}

/// Floats to integers: truncated, at the ends of the range outside it, 0 for NaN.
template <class To, class From>
To converted(From value) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    using Limits = std::numeric_limits<To>;
    if (std::isnan(value)) return To{0};
    return static_cast<To>(
        std::clamp<long double>(std::trunc(value), Limits::min(), Limits::max()));
  } else {
    return static_cast<To>(value);
  }
}

/// The value that instruction `in` gives; `values` holds those before it.
inline Lane evaluate(const ScalarProgram& program, const ScalarInstruction& in,
                     const std::vector<Lane>& values, std::vector<Operand*>& inputs,
                     std::int64_t index) {
  const auto value = [&](ScalarValue v) {
    return v == kNoValue ? Lane{} : values[static_cast<std::size_t>(v)];
  };
  const auto type = [&](ScalarValue v) {
    return program.instructions[static_cast<std::size_t>(v)].lane;
  };
  const Lane a = value(in.a), b = value(in.b), c = value(in.c);
  switch (in.op) {
    case ScalarOp::Load:
      return load_element(inputs[static_cast<std::size_t>(in.index)]->at(index), in.dtype);
    case ScalarOp::Constant:
      return with_lane(in.lane, [&](auto t) {
        using T = decltype(t);
        if constexpr (std::is_floating_point_v<T>) return Lane::of(static_cast<T>(in.immediate));
        return Lane::of(static_cast<T>(in.integer_immediate));
      });
    case ScalarOp::Iota:
      return Lane::of(static_cast<std::uint32_t>(index));
    case ScalarOp::Convert:
      return with_lane(type(in.a), [&](auto from) {
        return with_lane(in.lane, [&](auto to) {
          return Lane::of(converted<decltype(to)>(a.as<decltype(from)>()));
        });
      });
    case ScalarOp::Round: {
      std::uint64_t bits = 0;
      store_element(a, in.dtype, reinterpret_cast<std::byte*>(&bits));
      return load_element(reinterpret_cast<std::byte*>(&bits), in.dtype);
    }
    case ScalarOp::Select:
      return a.as<std::int32_t>() != 0 ? b : c;
    case ScalarOp::Philox:
      return Lane::of(philox_word(a.as<std::uint32_t>(), b.as<std::uint32_t>(),
                                  c.as<std::uint32_t>(), static_cast<std::uint32_t>(in.index)));
    default:
      return with_lane(type(in.a), [&](auto t) {
        using T = decltype(t);
        if constexpr (std::is_floating_point_v<T>) {
          return apply_float<T>(in.op, a.as<T>(), b.as<T>(), c.as<T>());
        } else {
          return apply_int<T>(in.op, a.as<T>(), b.as<T>(), c.as<T>());
        }
      });
  }
}

/// Every element of the outputs from the inputs. Inputs and outputs must not share memory.
inline void interpret(const ScalarProgram& program, std::vector<Operand*> inputs,
                      std::vector<Operand*> outputs) {
  for (std::int64_t index = 0; index < outputs[0]->size(); ++index) {
    std::vector<Lane> values;
    for (const ScalarInstruction& in : program.instructions) {
      if (in.op != ScalarOp::Store) {
        values.push_back(evaluate(program, in, values, inputs, index));
        continue;
      }
      const LaneType lane = program.instructions[static_cast<std::size_t>(in.a)].lane;
      Lane value = values[static_cast<std::size_t>(in.a)];
      value = with_lane(lane, [&](auto from) {
        const auto number = value.as<decltype(from)>();
        if (in.dtype == DType::Bool) return Lane::of<std::int32_t>(number != 0);
        return with_lane(lane_of(in.dtype),
                         [&](auto to) { return Lane::of(converted<decltype(to)>(number)); });
      });
      store_element(value, in.dtype, outputs[static_cast<std::size_t>(in.index)]->at(index));
      values.push_back({});
    }
  }
}

}  // namespace pando::testing
