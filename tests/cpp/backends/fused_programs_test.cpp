// Whole programs of the fused machine.
#include "pando/backends/cpu/fused/micro_op.hpp"
#include "tests/cpp/backends/fused_fixture.hpp"

namespace pando::fused_test {
namespace {

/// A program of exact ops over random values, dtypes and layouts.
class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed) : engine_(seed) {}

  KernelSpec make() {
    static const std::vector<Shape> kShapes = {
        {},       {1},           {7},       {1023},      {1025},       {5, 64},
        {3, 129}, {40, 10},      {2, 3, 5}, {4, 1, 600}, {0},          {3, 0, 2},
        {17, 33}, {2, 1, 4, 65}, {96, 20},  {2, 63, 24}, {3, 2, 50, 8}};
    shape_ = kShapes[pick(kShapes.size())];
    KernelSpec spec;
    spec.kind = "Fused";
    ScalarEmitter emitter(spec.scalar);
    for (std::size_t i = 0, n = 1 + pick(4); i < n; ++i) {
      static constexpr DType kInputs[] = {
          DType::Float32, DType::Float32, DType::Float16, DType::BFloat16, DType::Float64,
          DType::Int32,   DType::Bool,    DType::UInt32,  DType::Int64,    DType::Float8_143};
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
  DType half_precision() { return pick(2) == 0 ? DType::Float16 : DType::BFloat16; }

  /// C order, permuted, reversed; inputs also broadcast, from row to row too.
  Strides strides(bool input) {
    Strides result = contiguous_strides(shape_);
    const std::size_t kind = pick(input ? 8 : 3);
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
    if (kind == 7 && shape_.size() > 1) result.end()[-2] = 0;
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
        if (lane == LaneType::F32) add(emitter.as_dtype(a, half_precision()), emitter);
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
    if (lane == LaneType::F32 && pick(2) == 0) dtype = half_precision();
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

TEST_P(OnTarget, NumbersThatAreDrawnAreWorkForThreads) {
  for (const std::int64_t count : {100, 50000}) {
    KernelSpec spec;
    spec.kind = "Fused";
    spec.inputs = {{DType::UInt32, {count}, {0}}};
    spec.outputs = {OperandDesc::contiguous(DType::UInt32, {count})};
    ScalarEmitter e(spec.scalar);
    const ScalarValue key = e.load(0, DType::UInt32);
    e.store(0, e.philox(key, key, e.iota(), 1), DType::UInt32);
    const std::string text = cpu::make_fused_kernel(spec, 2)->explain();
    EXPECT_NE(text.find(count > 100 ? " 2 threads" : " 1 threads"), std::string::npos) << text;
  }
}

/// Dropout of x + bias, with a residual: rows that do not end where groups of numbers do.
TEST_P(OnTarget, NumbersAreDrawnBesideRowsThatRepeat) {
  for (const Shape& shape :
       {Shape{5, 1500}, Shape{40, 2048}, Shape{300, 1100}, Shape{3, 4, 1030}}) {
    KernelSpec spec;
    spec.kind = "Fused";
    Strides bias(shape.size(), 0);
    bias.back() = 1;
    spec.inputs = {OperandDesc::contiguous(DType::Float32, shape),
                   {DType::Float32, shape, bias},
                   OperandDesc::contiguous(DType::Float32, shape),
                   {DType::UInt32, shape, Strides(shape.size(), 0)}};
    ScalarEmitter e(spec.scalar);
    const ScalarValue sum =
        e.emit(ScalarOp::Add, e.load(0, DType::Float32), e.load(1, DType::Float32));
    const ScalarValue key = e.load(3, DType::UInt32);
    const ScalarValue word = e.convert(e.philox(key, key, e.iota(), 1), LaneType::I32);
    const ScalarValue keep =
        e.emit(ScalarOp::LessEqual, e.integer_constant(-1000, LaneType::I32), word);
    const ScalarValue kept = e.emit(ScalarOp::Select, keep, sum, e.constant(0.0));
    e.store(0, e.emit(ScalarOp::Add, kept, e.load(2, DType::Float32)), DType::Float32);
    spec.outputs = {OperandDesc::contiguous(DType::Float32, shape)};
    for (int threads : {1, 2, 3}) {
      Numbers numbers(10);
      check(spec, numbers, 0, threads);
    }
  }
}

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

TEST(Fused, AnInputOfOtherStridesWhereTheyDoNotCountMayBeAnOutput) {
  // Written before the input is read for the last time; 200 elements are three blocks and a tail.
  KernelSpec spec = make_spec(
      {200, 1, 1}, {DType::Float32, DType::Float32},
      [](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
        const ScalarValue half = e.emit(ScalarOp::Mul, in[0], e.constant(0.5));
        return std::vector<std::pair<ScalarValue, DType>>{
            {half, DType::Float32}, {e.emit(ScalarOp::Add, in[1], in[0]), DType::Float32}};
      });
  spec.inputs[0].strides = {1, 200, 7};
  Numbers numbers(12, false);
  std::vector<Operand> operands;
  for (const OperandDesc& desc : spec.inputs) numbers.fill(operands.emplace_back(desc));
  for (const OperandDesc& desc : spec.outputs) operands.emplace_back(desc);
  std::vector<Operand> in_place = operands;
  for (const MachineCode machine_code :
       {MachineCode::Never, MachineCode::Always, MachineCode::Always256}) {
    in_place[0] = operands[0];
    run(spec, 1, {&operands[0], &operands[1], &operands[2], &operands[3]}, machine_code);
    run(spec, 1, {&in_place[0], &in_place[1], &in_place[0], &in_place[3]}, machine_code);
    expect_equal(in_place[0], operands[2], 0, "half ");
    expect_equal(in_place[3], operands[3], 0, "sum ");
  }
}

TEST_P(OnTarget, LanesOutOfRangeDoNotChangeTheirNeighbours) {
  for (const ScalarOp op : {ScalarOp::Sin, ScalarOp::Cos}) {
    const KernelSpec spec = make_spec(
        {1024}, {DType::Float32}, [&](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
          return std::vector<std::pair<ScalarValue, DType>>{{e.emit(op, in[0]), DType::Float32}};
        });
    Operand near(spec.inputs[0]), mixed(spec.inputs[0]), wanted(spec.outputs[0]),
        found(spec.outputs[0]);
    Numbers numbers(13, false);
    numbers.fill(near);
    mixed = near;
    const float far = 1e6f;
    for (int i = 0; i < 1024; i += 3) std::memcpy(mixed.at(i), &far, sizeof far);
    run(spec, 1, {&near, &wanted});
    run(spec, 1, {&mixed, &found});
    const double result = op == ScalarOp::Sin ? std::sin(1e6) : std::cos(1e6);
    for (int i = 0; i < 1024; ++i) {
      const auto value = testing::read<float>(found.at(i));
      if (i % 3 == 0) {
        EXPECT_NEAR(value, result, 1e-6);
      } else {
        EXPECT_EQ(value, testing::read<float>(wanted.at(i))) << scalar_op_name(op) << " " << i;
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

/// Products as the machine has to compute them: in order of the depth, one rounding a step.
void multiply(Operand& left, Operand& right, Operand& product) {
  const std::int64_t depth = left.desc().shape[1], columns = right.desc().shape[1];
  for (std::int64_t i = 0; i < product.size(); ++i) {
    float sum = 0;
    for (std::int64_t k = 0; k < depth; ++k) {
      sum = std::fma(testing::read<float>(left.at(i / columns * depth + k)),
                     testing::read<float>(right.at(k * columns + i % columns)), sum);
    }
    std::memcpy(product.at(i), &sum, sizeof sum);
  }
}

/// Sums of products of such numbers are not rounded.
void round_to_quarters(Operand& operand) {
  for (std::int64_t i = 0; i < operand.size(); ++i) {
    const float value = std::round(testing::read<float>(operand.at(i)) * 4) / 4;
    std::memcpy(operand.at(i), &value, sizeof value);
  }
}

TEST_P(OnTarget, ProductsAreComputedWhereTheyAreRead) {
  struct Size {
    std::int64_t rows, columns, depth;
  };
  unsigned seed = 1;
  for (const Size& size : {Size{2, 1, 1}, Size{1, 9, 3}, Size{3, 5, 1}, Size{64, 64, 8},
                           Size{7, 1030, 5}, Size{130, 77, 16}, Size{515, 130, 2}}) {
    for (int threads : {1, 3}) {
      SCOPED_TRACE(str_cat(size.rows, " x ", size.columns, " over ", size.depth));
      const Shape shape = {size.rows, size.columns};
      // weight += 0.5 * product in place, and the product's square as float16.
      KernelSpec spec = make_spec(
          shape, {DType::Float32, DType::Float32},
          [](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
            return std::vector<std::pair<ScalarValue, DType>>{
                {e.emit(ScalarOp::Add, in[0], e.emit(ScalarOp::Mul, e.constant(0.5), in[1])),
                 DType::Float32},
                {e.as_dtype(e.emit(ScalarOp::Mul, in[1], in[1]), DType::Float16), DType::Float16}};
          });
      spec.products = {{1, 2, 3}};
      // The left matrix transposed, as in the gradient of a weight; the right one with a gap.
      spec.inputs.push_back({DType::Float32, {size.rows, size.depth}, {1, size.rows}});
      spec.inputs.push_back(
          {DType::Float32, {size.depth, size.columns}, {size.columns + 3, std::int64_t{1}}});
      Numbers numbers(seed++, false);
      Operand weight(spec.inputs[0]), product(spec.inputs[1]), left(spec.inputs[2]),
          right(spec.inputs[3]), square(spec.outputs[1]);
      for (Operand* operand : {&weight, &left, &right}) {
        numbers.fill(*operand);
        // Targets without fused multiply-add round every step twice.
        if (!cpu::chain_machine().has_fma) round_to_quarters(*operand);
      }
      multiply(left, right, product);
      Operand expected(spec.outputs[0]), expected_square(spec.outputs[1]);
      std::vector<Operand*> in = {&weight, &product}, out = {&expected, &expected_square};
      testing::interpret(spec.scalar, in, out);
      Operand unused({DType::Float32, {1}, {1}});
      run(spec, threads, {&weight, &unused, &left, &right, &weight, &square});
      expect_equal(weight, expected, 0, "weight ");
      expect_equal(square, expected_square, 0, "square ");
    }
  }
}

TEST(Fused, ValuesOfShortRowsAreRepeatedAndNothingIsGathered) {
  // One value per channel, and one per sample and channel, of images with channels last.
  for (const std::int64_t channels : {3, 20, 32, 100}) {
    const Shape shape = {3, 30, channels};
    KernelSpec spec;
    spec.kind = "Fused";
    spec.inputs = {OperandDesc::contiguous(DType::Float32, shape),
                   {DType::Float32, shape, {0, 0, 1}},
                   {DType::Float16, shape, {channels, 0, 1}}};
    spec.outputs = {spec.inputs[0]};
    ScalarEmitter e(spec.scalar);
    const auto in = [&](int i) {
      return e.load(i, spec.inputs[static_cast<std::size_t>(i)].dtype);
    };
    e.store(0, e.emit(ScalarOp::Add, e.emit(ScalarOp::Sub, in(0), in(1)), in(2)), DType::Float32);
    const std::string how = cpu::make_fused_kernel(spec, 1)->explain();
    EXPECT_NE(how.find("operands direct repeated repeated direct"), std::string::npos) << how;
    for (const int threads : {1, 4}) {
      for (const MachineCode code :
           {MachineCode::Never, MachineCode::Always, MachineCode::Always256}) {
        Numbers numbers(17);
        Operand x(spec.inputs[0]), a(spec.inputs[1]), b(spec.inputs[2]), y(spec.outputs[0]);
        for (Operand* operand : {&x, &a, &b}) numbers.fill(*operand);
        Operand expected(spec.outputs[0]);
        std::vector<Operand*> inputs = {&x, &a, &b}, outputs = {&expected};
        testing::interpret(spec.scalar, inputs, outputs);
        run(spec, threads, {&x, &a, &b, &y}, code);
        expect_equal(y, expected, 0, how);
      }
    }
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

}  // namespace
}  // namespace pando::fused_test
