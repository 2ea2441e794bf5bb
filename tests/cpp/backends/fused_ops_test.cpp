// The single ops of the fused machine on every SIMD target.
#include "pando/backends/cpu/fused/micro_op.hpp"
#include "tests/cpp/backends/fused_fixture.hpp"

namespace pando::fused_test {
namespace {

constexpr ScalarOp kIntOps[] = {ScalarOp::And, ScalarOp::Or, ScalarOp::Xor};
constexpr ScalarOp kFunctions[] = {
    ScalarOp::Exp,   ScalarOp::Log,   ScalarOp::Sqrt,    ScalarOp::Tanh, ScalarOp::Erf,
    ScalarOp::Erfc,  ScalarOp::Sin,   ScalarOp::Sigmoid, ScalarOp::Cos,  ScalarOp::Pow,
    ScalarOp::Log1p, ScalarOp::Expm1, ScalarOp::Atan};

double allowed_ulps(ScalarOp function) {
  if (function == ScalarOp::Sqrt) return 0;
  return function == ScalarOp::Erfc ? 6 : 4;
}

void check_op(ScalarOp op, LaneType lane, std::int64_t size, double ulps) {
  const DType dtype = dtype_of(lane);
  const int arity = scalar_arity(op);
  const KernelSpec spec = make_spec(
      {size}, std::vector<DType>(static_cast<std::size_t>(arity), dtype),
      [&](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
        const ScalarValue value =
            e.emit(op, in[0], arity > 1 ? in[1] : kNoValue, arity > 2 ? in[2] : kNoValue);
        return std::vector<std::pair<ScalarValue, DType>>{{value, dtype_of(e.lane(value))}};
      });
  Numbers numbers(static_cast<unsigned>(op) * 100 + static_cast<unsigned>(size));
  check(spec, numbers, ulps);
}

TEST_P(OnTarget, EveryOpGivesWhatTheInterpreterGives) {
  EXPECT_EQ(std::string(cpu::chain_machine().target), hwy::TargetName(GetParam()));
  for (std::int64_t size : {1, 7, 129, 1025}) {
    for (LaneType lane : kLanes) {
      for (ScalarOp op : kAnyOps) check_op(op, lane, size, 0);
      const bool is_float = lane == LaneType::F32 || lane == LaneType::F64;
      if (!is_float) {
        for (ScalarOp op : kIntOps) check_op(op, lane, size, 0);
        continue;
      }
      for (ScalarOp op : kFunctions) check_op(op, lane, size, allowed_ulps(op));
    }
  }
}

TEST_P(OnTarget, FunctionsAreAccurateOverTheirWholeRange) {
  struct Sweep {
    ScalarOp op;
    double low, high;
  };
  for (const Sweep& sweep :
       {Sweep{ScalarOp::Exp, -110, 95},     Sweep{ScalarOp::Log, 1e-38, 1e5},
        Sweep{ScalarOp::Log, 0.5, 2},       Sweep{ScalarOp::Tanh, -12, 12},
        Sweep{ScalarOp::Tanh, -0.1, 0.1},   Sweep{ScalarOp::Sigmoid, -104, 20},
        Sweep{ScalarOp::Erf, -5, 5},        Sweep{ScalarOp::Erf, -0.01, 0.01},
        Sweep{ScalarOp::Erfc, -5, 9},       Sweep{ScalarOp::Erfc, -0.01, 0.01},
        Sweep{ScalarOp::Log1p, -1, 4},      Sweep{ScalarOp::Log1p, -0.01, 0.01},
        Sweep{ScalarOp::Log1p, 0, 1e30},    Sweep{ScalarOp::Expm1, -20, 95},
        Sweep{ScalarOp::Expm1, -1, 1},      Sweep{ScalarOp::Expm1, -1e-3, 1e-3},
        Sweep{ScalarOp::Atan, -3, 3},       Sweep{ScalarOp::Atan, -1e-3, 1e-3},
        Sweep{ScalarOp::Atan, -1e10, 1e10}, Sweep{ScalarOp::Sin, -3, 3},
        Sweep{ScalarOp::Cos, -1.5, 1.5}}) {
    constexpr std::int64_t kSteps = 200000;
    const KernelSpec spec = make_spec({kSteps}, {DType::Float32},
                                      [&](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
                                        return std::vector<std::pair<ScalarValue, DType>>{
                                            {e.emit(sweep.op, in[0]), DType::Float32}};
                                      });
    Operand x(spec.inputs[0]), y(spec.outputs[0]), expected(spec.outputs[0]);
    for (std::int64_t i = 0; i < kSteps; ++i) {
      const double at = sweep.low + (sweep.high - sweep.low) * static_cast<double>(i) / kSteps;
      const auto value = static_cast<float>(at);
      std::memcpy(x.at(i), &value, sizeof value);
    }
    run(spec, 1, {&x, &y});
    testing::interpret(spec.scalar, {&x}, {&expected});
    expect_equal(y, expected, allowed_ulps(sweep.op), scalar_program_text(spec.scalar));
  }
}

TEST_P(OnTarget, SinAndCosFollowTheirPeriodAndLargeArguments) {
  const KernelSpec spec = make_spec({5000}, {DType::Float32},
                                    [&](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
                                      return std::vector<std::pair<ScalarValue, DType>>{
                                          {e.emit(ScalarOp::Sin, in[0]), DType::Float32},
                                          {e.emit(ScalarOp::Cos, in[0]), DType::Float32}};
                                    });
  Operand x(spec.inputs[0]), sine(spec.outputs[0]), cosine(spec.outputs[1]);
  for (std::int64_t i = 0; i < 5000; ++i) {
    const auto value = static_cast<float>(std::pow(1.01, static_cast<double>(i % 3000) - 500.0));
    std::memcpy(x.at(i), &value, sizeof value);
  }
  run(spec, 1, {&x, &sine, &cosine});
  for (std::int64_t i = 0; i < 5000; ++i) {
    const auto argument = testing::read<float>(x.at(i));
    // Near its zeros the error of a reduced argument is absolute.
    EXPECT_NEAR(testing::read<float>(sine.at(i)), std::sin(double(argument)), 2e-7) << argument;
    EXPECT_NEAR(testing::read<float>(cosine.at(i)), std::cos(double(argument)), 2e-7) << argument;
  }
}

TEST_P(OnTarget, SelectAndPowOfIntegers) {
  for (LaneType lane : kLanes) {
    const DType dtype = dtype_of(lane);
    const KernelSpec select =
        make_spec({261}, {DType::Bool, dtype, dtype},
                  [&](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
                    return std::vector<std::pair<ScalarValue, DType>>{
                        {e.emit(ScalarOp::Select, in[0], in[1], in[2]), dtype}};
                  });
    Numbers numbers(5);
    check(select, numbers);
    if (lane == LaneType::F32 || lane == LaneType::F64) continue;
    const KernelSpec pow = make_spec({261}, {dtype, DType::UInt8},
                                     [&](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
                                       const ScalarValue exponent = e.convert(in[1], lane);
                                       return std::vector<std::pair<ScalarValue, DType>>{
                                           {e.emit(ScalarOp::Pow, in[0], exponent), dtype}};
                                     });
    check(pow, numbers);
  }
}

/// Outside one integer dtype or another, or close to the end of its range.
const std::vector<double> kOutOfRange = {
    NAN,    -NAN,          HUGE_VAL, -HUGE_VAL, 1e30,   -1e30,   -0.75,
    -1.0,   127.75,        128.0,    -128.75,   -129.0, 255.75,  256.0,
    300.0,  32768.0,       -32769.,  65536.0,   0x1p31, -0x1p31, -0x1.8p31,
    0x1p32, 0x1.fffffep31, 0x1p63,   -0x1p63,   0x1p64, -0x1p64, 0x1.fffffep62};

TEST_P(OnTarget, EveryDTypeConvertsToEveryOther) {
  for (DType from : kStorage) {
    for (DType to : kStorage) {
      const KernelSpec spec =
          make_spec({137}, {from}, [&](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
            return std::vector<std::pair<ScalarValue, DType>>{{e.as_dtype(in[0], to), to},
                                                              {in[0], to}};
          });
      std::vector<Operand> operands;
      for (const auto* desc : {&spec.inputs[0], &spec.outputs[0], &spec.outputs[1],
                               &spec.outputs[0], &spec.outputs[1]}) {
        operands.emplace_back(*desc);
      }
      std::mt19937 engine(3);
      for (std::int64_t i = 0; i < 137; ++i) {
        const double value = static_cast<double>(engine() % 120) + 0.25 * double(engine() % 4);
        testing::Lane lane = testing::Lane::of(static_cast<std::int64_t>(value));
        if (lane_of(from) == LaneType::F32) lane = testing::Lane::of(static_cast<float>(value));
        if (lane_of(from) == LaneType::F64) lane = testing::Lane::of(value);
        if (from == DType::Bool) lane.bits = engine() % 2;
        if (is_floating_point(from) && static_cast<std::size_t>(i) < kOutOfRange.size()) {
          const double extreme = kOutOfRange[static_cast<std::size_t>(i)];
          lane = from == DType::Float64 ? testing::Lane::of(extreme)
                                        : testing::Lane::of(static_cast<float>(extreme));
        }
        testing::store_element(lane, from, operands[0].at(i));
      }
      run(spec, 1, {&operands[0], &operands[1], &operands[2]});
      testing::interpret(spec.scalar, {&operands[0]}, {&operands[3], &operands[4]});
      const std::string context = str_cat(from, " to ", to, "\n");
      expect_equal(operands[1], operands[3], 0, context);
      expect_equal(operands[2], operands[4], 0, context);
    }
  }
}

void check_every_half(DType format) {
  const KernelSpec spec =
      make_spec({1 << 16}, {format}, [&](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
        const ScalarValue third = e.emit(ScalarOp::Mul, in[0], e.constant(1.0 / 3.0));
        return std::vector<std::pair<ScalarValue, DType>>{
            {e.as_dtype(third, format), format}, {in[0], DType::Float32}, {in[0], format}};
      });
  Operand x(spec.inputs[0]), third(spec.outputs[0]), wide(spec.outputs[1]), same(spec.outputs[2]);
  for (int i = 0; i < 1 << 16; ++i) {
    const auto half = static_cast<std::uint16_t>(i);
    std::memcpy(x.at(i), &half, sizeof half);
  }
  run(spec, 1, {&x, &third, &wide, &same});
  for (int i = 0; i < 1 << 16; ++i) {
    const float value = half_precision_to_float(static_cast<std::uint16_t>(i), format);
    const float scaled = value * static_cast<float>(1.0 / 3.0);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(testing::read<float>(wide.at(i))));
      continue;
    }
    ASSERT_EQ(testing::read<float>(wide.at(i)), value);
    ASSERT_EQ(testing::read<std::uint16_t>(same.at(i)), i);
    ASSERT_EQ(testing::read<std::uint16_t>(third.at(i)), float_to_half_precision(scaled, format))
        << i;
  }
}

TEST_P(OnTarget, EveryHalfLoadsRoundsAndStoresExactly) {
  check_every_half(DType::Float16);
  check_every_half(DType::BFloat16);
}

INSTANTIATE_TEST_SUITE_P(Targets, OnTarget, testing::kSimdTargets, testing::target_name);

}  // namespace
}  // namespace pando::fused_test
