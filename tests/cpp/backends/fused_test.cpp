// The fused machine against a plain interpreter of scalar programs.
#include "pando/backends/cpu/fused/fused_kernel.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "hwy/targets.h"
#include "pando/backends/cpu/fused/micro_op.hpp"
#include "pando/base/error.hpp"
#include "tests/cpp/backends/scalar_interpreter.hpp"

namespace pando {
namespace {

using testing::Operand;

DType dtype_of(LaneType lane) {
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

constexpr double kInfinity = std::numeric_limits<double>::infinity();

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

void expect_equal(Operand& actual, Operand& expected, double ulps, const std::string& context) {
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

void run(const KernelSpec& spec, int threads, const std::vector<Operand*>& operands) {
  const auto kernel = cpu::make_fused_kernel(spec, threads);
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> scratch(kernel->scratch_bytes() / 64 + 1);
  std::vector<std::byte*> pointers;
  for (Operand* operand : operands) pointers.push_back(operand->data());
  kernel->run(pointers.data(), reinterpret_cast<std::byte*>(scratch.data()));
}

/// Runs the spec on fresh operands and compares with the interpreter.
void check(const KernelSpec& spec, Numbers& numbers, double ulps = 0, int threads = 1) {
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
  run(spec, threads, all);
  testing::interpret(spec.scalar, in, out);
  const std::string context =
      str_cat(scalar_program_text(spec.scalar), "shape ", shape_text(spec.outputs[0].shape), "\n");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    expect_equal(outputs[i], expected[i], ulps, context);
  }
}

/// Inputs and outputs are contiguous; `body` gives the values of the outputs.
KernelSpec make_spec(const Shape& shape, const std::vector<DType>& inputs,
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

constexpr ScalarOp kAnyOps[] = {
    ScalarOp::Add,  ScalarOp::Sub,       ScalarOp::Mul,   ScalarOp::Div,       ScalarOp::Rem,
    ScalarOp::Fma,  ScalarOp::Min,       ScalarOp::Max,   ScalarOp::Neg,       ScalarOp::Abs,
    ScalarOp::Sign, ScalarOp::Floor,     ScalarOp::Ceil,  ScalarOp::RoundEven, ScalarOp::Equal,
    ScalarOp::Less, ScalarOp::LessEqual, ScalarOp::IsNan, ScalarOp::IsInf};
constexpr ScalarOp kIntOps[] = {ScalarOp::And, ScalarOp::Or, ScalarOp::Xor};
constexpr ScalarOp kFunctions[] = {ScalarOp::Exp, ScalarOp::Log,  ScalarOp::Sqrt, ScalarOp::Tanh,
                                   ScalarOp::Erf, ScalarOp::Erfc, ScalarOp::Sin,  ScalarOp::Sigmoid,
                                   ScalarOp::Cos, ScalarOp::Pow};

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

constexpr LaneType kLanes[] = {LaneType::F32, LaneType::F64, LaneType::I32,
                               LaneType::I64, LaneType::U32, LaneType::U64};

/// Runs the tests on one SIMD target, where this machine has it.
class OnTarget : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    hwy::SetSupportedTargetsForTest(0);
    if (GetParam() != HWY_SCALAR && (hwy::SupportedTargets() & GetParam()) == 0) {
      GTEST_SKIP() << "this machine has no " << hwy::TargetName(GetParam());
    }
    select(GetParam());
  }
  void TearDown() override { select(0); }
  static void select(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

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
  for (const Sweep& sweep : {Sweep{ScalarOp::Exp, -110, 95}, Sweep{ScalarOp::Log, 1e-38, 1e5},
                             Sweep{ScalarOp::Log, 0.5, 2}, Sweep{ScalarOp::Tanh, -12, 12},
                             Sweep{ScalarOp::Tanh, -0.1, 0.1}, Sweep{ScalarOp::Sigmoid, -104, 20},
                             Sweep{ScalarOp::Erf, -5, 5}, Sweep{ScalarOp::Erf, -0.01, 0.01},
                             Sweep{ScalarOp::Erfc, -5, 9}, Sweep{ScalarOp::Erfc, -0.01, 0.01},
                             Sweep{ScalarOp::Sin, -3, 3}, Sweep{ScalarOp::Cos, -1.5, 1.5}}) {
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

constexpr DType kStorage[] = {DType::Bool,    DType::Int8,       DType::Int16,      DType::Int32,
                              DType::Int64,   DType::UInt8,      DType::UInt16,     DType::UInt32,
                              DType::UInt64,  DType::Float8_143, DType::Float8_152, DType::Float16,
                              DType::Float32, DType::Float64};

TEST_P(OnTarget, EveryDTypeConvertsToEveryOther) {
  for (DType from : kStorage) {
    for (DType to : kStorage) {
      const KernelSpec spec =
          make_spec({137}, {from}, [&](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
            return std::vector<std::pair<ScalarValue, DType>>{{e.as_dtype(in[0], to), to},
                                                              {in[0], to}};
          });
      // Floats to integers are defined in range only, so the numbers are small and positive.
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

TEST_P(OnTarget, EveryHalfLoadsRoundsAndStoresExactly) {
  const KernelSpec spec = make_spec(
      {1 << 16}, {DType::Float16}, [&](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
        const ScalarValue third = e.emit(ScalarOp::Mul, in[0], e.constant(1.0 / 3.0));
        return std::vector<std::pair<ScalarValue, DType>>{
            {e.as_dtype(third, DType::Float16), DType::Float16},
            {in[0], DType::Float32},
            {in[0], DType::Float16}};
      });
  Operand x(spec.inputs[0]), third(spec.outputs[0]), wide(spec.outputs[1]), same(spec.outputs[2]);
  for (int i = 0; i < 1 << 16; ++i) {
    const auto half = static_cast<std::uint16_t>(i);
    std::memcpy(x.at(i), &half, sizeof half);
  }
  run(spec, 1, {&x, &third, &wide, &same});
  for (int i = 0; i < 1 << 16; ++i) {
    const float value = half_to_float(static_cast<std::uint16_t>(i));
    const float scaled = value * static_cast<float>(1.0 / 3.0);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(testing::read<float>(wide.at(i))));
      continue;
    }
    ASSERT_EQ(testing::read<float>(wide.at(i)), value);
    ASSERT_EQ(testing::read<std::uint16_t>(same.at(i)), i);
    ASSERT_EQ(testing::read<std::uint16_t>(third.at(i)), float_to_half(scaled)) << i;
  }
}

/// A program of exact ops over random values, dtypes and layouts.
class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed) : engine_(seed) {}

  KernelSpec make() {
    static const std::vector<Shape> kShapes = {
        {},       {1},       {7},         {1023}, {1025},    {5, 64},  {3, 129},
        {40, 10}, {2, 3, 5}, {4, 1, 600}, {0},    {3, 0, 2}, {17, 33}, {2, 1, 4, 65}};
    shape_ = kShapes[pick(kShapes.size())];
    KernelSpec spec;
    spec.kind = "Fused";
    ScalarEmitter emitter(spec.scalar);
    for (std::size_t i = 0, n = 1 + pick(4); i < n; ++i) {
      static constexpr DType kInputs[] = {DType::Float32, DType::Float32, DType::Float16,
                                          DType::Float64, DType::Int32,   DType::Bool,
                                          DType::UInt32,  DType::Int64,   DType::Float8_143};
      const DType dtype = kInputs[pick(std::size(kInputs))];
      spec.inputs.push_back({dtype, shape_, strides(true)});
      add(emitter.load(static_cast<int>(i), dtype), emitter);
    }
    add(emitter.constant(0.75), emitter);
    add(emitter.integer_constant(3, LaneType::I32), emitter);
    if (pick(4) == 0) add(emitter.iota(), emitter);
    if (pick(4) == 0) {
      add(emitter.philox(emitter.integer_constant(11, LaneType::U32),
                         emitter.integer_constant(12, LaneType::U32), emitter.iota(), 7),
          emitter);
    }
    for (std::size_t i = 0, n = 2 + pick(30); i < n; ++i) step(emitter);
    for (std::size_t i = 0, n = 1 + pick(3); i < n; ++i) store(spec, emitter);
    return spec;
  }

 private:
  std::size_t pick(std::size_t n) { return engine_() % n; }

  /// C order, permuted, reversed; inputs also broadcast.
  Strides strides(bool input) {
    Strides result = contiguous_strides(shape_);
    const std::size_t kind = pick(input ? 7 : 3);
    if (kind == 1 && shape_.size() > 1) {  // first dimension contiguous
      std::int64_t stride = 1;
      for (std::size_t d = 0; d < shape_.size(); ++d) {
        result[d] = stride;
        stride *= std::max<std::int64_t>(1, shape_[d]);
      }
    }
    if (kind == 2) {  // every second element
      for (std::int64_t& s : result) s *= 2;
    }
    if (kind == 3) std::fill(result.begin(), result.end(), 0);
    if (kind == 4 && !shape_.empty()) result.back() = 0;
    if (kind == 5 && !shape_.empty()) result.front() = 0;
    if (kind == 6 && !shape_.empty()) result.back() = -result.back();
    return result;
  }

  void add(ScalarValue value, const ScalarEmitter& emitter) {
    pools_[static_cast<std::size_t>(emitter.lane(value))].push_back(value);
  }
  ScalarValue any(LaneType lane) {
    const auto& pool = pools_[static_cast<std::size_t>(lane)];
    // Mostly recent values, so that there are chains.
    const std::size_t reach = std::min<std::size_t>(pool.size(), pick(3) == 0 ? pool.size() : 3);
    return pool[pool.size() - 1 - pick(reach)];
  }

  void step(ScalarEmitter& emitter) {
    LaneType lane = pick(3) != 0 ? LaneType::F32 : kLanes[pick(std::size(kLanes))];
    if (pools_[static_cast<std::size_t>(lane)].empty()) lane = LaneType::F32;
    const ScalarValue a = any(lane), b = any(lane), c = any(lane);
    switch (pick(10)) {
      case 0:
        add(emitter.emit(ScalarOp::Select, any(LaneType::I32), a, b), emitter);
        return;
      case 1:
        if (lane == LaneType::I32) add(emitter.convert(a, LaneType::F32), emitter);
        if (lane == LaneType::F32) add(emitter.as_dtype(a, DType::Float16), emitter);
        return;
      case 2:
        if (lane == LaneType::F32) add(emitter.convert(a, LaneType::F64), emitter);
        return;
      default:
        break;
    }
    static constexpr ScalarOp kOps[] = {ScalarOp::Add, ScalarOp::Sub, ScalarOp::Mul,
                                        ScalarOp::Add, ScalarOp::Sub, ScalarOp::Mul};
    const ScalarOp op =
        pick(2) == 0 ? kOps[pick(std::size(kOps))] : kAnyOps[pick(std::size(kAnyOps))];
    const int arity = scalar_arity(op);
    add(emitter.emit(op, a, arity > 1 ? b : kNoValue, arity > 2 ? c : kNoValue), emitter);
  }

  void store(KernelSpec& spec, ScalarEmitter& emitter) {
    LaneType lane = LaneType::F32;
    for (int tries = 0; tries < 3; ++tries) {
      const LaneType wanted = kLanes[pick(std::size(kLanes))];
      if (!pools_[static_cast<std::size_t>(wanted)].empty()) lane = wanted;
    }
    if (pools_[static_cast<std::size_t>(lane)].empty()) lane = LaneType::I32;
    DType dtype = dtype_of(lane);
    if (lane == LaneType::F32 && pick(2) == 0) dtype = DType::Float16;
    if (lane == LaneType::I32 && pick(3) == 0) dtype = DType::Bool;
    if (lane == LaneType::I32 && pick(3) == 0) dtype = DType::Int8;
    emitter.store(static_cast<int>(spec.outputs.size()), any(lane), dtype);
    spec.outputs.push_back({dtype, shape_, strides(false)});
  }

  std::mt19937 engine_;
  Shape shape_;
  std::vector<ScalarValue> pools_[6];
};

TEST_P(OnTarget, RandomProgramsGiveWhatTheInterpreterGives) {
  for (unsigned seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(str_cat("seed ", seed));
    const KernelSpec spec = RandomProgram(seed).make();
    Numbers numbers(seed + 1);
    check(spec, numbers, 0, 1 + static_cast<int>(seed % 3));
    if (HasFatalFailure()) {
      ADD_FAILURE() << cpu::make_fused_kernel(spec, 1)->explain();
      return;
    }
  }
}

TEST_P(OnTarget, PhiloxMatchesItsDefinition) {
  for (const Shape& shape : {Shape{5}, Shape{1024}, Shape{3, 1000}, Shape{7, 64, 5}}) {
    KernelSpec spec;
    spec.kind = "Fused";
    for (int i = 0; i < 2; ++i) {
      spec.inputs.push_back({DType::UInt32, shape, Strides(shape.size(), 0)});
    }
    spec.inputs.push_back(OperandDesc::contiguous(DType::UInt32, shape));
    ScalarEmitter e(spec.scalar);
    const ScalarValue key0 = e.load(0, DType::UInt32), key1 = e.load(1, DType::UInt32);
    e.store(0, e.philox(key0, key1, e.iota(), 3), DType::UInt32);
    // A key that is computed, and an index that is not the element's.
    e.store(1, e.philox(e.emit(ScalarOp::Add, key0, key1), key1, e.iota(), 1), DType::UInt32);
    e.store(2, e.philox(key0, key1, e.load(2, DType::UInt32), 2), DType::UInt32);
    for (int i = 0; i < 3; ++i)
      spec.outputs.push_back(OperandDesc::contiguous(DType::UInt32, shape));
    Numbers numbers(9);
    check(spec, numbers);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, OnTarget,
                         ::testing::Values(HWY_SCALAR, HWY_SSE4, HWY_AVX2, HWY_AVX3),
                         [](const auto& target) {
                           return std::string(hwy::TargetName(target.param));
                         });

TEST(Fused, ProductsAndSumsKeepTheirTwoRoundings) {
  // With one rounding, the second would give -2^-24 * 2^-24.
  const KernelSpec spec =
      make_spec({100}, {DType::Float32, DType::Float32},
                [&](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
                  const ScalarValue product = e.emit(ScalarOp::Mul, in[0], in[1]);
                  return std::vector<std::pair<ScalarValue, DType>>{
                      {e.emit(ScalarOp::Sub, product, e.constant(1.0)), DType::Float32}};
                });
  Operand a(spec.inputs[0]), b(spec.inputs[1]), out(spec.outputs[0]);
  for (int i = 0; i < 100; ++i) {
    const float x = 1.0f + 0x1p-23f, y = 1.0f - 0x1p-23f;
    std::memcpy(a.at(i), &x, 4);
    std::memcpy(b.at(i), &y, 4);
  }
  run(spec, 1, {&a, &b, &out});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(testing::read<float>(out.at(i)), 0.0f);
  EXPECT_NE(cpu::make_fused_kernel(spec, 1)->explain().find("MulThenSub"), std::string::npos);
}

TEST(Fused, OutputsMayBeTheMemoryOfInputs) {
  for (std::int64_t size : {1, 7, 64, 1023, 1025, 100003}) {
    // Output 0 takes input 0's memory and is written before input 0 is read for the last time.
    const KernelSpec spec = make_spec(
        {size}, {DType::Float32, DType::Float16, DType::Float32},
        [&](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
          const ScalarValue sum = e.emit(ScalarOp::Add, in[0], in[2]);
          const ScalarValue m = e.as_dtype(e.emit(ScalarOp::Mul, in[1], sum), DType::Float16);
          const ScalarValue later =
              e.emit(ScalarOp::Div, e.emit(ScalarOp::Exp, sum), e.emit(ScalarOp::Sub, m, in[0]));
          return std::vector<std::pair<ScalarValue, DType>>{
              {sum, DType::Float32}, {m, DType::Float16}, {later, DType::Float32}};
        });
    std::vector<Operand> apart, shared;
    for (auto* operands : {&apart, &shared}) {
      Numbers numbers(4, false);
      for (const OperandDesc& desc : spec.inputs) numbers.fill(operands->emplace_back(desc));
      for (const OperandDesc& desc : spec.outputs) operands->emplace_back(desc);
    }
    for (int threads : {1, 2}) {
      std::vector<Operand> in_place = shared;
      run(spec, threads, {&apart[0], &apart[1], &apart[2], &apart[3], &apart[4], &apart[5]});
      run(spec, threads,
          {&in_place[0], &in_place[1], &in_place[2], &in_place[0], &in_place[1], &in_place[2]});
      for (std::size_t i = 0; i < 3; ++i) {
        expect_equal(in_place[i], apart[i + 3], 0, str_cat("size ", size, " output ", i, "\n"));
      }
    }
  }
}

TEST(Fused, ThreadsDoNotChangeResults) {
  const Shape shape = {101, 1001};
  KernelSpec spec;
  spec.kind = "Fused";
  spec.inputs = {OperandDesc::contiguous(DType::Float32, shape),
                 {DType::Float32, shape, {0, 1}},
                 {DType::Float32, shape, {1, 101}},
                 {DType::UInt32, shape, {0, 0}}};
  spec.outputs = {OperandDesc::contiguous(DType::Float32, shape),
                  OperandDesc::contiguous(DType::Float16, shape)};
  ScalarEmitter e(spec.scalar);
  const ScalarValue sum =
      e.emit(ScalarOp::Add, e.load(0, DType::Float32), e.load(1, DType::Float32));
  const ScalarValue y =
      e.emit(ScalarOp::Tanh, e.emit(ScalarOp::Mul, sum, e.load(2, DType::Float32)));
  const ScalarValue key = e.load(3, DType::UInt32);
  const ScalarValue word = e.convert(e.philox(key, key, e.iota(), 1), LaneType::F32);
  e.store(0, y, DType::Float32);
  e.store(1, e.as_dtype(e.emit(ScalarOp::Mul, word, y), DType::Float16), DType::Float16);
  std::vector<Operand> inputs;
  Numbers numbers(8);
  for (const OperandDesc& desc : spec.inputs) numbers.fill(inputs.emplace_back(desc));
  std::vector<std::vector<std::byte>> results;
  for (int threads : {1, 2, 3, 7}) {
    Operand first(spec.outputs[0]), second(spec.outputs[1]);
    run(spec, threads, {&inputs[0], &inputs[1], &inputs[2], &inputs[3], &first, &second});
    results.push_back(first.memory());
    results.back().insert(results.back().end(), second.memory().begin(), second.memory().end());
    EXPECT_EQ(results.back(), results.front()) << threads << " threads";
  }
}

TEST(Fused, UnsupportedProgramsAreRefused) {
  const auto add_of = [](DType dtype, ScalarOp op) {
    KernelSpec spec;
    spec.kind = "Fused";
    spec.inputs = spec.outputs = {OperandDesc::contiguous(dtype, {4})};
    ScalarEmitter e(spec.scalar);
    e.store(0, e.emit(op, e.load(0, dtype), e.load(0, dtype)), dtype);
    return spec;
  };
  EXPECT_THROW(cpu::make_fused_kernel(add_of(DType::Complex64, ScalarOp::Add), 1), NotSupported);
  EXPECT_THROW(cpu::make_fused_kernel(add_of(DType::Float32, ScalarOp::Xor), 1), NotSupported);
  EXPECT_THROW(cpu::make_fused_kernel(add_of(DType::Int32, ScalarOp::Exp), 1), NotSupported);
}

KernelSpec copy_spec(DType dtype, const Shape& shape, const Strides& from, const Strides& to) {
  KernelSpec spec;
  spec.kind = "Copy";
  spec.inputs = {{dtype, shape, from}};
  spec.outputs = {{dtype, shape, to}};
  return spec;
}

TEST(Copy, MovesEveryElementWhateverTheStrides) {
  struct Case {
    Shape shape;
    Strides from, to;
  };
  const std::vector<Case> cases = {
      {{}, {}, {}},
      {{0, 3}, {3, 1}, {3, 1}},
      {{1000}, {1}, {1}},
      {{1000}, {-1}, {2}},
      {{70, 90}, {1, 70}, {90, 1}},
      {{70, 90}, {90, 1}, {1, 70}},
      {{64, 64}, {1, 64}, {64, 1}},
      {{5, 33, 65}, {33 * 65, 1, 33}, {33 * 65, 65, 1}},
      {{3, 4, 5, 6}, {1, 3, 12, 60}, {120, 30, 6, 1}},
      {{8, 100}, {0, 1}, {100, 1}},
      {{100, 8}, {1, 0}, {8, 1}},
      {{300, 301}, {602, 2}, {301, 1}},
  };
  for (DType dtype :
       {DType::Int8, DType::Float16, DType::Float32, DType::Float64, DType::Complex128}) {
    for (const Case& c : cases) {
      for (int threads : {1, 2}) {
        const KernelSpec spec = copy_spec(dtype, c.shape, c.from, c.to);
        Operand from(spec.inputs[0]), to(spec.outputs[0]);
        const auto bytes = dtype_bytes(dtype);
        std::mt19937 engine(1);
        for (std::int64_t i = 0; i < from.size(); ++i) {
          for (std::size_t k = 0; k < bytes; ++k) from.at(i)[k] = std::byte(engine() % 256);
        }
        run(spec, threads, {&from, &to});
        for (std::int64_t i = 0; i < from.size(); ++i) {
          ASSERT_EQ(std::memcmp(from.at(i), to.at(i), bytes), 0)
              << dtype << " " << shape_text(c.shape) << " element " << i;
        }
      }
    }
  }
}

TEST(Fill, WritesTheValueInTheOutputsDType) {
  for (DType dtype : kStorage) {
    for (const Strides& strides : {Strides{40, 1}, Strides{1, 50}, Strides{80, 2}}) {
      KernelSpec spec;
      spec.kind = "Fill";
      spec.attributes.set("value", 3.0);
      spec.outputs = {{dtype, {50, 40}, strides}};
      Operand out(spec.outputs[0]), expected(spec.outputs[0]);
      run(spec, 2, {&out});
      testing::Lane lane = testing::Lane::of(std::int64_t{dtype == DType::Bool ? 1 : 3});
      if (lane_of(dtype) == LaneType::F32) lane = testing::Lane::of(3.0f);
      if (lane_of(dtype) == LaneType::F64) lane = testing::Lane::of(3.0);
      for (std::int64_t i = 0; i < out.size(); ++i) {
        testing::store_element(lane, dtype, expected.at(i));
      }
      EXPECT_EQ(out.memory(), expected.memory()) << dtype;
    }
  }
}

}  // namespace
}  // namespace pando
