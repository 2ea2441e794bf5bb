#include <limits>

#include "pando/backends/cpu/kernels/matmul.hpp"
#include "tests/cpp/backends/matmul_loops.hpp"
#include "tests/cpp/backends/simd_targets.hpp"

namespace pando::testing {
namespace {

double activate(const std::string& epilogue, double x) {
  if (epilogue == "relu") return x < 0 ? 0 : x;
  if (epilogue == "tanh") return std::tanh(x);
  if (epilogue == "sigmoid") return 1 / (1 + std::exp(-x));
  if (epilogue == "swish") return x / (1 + std::exp(-x));
  if (epilogue == "gelu_erf") return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  if (epilogue == "gelu_tanh") {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  return x;
}

OperandDesc matrix(DType dtype, std::int64_t rows, std::int64_t columns, bool transposed) {
  return strided(dtype, {rows, columns}, transposed ? Strides{1, rows} : Strides{columns, 1});
}

ScalarValue emit_activation(ScalarEmitter& e, const std::string& name, ScalarValue x) {
  const auto times = [&](ScalarValue a, ScalarValue b) { return e.emit(ScalarOp::Mul, a, b); };
  if (name == "relu") return e.emit(ScalarOp::Max, x, e.constant(0));
  if (name == "tanh") return e.emit(ScalarOp::Tanh, x);
  if (name == "sigmoid") return e.emit(ScalarOp::Sigmoid, x);
  if (name == "swish") return times(x, e.emit(ScalarOp::Sigmoid, x));
  if (name == "gelu_erf") {
    const ScalarValue tail = e.emit(ScalarOp::Erfc, times(e.constant(-std::sqrt(0.5)), x));
    return times(x, times(e.constant(0.5), tail));
  }
  const ScalarValue cubic = times(e.constant(0.044715), times(x, x));
  const ScalarValue twice_u = times(times(e.constant(2 * std::sqrt(2 / M_PI)), x),
                                    e.emit(ScalarOp::Add, e.constant(1), cubic));
  return times(x, e.emit(ScalarOp::Sigmoid, twice_u));
}

/// The product in output 0, where a program adds the bias and applies the activation.
std::string run_with_epilogue(const MatMulCase& c, TestTensor& lhs, TestTensor& rhs,
                              TestTensor& bias, TestTensor& out,
                              decltype(run_spec)& run = run_spec) {
  TestTensor computed(c.dtype, {c.m, c.n});
  std::vector<TestTensor*> inputs = {&computed, &bias, &lhs, &rhs};
  KernelSpec spec = make_spec("Fused", {}, inputs, {&out});
  spec.inputs[1] = strided(c.dtype, {c.m, c.n}, {0, 1});
  spec.products = {{.value = 0, .left = 2, .right = 3, .place = 0}};
  ScalarEmitter e(spec.scalar);
  ScalarValue x = e.load(0, c.dtype);
  if (c.bias) x = e.emit(ScalarOp::Add, x, e.load(1, c.dtype));
  e.store(0, emit_activation(e, c.epilogue, x), c.dtype);
  inputs[0] = nullptr;
  return run(spec, inputs, {&out}, c.threads);
}

/// The product with its right matrix packed before; "" where it is not. The same bits either way
/// but for few rows, whose sums begin with the bias.
std::string check_packed_before(const MatMulCase& c) {
  TestTensor lhs(matrix(c.dtype, c.m, c.k, c.lhs_transposed));
  TestTensor rhs(matrix(c.dtype, c.k, c.n, c.rhs_transposed));
  TestTensor bias(c.dtype, {c.n}), wanted(c.dtype, {c.m, c.n}), out(c.dtype, {c.m, c.n});
  lhs.randomise(1, -1, 1);
  rhs.randomise(2, -1, 1);
  bias.randomise(3, -1, 2);
  const auto run = [&](TestTensor& to, auto& run_one) {
    if (!c.epilogue.empty()) return run_with_epilogue(c, lhs, rhs, bias, to, run_one);
    std::vector<TestTensor*> inputs = {&lhs, &rhs};
    if (c.bias) inputs.push_back(&bias);
    return run_one(make_spec("MatMul", {}, inputs, {&to}), inputs, {&to}, c.threads);
  };
  const std::string usual = run(wanted, run_spec), how = run(out, run_prepared_spec);
  for (std::int64_t i = 0; i < out.size(); ++i) {
    if (std::abs(out.get(i) - wanted.get(i)) <= (c.m > 32 ? 0 : 1e-4)) continue;
    ADD_FAILURE() << usual << "; " << how << " element " << i << ": " << out.get(i) << ", "
                  << wanted.get(i);
    break;
  }
  return how;
}

std::string check(const MatMulCase& c) {
  TestTensor lhs(matrix(c.dtype, c.m, c.k, c.lhs_transposed));
  TestTensor rhs(matrix(c.dtype, c.k, c.n, c.rhs_transposed));
  TestTensor bias(c.dtype, {c.n}), out(c.dtype, {c.m, c.n});
  const double low = is_integer(c.dtype) && !traits(c.dtype).is_signed ? 0 : -1;
  lhs.randomise(1, low, 1);
  rhs.randomise(2, low, 1);
  bias.randomise(3, low, 2);
  out.randomise(4);
  std::vector<TestTensor*> inputs = {&lhs, &rhs};
  if (c.bias) inputs.push_back(&bias);
  const std::string explanation = c.epilogue.empty()
                                      ? run_kernel("MatMul", {}, inputs, {&out}, c.threads)
                                      : run_with_epilogue(c, lhs, rhs, bias, out);
  std::vector<double> wanted =
      product_by_loops(lhs, rhs, c, 1, [&](std::int64_t j) { return c.bias ? bias.get(j) : 0.0; });
  for (double& value : wanted) value = activate(c.epilogue, value);
  const double tolerance = is_half_precision(c.dtype) ? 2 * epsilon_of(c.dtype) : 4e-5;
  expect_close(out, wanted, is_integer(c.dtype) ? 0 : tolerance, explanation);
  return explanation;
}

/// A view may leave any stride to a dimension of one element; oneDNN takes few. Each has a size of
/// its own: oneDNN takes products that differ in such strides only for the same.
TEST(MatMul, StridesOfDimensionsOfOneElementAreFree) {
  std::int64_t size = 3;
  for (const std::int64_t free : {0, 1, 2, 3, 9, -1}) {
    for (const std::int64_t step : {1, 2}) {
      for (const bool is_column : {true, false}) {
        ++size;
        const MatMulCase c = is_column ? MatMulCase{size, 1, size} : MatMulCase{1, size, size};
        TestTensor lhs(is_column ? matrix(DType::Float32, size, size, false)
                                 : strided(DType::Float32, {1, size}, {free, step}));
        TestTensor rhs(is_column ? strided(DType::Float32, {size, 1}, {step, free})
                                 : matrix(DType::Float32, size, size, true));
        TestTensor out(DType::Float32, {c.m, c.n});
        lhs.randomise(1);
        rhs.randomise(2);
        const std::string explanation = run_kernel("MatMul", {}, {&lhs, &rhs}, {&out}, 2);
        expect_close(out, product_by_loops(lhs, rhs, c), 4e-5,
                     str_cat(explanation, " free ", free, " step ", step));
      }
    }
  }
}

TEST(MatMul, MatchesLoopsInEveryOrderAndShape) {
  for (const auto& [m, n, k] : std::vector<std::array<std::int64_t, 3>>{{1, 1, 1},
                                                                        {8, 10, 64},
                                                                        {8, 512, 784},
                                                                        {784, 32, 8},
                                                                        {5, 33, 7},
                                                                        {1, 40, 300},
                                                                        {40, 1, 300},
                                                                        {64, 65, 66},
                                                                        {31, 17, 600},
                                                                        {33, 48, 1},
                                                                        {300, 70, 650},
                                                                        {145, 2100, 33},
                                                                        {7, 3, 0},
                                                                        {0, 3, 2}}) {
    for (int order = 0; order < 4; ++order) {
      check({m, n, k, (order & 1) != 0, (order & 2) != 0});
      check({m, n, k, (order & 1) != 0, (order & 2) != 0, DType::Float32, true, "relu", 1});
    }
  }
}

TEST(MatMul, ManyColumnsAreCutIntoSeveralPartsOfEachThread) {
  for (int order = 0; order < 4; ++order) {
    const bool lhs_transposed = (order & 1) != 0, rhs_transposed = (order & 2) != 0;
    check({40, 8300, 90, lhs_transposed, rhs_transposed, DType::Float32, false, "", 2});
    check({40, 8300, 90, lhs_transposed, rhs_transposed, DType::Float32, true, "gelu_erf", 2});
  }
}

TEST(MatMul, TakesAnyStrideOfASingleRowOrColumn) {
  // What slices that run backwards leave behind.
  for (const std::int64_t k : {1, 7, 640}) {
    TestTensor lhs(strided(DType::Float32, {1, k}, {-2 * k, 1}));
    TestTensor rhs(strided(DType::Float32, {k, 1}, {1, -2 * k}));
    TestTensor out(DType::Float32, {1, 1});
    lhs.randomise(5, -1, 1);
    rhs.randomise(6, -1, 1);
    const std::string explanation = run_kernel("MatMul", {}, {&lhs, &rhs}, {&out}, 1);
    double wanted = 0.0;
    for (std::int64_t i = 0; i < k; ++i) wanted += lhs.get(i) * rhs.get(i);
    expect_close(out, {wanted}, 4e-5, explanation);
  }
}

TEST(MatMul, TakesEveryArithmeticDType) {
  for (const DType dtype :
       {DType::Float16, DType::BFloat16, DType::Float64, DType::Int8, DType::Int16, DType::Int32,
        DType::Int64, DType::UInt8, DType::UInt16, DType::UInt32, DType::UInt64}) {
    check({9, 70, 13, false, false, dtype});
    check({9, 70, 13, true, true, dtype, true});
    check({0, 3, 0, true, true, dtype, true});
  }
}

TEST(MatMul, FewRowsOfHalfPrecisionAreConvertedWhereTheyAreLoaded) {
  for (const DType dtype : {DType::Float16, DType::BFloat16}) {
    for (const auto& [m, n, k] : std::vector<std::array<std::int64_t, 3>>{
             {8, 512, 784}, {1, 40, 300}, {31, 17, 600}, {5, 33, 7}, {32, 70, 257}, {16, 9, 100}}) {
      for (int order = 0; order < 4; ++order) {
        for (const bool bias : {false, true}) {
          const MatMulCase c = {m, n, k, (order & 1) != 0, (order & 2) != 0, dtype, bias};
          const std::string how = check(c);
          if (c.rhs_transposed) continue;
          EXPECT_NE(how.find("converted where it is loaded"), std::string::npos) << how;
        }
      }
    }
    // Larger ones run on the processor's instructions for the format, or in float32.
    for (int order = 0; order < 4; ++order) {
      check({70, 33, 650, (order & 1) != 0, (order & 2) != 0, dtype, true});
      check({145, 160, 96, (order & 1) != 0, (order & 2) != 0, dtype});
    }
  }
}

TEST(MatMul, SumsOfHalfPrecisionAreNotRoundedOnTheWay) {
  for (const DType dtype : {DType::Float16, DType::BFloat16}) {
    for (const std::int64_t rows : {1, 64}) {
      for (const bool transposed : {false, true}) {
        const std::int64_t depth = 2048;
        TestTensor lhs(matrix(dtype, rows, depth, false));
        TestTensor rhs(matrix(dtype, depth, 48, transposed));
        TestTensor out(dtype, {rows, 48});
        lhs.fill(std::vector<double>(static_cast<std::size_t>(rows * depth), 1.0));
        rhs.fill(std::vector<double>(static_cast<std::size_t>(depth * 48), 1.0));
        const std::string how = run_kernel("MatMul", {}, {&lhs, &rhs}, {&out}, 2);
        const auto sums = static_cast<std::size_t>(rows * 48);
        expect_close(out, std::vector<double>(sums, 2048.0), 0, how);
      }
    }
  }
}

TEST(MatMul, AppliesEveryEpilogue) {
  for (const char* epilogue : {"gelu_tanh", "gelu_erf", "relu", "tanh", "sigmoid", "swish"}) {
    check({8, 37, 20, false, false, DType::Float32, true, epilogue});
    check({64, 37, 40, false, true, DType::Float32, true, epilogue});
    check({8, 37, 20, false, false, DType::Float32, false, epilogue});
    check({8, 37, 0, false, false, DType::Float32, true, epilogue});
  }
}

void check_batched(const OperandDesc& lhs_desc, const OperandDesc& rhs_desc, const Shape& shape) {
  TestTensor lhs(lhs_desc), rhs(rhs_desc), out(lhs_desc.dtype, shape);
  lhs.randomise(5, -1, 1);
  rhs.randomise(6, -1, 1);
  const std::string explanation = run_kernel("MatMul", {}, {&lhs, &rhs}, {&out});
  const std::size_t rank = shape.size();
  const std::int64_t m = shape[rank - 2], n = shape[rank - 1], k = lhs.shape()[rank - 1];
  const std::vector<double> wanted =
      product_by_loops(lhs, rhs, {m, n, k}, num_elements(shape) / (m * n));
  expect_close(out, wanted,
               is_half_precision(lhs_desc.dtype) ? 2 * epsilon_of(lhs_desc.dtype) : 1e-5,
               explanation);
}

TEST(MatMul, RunsBatches) {
  for (const DType dtype :
       {DType::Float32, DType::Float16, DType::BFloat16, DType::Float64, DType::Int32}) {
    check_batched(OperandDesc::contiguous(dtype, {3, 4, 5}),
                  OperandDesc::contiguous(dtype, {3, 5, 6}), {3, 4, 6});
    check_batched(OperandDesc::contiguous(dtype, {2, 3, 40, 50}),
                  strided(dtype, {2, 3, 50, 60}, {9000, 3000, 1, 50}), {2, 3, 40, 60});
    check_batched(OperandDesc::contiguous(dtype, {3, 4, 5}), strided(dtype, {3, 5, 6}, {0, 6, 1}),
                  {3, 4, 6});
    check_batched(strided(dtype, {3, 4, 5}, {0, 5, 1}), OperandDesc::contiguous(dtype, {3, 5, 6}),
                  {3, 4, 6});
    check_batched(strided(dtype, {2, 3, 4, 5}, {20, 0, 5, 1}),
                  strided(dtype, {2, 3, 5, 6}, {0, 30, 6, 1}), {2, 3, 4, 6});
  }
}

TEST(MatMul, LargeProductsHaveTheSameBitsForEveryThreadCount) {
  TestTensor lhs(DType::Float32, {200, 700}), rhs(DType::Float32, {700, 90});
  lhs.randomise(1);
  rhs.randomise(2);
  TestTensor one(DType::Float32, {200, 90});
  run_kernel("MatMul", {}, {&lhs, &rhs}, {&one}, 1);
  for (const int threads : {2, 3, 4, 6}) {
    TestTensor several(DType::Float32, {200, 90});
    run_kernel("MatMul", {}, {&lhs, &rhs}, {&several}, threads);
    for (std::int64_t i = 0; i < one.size(); ++i) ASSERT_EQ(one.get(i), several.get(i)) << threads;
  }
}

class MatMulOnTarget : public SimdTargetTest {};

TEST_P(MatMulOnTarget, MatchesLoopsInEveryOrder) {
  for (int order = 0; order < 4; ++order) {
    check({70, 90, 340, (order & 1) != 0, (order & 2) != 0});
    check({300, 33, 120, (order & 1) != 0, (order & 2) != 0, DType::Float32, true, "relu"});
    check({5, 33, 70, (order & 1) != 0, (order & 2) != 0, DType::Float32, true, "gelu_tanh"});
    check({8, 70, 333, (order & 1) != 0, (order & 2) != 0});
  }
}

// The thread sanitizer looks at how threads meet, which no dtype changes.
#ifdef __SANITIZE_THREAD__
constexpr std::array kStreamedDtypes = {DType::Float32};
#else
constexpr std::array kStreamedDtypes = {DType::Float32, DType::Float16, DType::BFloat16};
#endif

TEST_P(MatMulOnTarget, FewRowsReadLargeMatricesRowByRow) {
  const auto expect_streamed = [](const MatMulCase& c) {
    const std::string how = check(c);
    EXPECT_NE(how.find("row by row"), std::string::npos) << how;
  };
  for (const DType dtype : kStreamedDtypes) {
    expect_streamed({1, 70, 33, false, false, dtype, true});
    expect_streamed({1, 64, 7, false, false, dtype});
    for (std::int64_t rows = 1; rows <= 4; ++rows) {
      expect_streamed({rows, 2100, 1013, rows % 2 == 0, false, dtype, rows > 2, "", 3});
    }
  }
  expect_streamed({1, 2500, 70, false, false, DType::Float32, true, "gelu_erf"});
  EXPECT_EQ(check({2, 70, 33}).find("row by row"), std::string::npos) << "in a cache";
}

TEST_P(MatMulOnTarget, ShortColumnsBecomeRows) {
  for (const auto& [n, k] :
       std::vector<std::array<std::int64_t, 2>>{{10, 7}, {17, 4}, {33, 63}, {409, 10}, {65, 32}}) {
    for (const std::int64_t rows : {1, 2, 5, 16}) {
      for (const int threads : {1, 2}) {
        const std::string how =
            check({rows, n, k, false, true, DType::Float32, rows > 2, "", threads});
        EXPECT_NE(how.find("short columns"), std::string::npos) << how;
        check({rows, n, k, false, true, DType::Float32, true, "gelu_erf", threads});
      }
    }
  }
  EXPECT_EQ(check({8, 512, 10, false, true}).find("short columns"), std::string::npos);
}

TEST_P(MatMulOnTarget, RightMatricesArePackedBeforeRuns) {
  const auto expect_packed = [](const MatMulCase& c) {
    const std::string how = check_packed_before(c);
    // With 512 bits oneDNN multiplies.
    if (GetParam() == HWY_AVX3) return;
    EXPECT_NE(how.find("packed before runs"), std::string::npos) << how;
  };
  for (const auto& [m, n, k] : std::vector<std::array<std::int64_t, 3>>{{33, 16, 2048},
                                                                        {70, 90, 340},
                                                                        {512, 33, 70},
                                                                        {145, 2100, 33},
                                                                        {40, 300, 321},
                                                                        {4, 1000, 330},
                                                                        {31, 270, 500}}) {
    for (int order = 0; order < 4; ++order) {
      const bool left = (order & 1) != 0, right = (order & 2) != 0;
      expect_packed({m, n, k, left, right, DType::Float32, order > 1, "", 1 + order});
      expect_packed({m, n, k, left, right, DType::Float32, order > 1, "gelu_erf", 1 + order});
    }
  }
}

TEST(MatMul, PackedMatricesOfOtherSizesAreRefused) {
  for (const DType dtype : {DType::Float32, DType::Float16}) {
    for (const std::int64_t floats : {0, 1, 4096}) {
      TestTensor lhs(dtype, {64, 64}), rhs(dtype, {floats}), out(dtype, {64, 64});
      const KernelSpec spec =
          make_spec("MatMul", {{KernelSpec::kPackedRight, Ints{64, 64}}}, {&lhs, &rhs}, {&out});
      EXPECT_THROW(make_cpu_target(1)->prepare(spec), Error) << floats;
    }
  }
}

TEST(MatMul, RightMatricesOfSomeProductsStayAsTheyAre) {
  EXPECT_EQ(check_packed_before({3, 512, 784}), "") << "few rows";
  EXPECT_EQ(check_packed_before({8, 128, 784}), "") << "few rows, in a cache";
  EXPECT_EQ(check_packed_before({513, 64, 64}), "") << "many rows";
  EXPECT_EQ(check_packed_before({64, 64, 31}), "") << "few terms";
  EXPECT_EQ(check_packed_before({64, 96, 200, false, false, DType::Float16}), "");
}

/// Whether row i of a mask keeps column j.
using Mask = std::function<bool(std::int64_t, std::int64_t)>;

/// lhs (m, k) with zeros where `keep` does not hold, times rhs (k, n), whose rows `infinite` hold
/// an infinity: zero times that is NaN.
void check_masked(const MatMulCase& c, const Mask& keep,
                  const std::vector<std::int64_t>& infinite) {
  TestTensor lhs(matrix(c.dtype, c.m, c.k, c.lhs_transposed));
  TestTensor rhs(matrix(c.dtype, c.k, c.n, c.rhs_transposed));
  TestTensor out(c.dtype, {c.m, c.n});
  lhs.randomise(1, -1, 1);
  rhs.randomise(2, -1, 1);
  for (std::int64_t i = 0; i < c.m * c.k; ++i) {
    if (!keep(i / c.k, i % c.k)) lhs.set(i, i % 2 == 0 ? 0.0 : -0.0);
  }
  for (const std::int64_t row : infinite) {
    rhs.set(row * c.n + row % c.n, std::numeric_limits<double>::infinity());
  }
  const std::string explanation = run_kernel("MatMul", {}, {&lhs, &rhs}, {&out}, c.threads);
  expect_close(out, product_by_loops(lhs, rhs, c), 4e-5, explanation);
}

/// Runs the plan itself: a kernel may prefer instructions that this machine has.
void check_packed_half(const MatMulCase& c) {
  TestTensor lhs(matrix(c.dtype, c.m, c.k, c.lhs_transposed));
  TestTensor rhs(matrix(c.dtype, c.k, c.n, c.rhs_transposed));
  TestTensor bias(c.dtype, {c.n}), out(c.dtype, {c.m, c.n});
  lhs.randomise(1, -1, 1);
  rhs.randomise(2, -1, 1);
  bias.randomise(3, -1, 2);
  std::vector<TestTensor*> inputs = {&lhs, &rhs};
  if (c.bias) inputs.push_back(&bias);
  const KernelSpec spec = make_spec("MatMul", {}, inputs, {&out});
  cpu::MatMulProblem problem;
  ASSERT_EQ(cpu::parse_matmul({spec, c.threads}, problem), "");
  const cpu::KernelPlan plan = cpu::plan_packed_matmul(problem, c.threads);
  ASSERT_EQ(plan.rejection, "");
  EXPECT_NE(plan.detail.find("converted where it is packed"), std::string::npos) << plan.detail;
  std::vector<std::byte*> operands;
  for (TestTensor* input : inputs) operands.push_back(input->data());
  operands.push_back(out.data());
  std::vector<std::byte> memory(plan.scratch_bytes + 64);
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  plan.run(operands.data(), memory.data() + (64 - address % 64) % 64);
  const std::vector<double> wanted =
      product_by_loops(lhs, rhs, c, 1, [&](std::int64_t j) { return c.bias ? bias.get(j) : 0.0; });
  expect_close(out, wanted, 2 * epsilon_of(c.dtype), plan.detail);
}

TEST_P(MatMulOnTarget, LargeProductsOfHalfPrecisionAreConvertedWhereTheyArePacked) {
  for (const DType dtype : {DType::Float16, DType::BFloat16}) {
    for (int order = 0; order < 4; ++order) {
      const bool left = (order & 1) != 0, right = (order & 2) != 0;
      check_packed_half({70, 33, 650, left, right, dtype, true});
      check_packed_half({150, 290, 33, left, right, dtype});
      check_packed_half({145, 70, 321, left, right, dtype, true, "", 1});
    }
  }
}

TEST_P(MatMulOnTarget, ZerosOfMasksMeetInfinities) {
  const std::vector<Mask> masks = {
      [](auto row, auto column) { return column <= row; },  // of causal attention
      [](auto row, auto column) { return column >= row; },
      [](auto row, auto column) { return row >= 100 && column != 3; },
      [](auto row, auto column) { return row == 17 && column == 200; },
      [](auto, auto) { return false; },
  };
  for (const Mask& keep : masks) {
    for (const bool transposed : {false, true}) {
      check_masked({201, 70, 333, transposed}, keep, {});
      check_masked({201, 70, 333, transposed, true}, keep, {332});
      check_masked({201, 70, 333, transposed}, keep, {0, 150});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, MatMulOnTarget, kSimdTargets, target_name);

TEST(MatMul, IntegersWrap) {
  TestTensor lhs(DType::Int8, {1, 2}), rhs(DType::Int8, {2, 1}), out(DType::Int8, {1, 1});
  lhs.fill({100, 100});
  rhs.fill({2, 2});
  run_kernel("MatMul", {}, {&lhs, &rhs}, {&out});
  EXPECT_EQ(out.get(0), -112);
}

TEST(MatMul, RejectsWhatItCannotDoByName) {
  TestTensor lhs(DType::Float32, {2, 3}), out(DType::Float32, {2, 4});
  TestTensor half(DType::Float16, {3, 4});
  const std::string error = error_of([&] { run_kernel("MatMul", {}, {&lhs, &half}, {&out}); });
  EXPECT_NE(error.find("dtypes differ: float32, float16"), std::string::npos);
}

}  // namespace
}  // namespace pando::testing
