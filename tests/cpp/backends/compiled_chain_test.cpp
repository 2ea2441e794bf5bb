// Machine code of chains beside the plain interpreter of scalar programs.
#include "pando/backends/cpu/fused/compiled_chain.hpp"

#include <optional>

#include "pando/backends/cpu/fused/chain_functions.hpp"
#include "pando/backends/cpu/fused/register_plan.hpp"
#include "pando/backends/cpu/fused/uniform_division.hpp"
#include "pando/backends/cpu/processor.hpp"
#include "pando/base/float_state.hpp"
#include "tests/cpp/backends/fused_fixture.hpp"

namespace pando::fused_test {
namespace {

bool is_compiled(const KernelSpec& spec) {
  return cpu::make_fused_kernel(spec, 1, MachineCode::Always)->explain().find("machine code") !=
         std::string::npos;
}

bool machine_compiles() {
  return is_compiled(
      make_spec({64}, {DType::Float32}, [](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
        return std::vector<std::pair<ScalarValue, DType>>{
            {e.emit(ScalarOp::Add, in[0], in[0]), DType::Float32}};
      }));
}

constexpr ScalarOp kFloatOps[] = {
    ScalarOp::Add,   ScalarOp::Sub,   ScalarOp::Mul,       ScalarOp::Div,  ScalarOp::Min,
    ScalarOp::Max,   ScalarOp::Neg,   ScalarOp::Abs,       ScalarOp::Sign, ScalarOp::Sqrt,
    ScalarOp::Floor, ScalarOp::Ceil,  ScalarOp::RoundEven, ScalarOp::Fma,  ScalarOp::Equal,
    ScalarOp::Less,  ScalarOp::IsNan, ScalarOp::LessEqual, ScalarOp::IsInf};
constexpr ScalarOp kIntegerOps[] = {
    ScalarOp::Add, ScalarOp::Sub, ScalarOp::Mul,      ScalarOp::Min,  ScalarOp::Max,
    ScalarOp::Neg, ScalarOp::Abs, ScalarOp::Equal,    ScalarOp::Less, ScalarOp::And,
    ScalarOp::Or,  ScalarOp::Xor, ScalarOp::LessEqual};

/// Arithmetic on float32, float16 and int32, and sigmoid, with as many values alive as `reach`
/// says.
class RandomChain {
 public:
  explicit RandomChain(unsigned seed) : engine_(seed) {}

  KernelSpec make() {
    static const std::vector<Shape> kShapes = {{1},           {64},     {1000},      {3, 129},
                                               {9, 64},       {5, 640}, {2, 3, 130}, {4, 1, 600},
                                               {2, 1, 4, 65}, {8192}};
    shape_ = kShapes[pick(kShapes.size())];
    reach_ = pick(2) == 0 ? 3 : 40;
    KernelSpec spec;
    spec.kind = "Fused";
    ScalarEmitter emitter(spec.scalar);
    for (std::size_t i = 0, n = 1 + pick(6); i < n; ++i) {
      static constexpr DType kInputs[] = {DType::Float32, DType::Float32, DType::Float16,
                                          DType::BFloat16, DType::Int32};
      const DType dtype = kInputs[pick(std::size(kInputs))];
      spec.inputs.push_back({dtype, shape_, strides()});
      add(emitter.load(static_cast<int>(i), dtype), emitter);
    }
    for (double value : {0.75, -2.0, 0.0}) add(emitter.constant(value), emitter);
    add(emitter.integer_constant(3, LaneType::I32), emitter);
    for (std::size_t i = 0, n = 1 + pick(60); i < n; ++i) step(emitter);
    for (std::size_t i = 0, n = 1 + pick(4); i < n; ++i) {
      const LaneType lane = pick(3) == 0 ? LaneType::I32 : LaneType::F32;
      DType dtype = dtype_of(lane);
      if (lane == LaneType::F32 && pick(3) == 0) dtype = half_precision();
      emitter.store(static_cast<int>(i), any(lane), dtype);
      spec.outputs.push_back(OperandDesc::contiguous(dtype, shape_));
    }
    return spec;
  }

 private:
  std::size_t pick(std::size_t n) { return engine_() % n; }
  DType half_precision() { return pick(2) == 0 ? DType::Float16 : DType::BFloat16; }
  Strides strides() {
    Strides result = contiguous_strides(shape_);
    const std::size_t kind = pick(6);
    if (kind == 0) std::fill(result.begin(), result.end(), 0);
    if (kind == 1) result.back() = 0;
    if (kind == 2) result.front() = 0;
    return result;
  }
  void add(ScalarValue value, const ScalarEmitter& emitter) {
    (emitter.lane(value) == LaneType::F32 ? floats_ : integers_).push_back(value);
  }
  ScalarValue any(LaneType lane) {
    const auto& pool = lane == LaneType::F32 ? floats_ : integers_;
    return pool[pool.size() - 1 - pick(std::min(pool.size(), reach_))];
  }
  /// C++ says what these become as integers.
  static ScalarValue convertible(ScalarValue value, ScalarEmitter& e) {
    const ScalarValue number =
        e.emit(ScalarOp::Select, e.emit(ScalarOp::IsNan, value), e.constant(1.0), value);
    return e.emit(ScalarOp::Max, e.emit(ScalarOp::Min, number, e.constant(1e9)), e.constant(-1e9));
  }
  void step(ScalarEmitter& emitter) {
    const LaneType lane = pick(3) == 0 ? LaneType::I32 : LaneType::F32;
    const ScalarValue a = any(lane), b = any(lane), c = any(lane);
    switch (pick(8)) {
      case 0:
        return add(emitter.emit(ScalarOp::Select, any(LaneType::I32), a, b), emitter);
      case 1:
        if (lane == LaneType::F32) return add(emitter.as_dtype(a, half_precision()), emitter);
        return add(emitter.convert(a, LaneType::F32), emitter);
      case 2:
        if (lane == LaneType::F32) {
          return add(emitter.convert(convertible(a, emitter), LaneType::I32), emitter);
        }
        break;
      case 3:
        if (lane == LaneType::F32) return add(emitter.emit(ScalarOp::Sigmoid, a), emitter);
        break;
      default:
        break;
    }
    const ScalarOp op = lane == LaneType::F32 ? kFloatOps[pick(std::size(kFloatOps))]
                                              : kIntegerOps[pick(std::size(kIntegerOps))];
    const int arity = scalar_arity(op);
    add(emitter.emit(op, a, arity > 1 ? b : kNoValue, arity > 2 ? c : kNoValue), emitter);
  }

  std::mt19937 engine_;
  Shape shape_;
  std::size_t reach_ = 3;
  std::vector<ScalarValue> floats_, integers_;
};

/// On the widest registers, and on those of 256 bits.
class CompiledChain : public ::testing::TestWithParam<MachineCode> {};
INSTANTIATE_TEST_SUITE_P(Registers, CompiledChain,
                         ::testing::Values(MachineCode::Always, MachineCode::Always256),
                         [](const auto& each) {
                           return each.param == MachineCode::Always ? "Widest" : "Bits256";
                         });

/// The micro-ops are compared with the interpreter elsewhere; here even the signs of zeros count.
TEST_P(CompiledChain, RandomChainsGiveWhatTheMicroOpsGive) {
  int compiled = 0;
  constexpr unsigned kPrograms = 3000;
  for (unsigned seed = 0; seed < kPrograms; ++seed) {
    SCOPED_TRACE(str_cat("seed ", seed));
    const KernelSpec spec = RandomChain(seed).make();
    Numbers numbers(seed + 1);
    std::vector<Operand> inputs, outputs, expected;
    for (const OperandDesc& desc : spec.inputs) numbers.fill(inputs.emplace_back(desc));
    for (const OperandDesc& desc : spec.outputs) {
      outputs.emplace_back(desc);
      expected.emplace_back(desc);
    }
    std::vector<Operand*> operands, reference;
    for (Operand& input : inputs) operands.push_back(&input);
    reference = operands;
    for (Operand& output : outputs) operands.push_back(&output);
    for (Operand& output : expected) reference.push_back(&output);
    std::optional<FlushDenormals> flush;
    if (seed % 4 != 0) flush.emplace();  // as while a program runs
    run(spec, 1 + static_cast<int>(seed % 3), operands, GetParam());
    run(spec, 1, reference, MachineCode::Never);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      expect_equal(outputs[i], expected[i], 0, scalar_program_text(spec.scalar));
    }
    if (HasFatalFailure()) return;
    compiled += is_compiled(spec);
  }
  if (machine_compiles()) {
    EXPECT_GT(compiled, kPrograms * 3 / 4);
  }
}

TEST_P(CompiledChain, RandomChainsInPlaceGiveWhatTheyGiveApart) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(str_cat("seed ", seed));
    const KernelSpec spec = RandomChain(seed).make();
    Numbers numbers(seed);
    std::vector<Operand> shared;
    for (const OperandDesc& desc : spec.inputs) numbers.fill(shared.emplace_back(desc));
    std::vector<Operand> in_place = shared, outputs, others;
    for (const OperandDesc& desc : spec.outputs) {
      outputs.emplace_back(desc);
      others.emplace_back(desc);
    }
    std::vector<Operand*> apart, together, results;
    for (Operand& input : shared) apart.push_back(&input);
    for (Operand& input : in_place) together.push_back(&input);
    std::vector<bool> taken(in_place.size());
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      apart.push_back(&outputs[o]);
      Operand* place = &others[o];
      for (std::size_t i = 0; i < in_place.size(); ++i) {
        const OperandDesc &a = spec.inputs[i], &b = spec.outputs[o];
        const bool same = a.strides == b.strides && dtype_bytes(a.dtype) == dtype_bytes(b.dtype);
        if (same && a.dtype == b.dtype && !taken[i]) {
          place = &in_place[i];
          taken[i] = true;
          break;
        }
      }
      together.push_back(place);
      results.push_back(place);
    }
    const FlushDenormals flush;
    run(spec, 1, apart, MachineCode::Never);
    run(spec, 1 + static_cast<int>(seed % 2), together, GetParam());
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      expect_equal(*results[o], outputs[o], 0, scalar_program_text(spec.scalar));
    }
    if (HasFatalFailure()) return;
  }
}

/// Every pair of unusual numbers, and of each with a third.
TEST_P(CompiledChain, EveryOpOnUnusualNumbers) {
  const auto sweep = [](LaneType lane, const auto& ops) {
    const DType dtype = dtype_of(lane);
    for (ScalarOp op : ops) {
      const int arity = scalar_arity(op);
      const KernelSpec spec = make_spec(
          {4096}, {dtype, dtype, dtype}, [&](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
            const ScalarValue value =
                e.emit(op, in[0], arity > 1 ? in[1] : kNoValue, arity > 2 ? in[2] : kNoValue);
            return std::vector<std::pair<ScalarValue, DType>>{{value, dtype_of(e.lane(value))}};
          });
      Numbers numbers(static_cast<unsigned>(op));
      check(spec, numbers, 0, 1, GetParam());
      if (::testing::Test::HasFatalFailure()) return;
      if (machine_compiles()) {
        EXPECT_TRUE(is_compiled(spec)) << scalar_op_name(op);
      }
    }
  };
  sweep(LaneType::F32, kFloatOps);
  sweep(LaneType::I32, kIntegerOps);
}

/// Steps of several numbers, beside the tile op, from where it is 0 to where it is 1.
TEST_P(CompiledChain, SigmoidIsThatOfTheTileOp) {
  constexpr std::int64_t kSteps = 1 << 20;
  const KernelSpec spec = make_spec({kSteps}, {DType::Float32},
                                    [](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
                                      return std::vector<std::pair<ScalarValue, DType>>{
                                          {e.emit(ScalarOp::Sigmoid, in[0]), DType::Float32}};
                                    });
  Operand x(spec.inputs[0]), compiled(spec.outputs[0]), expected(spec.outputs[0]);
  constexpr float kUnusual[] = {-0.0f, 1e-40f, -1e-40f, 3.4e38f, -3.4e38f, INFINITY, -INFINITY};
  for (std::int64_t i = 0; i < kSteps; ++i) {
    const float value =
        i < std::ssize(kUnusual) ? kUnusual[i] : -120.0f + 160.0f * static_cast<float>(i) / kSteps;
    std::memcpy(x.at(i), &value, sizeof value);
  }
  run(spec, 1, {&x, &compiled}, GetParam());
  run(spec, 1, {&x, &expected}, MachineCode::Never);
  EXPECT_EQ(compiled.memory(), expected.memory());
  if (machine_compiles()) {
    EXPECT_TRUE(is_compiled(spec));
  }
}

/// Every value is needed again at the end: sigmoids beside more values than there are registers.
TEST_P(CompiledChain, SigmoidsWithSpilledValues) {
  const KernelSpec spec = make_spec(
      {640}, {DType::Float32, DType::Float32},
      [](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
        std::vector<ScalarValue> values = in;
        for (int i = 0; i < 12; ++i) {
          const ScalarValue sum = e.emit(ScalarOp::Sub, values.back(), values[values.size() - 2]);
          values.push_back(e.emit(ScalarOp::Sigmoid, sum));
        }
        ScalarValue total = values[0];
        for (std::size_t i = 1; i < values.size(); ++i) {
          total = e.emit(ScalarOp::Add, total, values[i]);
        }
        return std::vector<std::pair<ScalarValue, DType>>{{total, DType::Float32}};
      });
  Numbers numbers(17);
  Operand a(spec.inputs[0]), b(spec.inputs[1]), compiled(spec.outputs[0]),
      expected(spec.outputs[0]);
  numbers.fill(a);
  numbers.fill(b);
  run(spec, 1, {&a, &b, &compiled}, GetParam());
  run(spec, 1, {&a, &b, &expected}, MachineCode::Never);
  expect_equal(compiled, expected, 0, scalar_program_text(spec.scalar));
  if (machine_compiles()) {
    EXPECT_TRUE(is_compiled(spec));
  }
}

TEST_P(CompiledChain, NumbersBeyondIntegersBecomeWhatTheMicroOpMakesOfThem) {
  const KernelSpec spec =
      make_spec({4096}, {DType::Float32}, [](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
        return std::vector<std::pair<ScalarValue, DType>>{
            {e.convert(e.emit(ScalarOp::Mul, in[0], e.constant(1e9)), LaneType::I32),
             DType::Int32}};
      });
  Numbers numbers(3);
  Operand input(spec.inputs[0]), compiled(spec.outputs[0]), expected(spec.outputs[0]);
  numbers.fill(input);
  run(spec, 1, {&input, &compiled}, GetParam());
  run(spec, 1, {&input, &expected}, MachineCode::Never);
  EXPECT_EQ(compiled.memory(), expected.memory());
}

KernelSpec sum_of_inputs(std::size_t inputs) {
  return make_spec({256}, std::vector<DType>(inputs, DType::Float32),
                   [](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
                     ScalarValue sum = in[0];
                     for (std::size_t i = 1; i < in.size(); ++i) {
                       sum = e.emit(ScalarOp::Add, sum, in[i]);
                     }
                     return std::vector<std::pair<ScalarValue, DType>>{{sum, DType::Float32}};
                   });
}

TEST_P(CompiledChain, MoreOperandsThanThereArePointersAreLeftToTheMicroOps) {
  Numbers numbers(5);
  for (std::size_t inputs : {11, 12, 13, 20}) {
    const KernelSpec spec = sum_of_inputs(inputs);
    check(spec, numbers, 0, 1, GetParam());
    if (machine_compiles()) {
      EXPECT_EQ(is_compiled(spec), inputs <= 12) << inputs;
    }
  }
}

TEST_P(CompiledChain, ResultsLargerThanTheCaches) {
  const auto rows = static_cast<std::int64_t>(cpu::last_cache_bytes() / 4096);
  const Shape shape = {rows, 1024};
  const auto spec =
      make_spec(shape, {DType::Float32}, [](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
        return std::vector<std::pair<ScalarValue, DType>>{
            {e.emit(ScalarOp::Mul, in[0], e.constant(3.0)), DType::Float32}};
      });
  Operand input(spec.inputs[0]), output(spec.outputs[0]), expected(spec.outputs[0]);
  Numbers numbers(11);
  numbers.fill(input);
  run(spec, 1, {&input, &expected}, MachineCode::Never);
  run(spec, 2, {&input, &output}, GetParam());
  EXPECT_EQ(output.memory(), expected.memory());
  run(spec, 2, {&input, &input}, GetParam());
  EXPECT_EQ(input.memory(), expected.memory());
}

TEST(FusedKernel, FewElementsAreLeftToTheMicroOps) {
  const KernelSpec spec = sum_of_inputs(3);
  EXPECT_EQ(cpu::make_fused_kernel(spec, 1)->explain().find("machine code"), std::string::npos);
}

/// Input 0 in slot 0, output 0 in slot 1, and the body that is added.
class ChainBuilder {
 public:
  ChainBuilder() {
    cpu::FusedOp input;
    input.kind = cpu::FusedOp::Kind::Input;
    body_.program.ops.push_back(input);
    body_.slots.push_back(0);
    body_.moves = {true, true};
  }

  int add(cpu::ChainOp op, int a, int b = -1) {
    return append(cpu::FusedOp::Kind::Chain, op, a, b);
  }
  cpu::ChainBody store(int value) {
    body_.slots[static_cast<std::size_t>(
        append(cpu::FusedOp::Kind::StoreRaw, cpu::ChainOp::Move, value, -1))] = 1;
    body_.program.stores = {body_.program.body.back()};
    return body_;
  }

 private:
  int append(cpu::FusedOp::Kind kind, cpu::ChainOp chain, int a, int b) {
    cpu::FusedOp op;
    op.kind = kind;
    op.chain = chain;
    op.operands = {a, b, -1};
    body_.program.ops.push_back(op);
    body_.slots.push_back(-1);
    body_.program.body.push_back(static_cast<int>(body_.program.ops.size()) - 1);
    return body_.program.body.back();
  }

  cpu::ChainBody body_;
};

TEST(ChainTable, EqualChainsThatExistTogetherAreOne) {
  const auto applied = [](cpu::ChainOp op) {
    ChainBuilder chain;
    return chain.store(chain.add(op, 0, 0));
  };
  const auto first = cpu::compile_chain(applied(cpu::ChainOp::AddF), false);
  if (first == nullptr) GTEST_SKIP() << "this machine has no machine code";
  EXPECT_EQ(cpu::compile_chain(applied(cpu::ChainOp::AddF), false), first);
  EXPECT_NE(cpu::compile_chain(applied(cpu::ChainOp::MulF), false), first);
  EXPECT_NE(cpu::compile_chain(applied(cpu::ChainOp::AddF), true), first);
  const auto narrow =
      cpu::compile_chain(applied(cpu::ChainOp::AddF), false, cpu::RegisterWidth::Bits256);
  EXPECT_EQ(narrow->width(), cpu::RegisterWidth::Bits256);
  EXPECT_EQ(narrow == first, first->width() == cpu::RegisterWidth::Bits256);
}

/// Rows that fill some registers side by side, and those that do not fill all of them.
TEST(ChainRun, RowsOfEveryLength) {
  constexpr std::size_t kRows = 3, kRowStep = 256;
  ChainBuilder chain;
  const cpu::ChainBody body = chain.store(chain.add(cpu::ChainOp::MulF, 0, 0));
  for (const auto width : {cpu::RegisterWidth::Bits256, cpu::RegisterWidth::Bits512}) {
    const auto code = cpu::compile_chain(body, false, width);
    if (code == nullptr) GTEST_SKIP() << "this machine has no machine code";
    for (std::int64_t lanes = 0; lanes < 240; lanes += cpu::kChainRowLanes) {
      std::vector<float> input(kRows * kRowStep), output(input.size(), -1.0f), expected = output;
      for (std::size_t i = 0; i < input.size(); ++i) {
        input[i] = static_cast<float>(i);
        if (i % kRowStep < static_cast<std::size_t>(lanes)) expected[i] = input[i] * input[i];
      }
      const std::byte* slots[] = {reinterpret_cast<const std::byte*>(input.data()),
                                  reinterpret_cast<const std::byte*>(output.data())};
      const std::int64_t steps[] = {kRowStep * sizeof(float), kRowStep * sizeof(float)};
      code->run({.slots = slots, .lanes = lanes, .rows = kRows, .row_steps = steps});
      EXPECT_EQ(output, expected) << lanes << " lanes";
    }
  }
}

TEST(RegisterPlan, SpillsWhatIsUsedLast) {
  using cpu::ChainOp;
  using Kind = cpu::RegisterAction::Kind;
  // Five values of four registers are alive at once; the first one is needed last.
  ChainBuilder builder;
  std::vector<int> squares = {0};
  for (int i = 0; i < 5; ++i) squares.push_back(builder.add(ChainOp::Square, squares.back()));
  int sum = squares[5];
  for (int i = 4; i > 0; --i) {
    sum = builder.add(ChainOp::AddF, sum, squares[static_cast<std::size_t>(i)]);
  }
  const cpu::ChainBody chain = builder.store(sum);
  cpu::verify_program(chain.program);
  const cpu::RegisterPlan tight = cpu::plan_registers(chain, 4);
  EXPECT_EQ(tight.spill_places, 1);
  EXPECT_EQ(tight.registers_used, 4);
  int reloads = 0;
  for (const cpu::RegisterAction& action : tight.actions) reloads += action.kind == Kind::Reload;
  EXPECT_EQ(reloads, 1);
  const cpu::RegisterPlan wide = cpu::plan_registers(chain, 8);
  EXPECT_EQ(wide.spill_places, 0);
  EXPECT_EQ(wide.registers_used, 5);
}

TEST(FusedProgram, KeepsItsRulesInBothForms) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(str_cat("seed ", seed));
    cpu::FusedProgram program = cpu::build_program(RandomChain(seed).make());
    cpu::verify_program(program);
    cpu::FusedProgram combined = program;
    cpu::combine_ops(combined);
    cpu::verify_program(combined);
    EXPECT_LE(combined.body.size(), program.body.size());
    ASSERT_TRUE(cpu::is_chain(program));
    cpu::prepare_uniform_divisions(program);
    cpu::write_out_functions(program);
    cpu::verify_program(program);
    for (int id : program.body) EXPECT_NE(program.op(id).kind, cpu::FusedOp::Kind::Tile);
  }
}

TEST(FusedProgram, IsPrintedInTheOrderInWhichItRuns) {
  KernelSpec spec = make_spec({64}, {DType::Float32, DType::Float32},
                              [](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
                                const ScalarValue scale =
                                    e.emit(ScalarOp::Add, in[1], e.constant(1.0));
                                const ScalarValue scaled = e.emit(ScalarOp::Mul, in[0], scale);
                                return std::vector<std::pair<ScalarValue, DType>>{
                                    {e.emit(ScalarOp::Tanh, scaled), DType::Float32},
                                    {scaled, DType::Float16},
                                    {scaled, DType::BFloat16}};
                              });
  spec.inputs[1].strides = {0};
  const cpu::FusedProgram program = cpu::build_program(spec);
  EXPECT_EQ(cpu::program_text(program),
            "%0 = Input [0] element\n"
            "%1 = Input [1] uniform\n"
            "%2 = Constant [0] bits 1065353216 uniform\n"
            "%3 = AddF %1 %2 uniform\n"
            "%4 = MulF %0 %3 element\n"
            "StoreHalf [1] %4\n"
            "StoreBFloat16 [2] %4\n"
            "%5 = Tanh %4 element\n"
            "Store [0] %5\n");
}

TEST(FusedProgram, RefusesValuesThatAreMadeLater) {
  cpu::FusedProgram program = cpu::build_program(sum_of_inputs(3));
  std::swap(program.body[0], program.body[1]);
  EXPECT_THROW(cpu::verify_program(program), InternalError);
}

}  // namespace
}  // namespace pando::fused_test
