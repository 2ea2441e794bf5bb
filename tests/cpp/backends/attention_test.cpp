// Attention and its gradient against loops in double.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel_test_util.hpp"
#include "tests/cpp/backends/simd_targets.hpp"

namespace pando::testing {
namespace {

class AttentionOnTarget : public SimdTargetTest {};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Sizes {
  std::int64_t batch, heads, kv_heads, rows, keys, depth, columns;
};

/// Operands of one attention, and what loops make of them. Window: [left, right], -1: no limit.
struct Reference {
  Sizes n;
  Ints window;
  std::vector<double> q, k, v, g;
  std::vector<double> out, log_sum_exp, dq, dk, dv;

  bool sees(std::int64_t row, std::int64_t key) const {
    return (window[0] < 0 || key >= row - window[0]) && (window[1] < 0 || key <= row + window[1]);
  }

  void run() {
    const double scale = 1 / std::sqrt(static_cast<double>(n.depth));
    out.assign(g.size(), 0);
    dq.assign(q.size(), 0);
    dk.assign(k.size(), 0);
    dv.assign(v.size(), 0);
    for (std::int64_t i = 0; i < n.batch * n.heads * n.rows; ++i) {
      const std::int64_t head = i / n.rows;
      const std::int64_t kv = head / n.heads * n.kv_heads + head % n.heads / (n.heads / n.kv_heads);
      run_row(i, kv * n.keys, scale);
    }
  }

 private:
  void run_row(std::int64_t i, std::int64_t first, double scale) {
    std::vector<double> w(n.keys, -kInfinity), dw(n.keys, 0);
    double max = -kInfinity, sum = 0, dot = 0;
    for (std::int64_t j = 0; j < n.keys; ++j) {
      if (!sees(i % n.rows, j)) continue;
      w[j] = 0;
      for (std::int64_t d = 0; d < n.depth; ++d) {
        w[j] += scale * q[i * n.depth + d] * k[(first + j) * n.depth + d];
      }
      max = std::max(max, w[j]);
    }
    for (double& x : w) sum += x = max == -kInfinity ? 0 : std::exp(x - max);
    log_sum_exp.push_back(sum == 0 ? -kInfinity : max + std::log(sum));
    for (std::int64_t j = 0; j < n.keys && sum > 0; ++j) {
      w[j] /= sum;
      for (std::int64_t c = 0; c < n.columns; ++c) {
        const std::int64_t at = (first + j) * n.columns + c;
        out[i * n.columns + c] += w[j] * v[at];
        dw[j] += g[i * n.columns + c] * v[at];
        dv[at] += w[j] * g[i * n.columns + c];
      }
      dot += w[j] * dw[j];
    }
    for (std::int64_t j = 0; j < n.keys; ++j) {
      const double ds = scale * w[j] * (dw[j] - dot);
      for (std::int64_t d = 0; d < n.depth; ++d) {
        dq[i * n.depth + d] += ds * k[(first + j) * n.depth + d];
        dk[(first + j) * n.depth + d] += ds * q[i * n.depth + d];
      }
    }
  }
};

/// Rows of [batch, heads, tokens, columns] lie in memory as [batch, tokens, heads, columns].
OperandDesc tokens_first(DType dtype, const Shape& shape) {
  return strided(dtype, shape, {shape[1] * shape[2] * shape[3], shape[3], shape[1] * shape[3], 1});
}

void check(DType dtype, const Sizes& n, const Ints& window, bool strides, int threads) {
  SCOPED_TRACE(::testing::Message()
               << dtype_name(dtype) << " heads " << n.heads << "/" << n.kv_heads << " rows "
               << n.rows << " keys " << n.keys << " window " << window[0] << " " << window[1]
               << " threads " << threads);
  const auto operand = [&](std::int64_t heads, std::int64_t tokens, std::int64_t columns) {
    const Shape shape{n.batch, heads, tokens, columns};
    return TestTensor(strides ? tokens_first(dtype, shape) : OperandDesc::contiguous(dtype, shape));
  };
  TestTensor q = operand(n.heads, n.rows, n.depth), k = operand(n.kv_heads, n.keys, n.depth);
  TestTensor v = operand(n.kv_heads, n.keys, n.columns), g = operand(n.heads, n.rows, n.columns);
  unsigned seed = 1;
  for (TestTensor* t : {&q, &k, &v, &g}) t->randomise(seed++);
  Reference wanted{n, window, q.values(), k.values(), v.values(), g.values(), {}, {}, {}, {}, {}};
  wanted.run();
  TestTensor out(dtype, g.shape()), log_sum_exp(DType::Float32, {n.batch, n.heads, n.rows});
  TestTensor dq(dtype, q.shape()), dk(dtype, k.shape()), dv(dtype, v.shape());
  const Attributes attributes = {{"window", window}};
  run_kernel("ScaledDotProductAttention", attributes, {&q, &k, &v}, {&out, &log_sum_exp}, threads);
  run_kernel("ScaledDotProductAttentionGrad", attributes, {&g, &q, &k, &v, &out, &log_sum_exp},
             {&dq, &dk, &dv}, threads);
  const double tolerance = 4 * epsilon_of(dtype);
  expect_close(out, wanted.out, tolerance, "out");
  expect_close(log_sum_exp, wanted.log_sum_exp, 4 * epsilon_of(DType::Float32), "log_sum_exp");
  // Sums of many terms that cancel.
  for (const auto& [given, values, name] :
       {std::tuple{&dq, &wanted.dq, "dq"}, {&dk, &wanted.dk, "dk"}, {&dv, &wanted.dv, "dv"}}) {
    expect_close(*given, *values, 8 * tolerance, name);
  }
}

const std::vector<Sizes> kSizes = {{1, 1, 1, 1, 1, 1, 1},       {2, 2, 1, 3, 5, 7, 9},
                                   {1, 4, 2, 64, 128, 16, 32},  {1, 2, 2, 65, 129, 33, 5},
                                   {1, 3, 1, 200, 300, 64, 64}, {2, 1, 1, 130, 31, 80, 17}};

TEST_P(AttentionOnTarget, EqualsLoops) {
  for (const DType dtype : {DType::Float32, DType::Float16, DType::BFloat16}) {
    for (const Sizes& sizes : kSizes) {
      for (const Ints& window : {Ints{-1, -1}, Ints{-1, 0}, Ints{20, 3}}) {
        check(dtype, sizes, window, false, 2);
      }
    }
  }
}

TEST(Attention, TakesOperandsOfAnyStrides) {
  for (const Sizes& sizes : kSizes) check(DType::Float32, sizes, {-1, 0}, true, 2);
}

// Threads share heads here, also more than two threads one head.
TEST(Attention, AnyNumberOfThreadsGivesTheSame) {
  for (const Sizes& sizes : {Sizes{1, 1, 1, 600, 300, 16, 16}, Sizes{1, 6, 3, 200, 260, 8, 24}}) {
    for (const int threads : {1, 2, 3, 5, 7}) {
      for (const Ints& window : {Ints{-1, -1}, Ints{-1, 0}}) {
        check(DType::Float32, sizes, window, false, threads);
        check(DType::Float16, sizes, window, false, threads);
      }
    }
  }
}

TEST(Attention, TwoRunsGiveTheSameBits) {
  const Shape shape{1, 3, 300, 16};
  TestTensor q(DType::Float32, shape), g(DType::Float32, shape), out(DType::Float32, shape);
  TestTensor rows(DType::Float32, {1, 3, 300});
  q.randomise(1);
  g.randomise(2);
  run_kernel("ScaledDotProductAttention", {}, {&q, &q, &q}, {&out, &rows}, 2);
  std::vector<std::vector<double>> results;
  for (int run = 0; run < 2; ++run) {
    TestTensor dq(DType::Float32, shape), dk(DType::Float32, shape), dv(DType::Float32, shape);
    run_kernel("ScaledDotProductAttentionGrad", {}, {&g, &q, &q, &q, &out, &rows}, {&dq, &dk, &dv},
               2);
    results.push_back(dk.values());
    results.push_back(dv.values());
  }
  EXPECT_EQ(results[0], results[2]);
  EXPECT_EQ(results[1], results[3]);
}

TEST(Attention, NaNsAndInfinitiesShow) {
  TestTensor q(DType::Float32, {2, 3}), k(DType::Float32, {2, 3}), v(DType::Float32, {2, 3});
  TestTensor out(DType::Float32, {2, 3}), rows(DType::Float32, {2});
  for (TestTensor* t : {&q, &k, &v}) t->randomise(4);
  q.set(0, NAN);
  run_kernel("ScaledDotProductAttention", {}, {&q, &k, &v}, {&out, &rows});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(out.get(i)));
  EXPECT_TRUE(std::isnan(rows.get(0)));
  for (int i = 3; i < 6; ++i) EXPECT_TRUE(std::isfinite(out.get(i)));
}

// Nothing, no keys, no heads, no columns.
TEST(Attention, EmptyOperands) {
  for (const Sizes& n :
       {Sizes{0, 2, 2, 3, 4, 2, 2}, Sizes{1, 2, 2, 3, 0, 2, 2}, Sizes{1, 0, 0, 3, 4, 2, 2},
        Sizes{1, 2, 1, 0, 4, 2, 2}, Sizes{1, 2, 1, 3, 4, 2, 0}}) {
    if (n.kv_heads > 0) check(DType::Float32, n, {-1, 0}, false, 2);
  }
  TestTensor q(DType::Float32, {0, 3, 2}), rows(DType::Float32, {0, 3});
  run_kernel("ScaledDotProductAttention", {}, {&q, &q, &q}, {&q, &rows});
}

TEST(Attention, OtherDtypesAreRefused) {
  TestTensor q(DType::Float64, {2, 3}), rows(DType::Float32, {2});
  EXPECT_NE(error_of([&] {
              run_kernel("ScaledDotProductAttention", {}, {&q, &q, &q}, {&q, &rows});
            }).find("float64"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Targets, AttentionOnTarget, kSimdTargets, target_name);

}  // namespace
}  // namespace pando::testing
