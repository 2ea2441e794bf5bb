// What the tests of the fused machine share: random numbers, and runs beside a plain interpreter of
// scalar programs.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "pando/backends/cpu/fused/fused_kernel.hpp"
#include "pando/base/error.hpp"
#include "tests/cpp/backends/scalar_interpreter.hpp"
#include "tests/cpp/backends/simd_targets.hpp"

namespace pando::fused_test {

using pando::testing::Operand;

inline DType dtype_of(LaneType lane) {
  switch (lane) {
    case LaneType::F32:
      return DType::Float32;
    case LaneType::F64:
      return DType::Float64;
    case LaneType::I32:
      return DType::Int32;
    case LaneType::I64:
      return DType::Int64;
    case LaneType::U32:
      return DType::UInt32;
    case LaneType::U64:
      return DType::UInt64;
  }
  return DType::Float32;
}

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Numbers in [-8, 8] and, with `special`, now and then an unusual one.
class Numbers {
 public:
  explicit Numbers(unsigned seed, bool special = true) : engine_(seed), special_(special) {}

  double real() {
    static constexpr double kSpecial[] = {
        kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN(),
        0.0,       -0.0,       1.0,
        -1.0,      1e-40,      -1e-42,
        3.4e38,    -3e38,      88.8,
        -88.8,     104.5,      -103.5,
        2.5,       -0.5};
    if (special_ && engine_() % 8 == 0) return kSpecial[engine_() % std::size(kSpecial)];
    return std::uniform_real_distribution<double>(-8.0, 8.0)(engine_);
  }
  std::uint64_t integer() {
    static constexpr std::int64_t kSpecial[] = {0,         1,         -1,       INT32_MIN,
                                                INT32_MAX, INT64_MIN, INT64_MAX};
    if (special_ && engine_() % 8 == 0) {
      return static_cast<std::uint64_t>(kSpecial[engine_() % std::size(kSpecial)]);
    }
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(engine_() % 17) - 8);
  }
  void fill(Operand& operand) {
    for (std::int64_t i = 0; i < operand.size(); ++i) {
      const DType dtype = operand.dtype();
      testing::Lane lane;
      if (lane_of(dtype) == LaneType::F32) {
        lane = testing::Lane::of(static_cast<float>(real()));
      } else if (lane_of(dtype) == LaneType::F64) {
        lane = testing::Lane::of(real());
      } else {
        lane.bits = dtype == DType::Bool ? engine_() % 2 : integer();
      }
      testing::store_element(lane, dtype, operand.at(i));
    }
  }

 private:
  std::mt19937 engine_;
  bool special_;
};

/// Distance in units of the last place; NaN equals NaN.
template <class Int, class Float>
double ulp_distance(Float x, Float y) {
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) == std::isnan(y) ? 0 : kInfinity;
  const auto ordered = [](Float v) {
    Int bits;
    std::memcpy(&bits, &v, sizeof v);
    return bits < 0 ? std::numeric_limits<Int>::min() - bits : bits;
  };
  return std::fabs(static_cast<double>(ordered(x)) - static_cast<double>(ordered(y)));
}

inline void expect_equal(Operand& actual, Operand& expected, double ulps,
                         const std::string& context) {
  for (std::int64_t i = 0; i < expected.size(); ++i) {
    const testing::Lane x = testing::load_element(actual.at(i), actual.dtype());
    const testing::Lane y = testing::load_element(expected.at(i), expected.dtype());
    switch (lane_of(expected.dtype())) {
      case LaneType::F32: {
        const auto wanted = y.as<float>();
        // A denormal may be flushed.
        const bool flushed = x.as<float>() == 0 && std::fpclassify(wanted) == FP_SUBNORMAL;
        const double distance = flushed ? 0 : ulp_distance<std::int32_t>(x.as<float>(), wanted);
        ASSERT_LE(distance, ulps) << context << "element " << i << ": " << x.as<float>()
                                  << " instead of " << y.as<float>();
        break;
      }
      case LaneType::F64:
        ASSERT_LE((ulp_distance<std::int64_t>(x.as<double>(), y.as<double>())), ulps)
            << context << "element " << i << ": " << x.as<double>() << " instead of "
            << y.as<double>();
        break;
      default:
        ASSERT_EQ(x.bits, y.bits) << context << "element " << i;
    }
  }
}

inline void run(const KernelSpec& spec, int threads, const std::vector<Operand*>& operands,
                MachineCode machine_code = MachineCode::Automatic) {
  const auto kernel = cpu::make_fused_kernel(spec, threads, machine_code);
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> scratch(kernel->scratch_bytes() / 64 + 1);
  std::vector<std::byte*> pointers;
  for (Operand* operand : operands) pointers.push_back(operand->data());
  kernel->run(pointers.data(), reinterpret_cast<std::byte*>(scratch.data()));
}

/// Runs the spec on fresh operands and compares with the interpreter.
inline void check(const KernelSpec& spec, Numbers& numbers, double ulps = 0, int threads = 1,
                  MachineCode machine_code = MachineCode::Automatic) {
  std::vector<Operand> inputs, outputs, expected;
  for (const OperandDesc& desc : spec.inputs) numbers.fill(inputs.emplace_back(desc));
  for (const OperandDesc& desc : spec.outputs) {
    outputs.emplace_back(desc);
    expected.emplace_back(desc);
  }
  std::vector<Operand*> all, in, out;
  for (Operand& input : inputs) all.push_back(&input), in.push_back(&input);
  for (Operand& output : outputs) all.push_back(&output);
  for (Operand& output : expected) out.push_back(&output);
  run(spec, threads, all, machine_code);
  testing::interpret(spec.scalar, in, out);
  const std::string context =
      str_cat(scalar_program_text(spec.scalar), "shape ", shape_text(spec.outputs[0].shape), "\n");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    expect_equal(outputs[i], expected[i], ulps, context);
  }
}

/// Inputs and outputs are contiguous; `body` gives the values of the outputs.
inline KernelSpec make_spec(const Shape& shape, const std::vector<DType>& inputs,
                            const std::function<std::vector<std::pair<ScalarValue, DType>>(
                                ScalarEmitter&, const std::vector<ScalarValue>&)>& body) {
  KernelSpec spec;
  spec.kind = "Fused";
  ScalarEmitter emitter(spec.scalar);
  std::vector<ScalarValue> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    spec.inputs.push_back(OperandDesc::contiguous(inputs[i], shape));
    values.push_back(emitter.load(static_cast<int>(i), inputs[i]));
  }
  for (const auto& [value, dtype] : body(emitter, values)) {
    emitter.store(static_cast<int>(spec.outputs.size()), value, dtype);
    spec.outputs.push_back(OperandDesc::contiguous(dtype, shape));
  }
  return spec;
}

/// Those that work on every type of lane.
inline constexpr ScalarOp kAnyOps[] = {
    ScalarOp::Add,  ScalarOp::Sub,       ScalarOp::Mul,   ScalarOp::Div,       ScalarOp::Rem,
    ScalarOp::Fma,  ScalarOp::Min,       ScalarOp::Max,   ScalarOp::Neg,       ScalarOp::Abs,
    ScalarOp::Sign, ScalarOp::Floor,     ScalarOp::Ceil,  ScalarOp::RoundEven, ScalarOp::Equal,
    ScalarOp::Less, ScalarOp::LessEqual, ScalarOp::IsNan, ScalarOp::IsInf};

inline constexpr DType kStorage[] = {
    DType::Bool,       DType::Int8,    DType::Int16,    DType::Int32,   DType::Int64,
    DType::UInt8,      DType::UInt16,  DType::UInt32,   DType::UInt64,  DType::Float8_143,
    DType::Float8_152, DType::Float16, DType::BFloat16, DType::Float32, DType::Float64};

inline constexpr LaneType kLanes[] = {LaneType::F32, LaneType::F64, LaneType::I32,
                                      LaneType::I64, LaneType::U32, LaneType::U64};

class OnTarget : public testing::SimdTargetTest {};

}  // namespace pando::fused_test
