#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "kernel_test_util.hpp"
#include "tests/cpp/backends/simd_targets.hpp"

namespace pando::testing {
namespace {

class ReduceOnTarget : public SimdTargetTest {};

bool contains(const Ints& axes, std::size_t axis) {
  return std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(axis)) != axes.end();
}

/// Elements of every output in order of the reduced axes.
std::vector<std::vector<double>> groups(const TestTensor& in, const Ints& axes) {
  Shape kept;
  for (std::size_t d = 0; d < in.shape().size(); ++d) {
    if (!contains(axes, d)) kept.push_back(in.shape()[d]);
  }
  std::vector<std::vector<double>> result(static_cast<std::size_t>(num_elements(kept)));
  for (std::int64_t i = 0; i < in.size(); ++i) {
    std::int64_t rest = i, out = 0, scale = 1;
    for (std::size_t d = in.shape().size(); d-- > 0;) {
      const std::int64_t coordinate = rest % in.shape()[d];
      rest /= in.shape()[d];
      if (contains(axes, d)) continue;
      out += coordinate * scale;
      scale *= in.shape()[d];
    }
    result[static_cast<std::size_t>(out)].push_back(in.get(i));
  }
  return result;
}

double reduce(const std::string& kind, const std::vector<double>& values) {
  if (kind == "ReduceSum") return std::accumulate(values.begin(), values.end(), 0.0);
  if (kind == "ReduceProd") {
    return std::accumulate(values.begin(), values.end(), 1.0, std::multiplies<>());
  }
  const double sign = kind == "ReduceMax" ? 1 : -1;
  double largest = -INFINITY;
  for (const double v : values) {
    largest = std::isnan(v) || std::isnan(largest) ? NAN : std::max(largest, sign * v);
  }
  return sign * largest;
}

Shape reduced_shape(const Shape& shape, const Ints& axes) {
  Shape result;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!contains(axes, d)) result.push_back(shape[d]);
  }
  return result;
}

/// Sums cancel: what they may lose is relative to the sum of the magnitudes.
double scale_of(const std::string& kind, const std::vector<double>& values, double result) {
  double scale = std::abs(result);
  if (kind == "ReduceSum") {
    scale = 0;
    for (const double v : values) scale += std::abs(v);
  }
  return std::max(1.0, scale);
}

void expect_reduced(const TestTensor& out, const std::string& kind,
                    const std::vector<std::vector<double>>& inputs, double tolerance,
                    const std::string& what) {
  ASSERT_EQ(static_cast<std::size_t>(out.size()), inputs.size()) << what;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const double value = out.get(static_cast<std::int64_t>(i));
    const double wanted = reduce(kind, inputs[i]);
    if (std::isnan(wanted)) {
      EXPECT_TRUE(std::isnan(value)) << what << " element " << i << " is " << value;
    } else if (value != wanted) {
      ASSERT_NEAR(value, wanted, tolerance * scale_of(kind, inputs[i], wanted))
          << what << " element " << i;
    }
  }
}

void check(const std::string& kind, TestTensor& in, const Ints& axes, double tolerance) {
  const std::vector<std::vector<double>> inputs = groups(in, axes);
  std::vector<std::vector<std::byte>> results;
  for (const int threads : {1, 2, 3}) {
    TestTensor out(in.dtype(), reduced_shape(in.shape(), axes));
    const std::string why =
        run_kernel(kind, {{"axes", axes}, {"keepdims", false}}, {&in}, {&out}, threads);
    expect_reduced(out, kind, inputs, tolerance, why + " " + shape_text(in.shape()));
    results.emplace_back(out.data(), out.data() + out.size() * dtype_bytes(out.dtype()));
  }
  EXPECT_TRUE(results[0] == results[1]) << "depends on the thread count";
  EXPECT_TRUE(results[0] == results[2]) << "depends on the thread count";
}

TEST_P(ReduceOnTarget, SumsAnyAxesAndStrides) {
  const std::vector<OperandDesc> descs = {
      OperandDesc::contiguous(DType::Float32, {}),
      OperandDesc::contiguous(DType::Float32, {1}),
      OperandDesc::contiguous(DType::Float32, {5, 7}),
      OperandDesc::contiguous(DType::Float32, {3, 300, 5}),
      OperandDesc::contiguous(DType::Float32, {2, 3, 4, 260}),
      strided(DType::Float32, {7, 5}, {1, 7}),
      strided(DType::Float32, {4, 3, 5}, {1, 20, 4}),
      strided(DType::Float32, {4, 6, 5}, {0, 5, 1}),
      strided(DType::Float32, {9, 5}, {20, 3}),
  };
  for (const OperandDesc& desc : descs) {
    TestTensor in(desc);
    in.randomise(7);
    const int rank = static_cast<int>(desc.shape.size());
    for (int mask = 0; mask < (1 << rank); ++mask) {
      Ints axes;
      for (int d = 0; d < rank; ++d) {
        if ((mask >> d) & 1) axes.push_back(d);
      }
      check("ReduceSum", in, axes, 1e-6);
      check("ReduceMax", in, axes, 0);
    }
  }
}

TEST_P(ReduceOnTarget, ExtremesOfInfinitiesAndNaNsAnywhere) {
  constexpr std::int64_t kLength = 83;  // vectors of every width, and some values left
  for (const std::int64_t at : {0, 7, 31, 64, 79, 82}) {
    for (const double special : {INFINITY, -INFINITY, NAN}) {
      TestTensor in(DType::Float32, {2, kLength});
      in.randomise(11);
      in.set(at, special);
      in.set(kLength - 1 - at / 2, -INFINITY);
      in.set(kLength + at, special);
      for (const Ints& axes : {Ints{0}, Ints{1}}) {
        check("ReduceMax", in, axes, 0);
        check("ReduceMin", in, axes, 0);
      }
    }
  }
}

TEST(Reduce, TakesEveryArithmeticDType) {
  for (const char* kind : {"ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"}) {
    for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64,
                              DType::Int8, DType::Int16, DType::Int32, DType::Int64, DType::UInt8,
                              DType::UInt16, DType::UInt32, DType::UInt64}) {
      TestTensor in(dtype, {3, 4, 2});
      in.randomise(8, dtype_name(dtype)[0] == 'u' ? 0 : -2, 2);
      for (const Ints& axes : {Ints{0}, Ints{1}, Ints{2}, Ints{0, 2}, Ints{0, 1, 2}}) {
        const bool wraps = std::string(kind) == "ReduceProd" && dtype_bytes(dtype) == 1;
        if (!wraps) check(kind, in, axes, epsilon_of(dtype));
      }
    }
  }
}

TEST(Reduce, SumsLongRowsAccuratelyAndAlikeForAnyThreadCount) {
  for (const Shape& shape : {Shape{1 << 20}, Shape{1 << 18, 3}, Shape{3, 1 << 18}, Shape{262147}}) {
    TestTensor in(DType::Float32, shape);
    in.randomise(9, 0, 1);
    check("ReduceSum", in, {0}, 5e-7);
  }
}

TEST(Reduce, EmptyAxesGiveTheIdentity) {
  TestTensor in(DType::Float32, {2, 0}), out(DType::Float32, {2});
  const Attributes attributes = {{"axes", Ints{1}}, {"keepdims", false}};
  run_kernel("ReduceSum", attributes, {&in}, {&out});
  expect_close(out, {0, 0}, 0);
  run_kernel("ReduceProd", attributes, {&in}, {&out});
  expect_close(out, {1, 1}, 0);
}

TEST(Reduce, ExtremesKeepNaN) {
  for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64}) {
    TestTensor in(dtype, {3, 40});
    in.randomise(10);
    in.set(41, NAN);
    check("ReduceMax", in, {1}, 0);
    check("ReduceMin", in, {0}, 0);
  }
}

TEST(ReduceMedian, TakesTheLowerMiddleAndItsPosition) {
  TestTensor in(DType::Float32, {2, 4}), out(DType::Float32, {2}), at(DType::Int32, {2});
  in.fill({4, 1, 3, 2, 5, 5, 5, 1});
  run_kernel("ReduceMedian", {{"axes", Ints{1}}, {"keepdims", false}}, {&in}, {&out, &at});
  expect_close(out, {2, 5}, 0);
  expect_close(at, {3, 0}, 0);
}

TEST(ReduceMedian, MatchesSorting) {
  for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float32, DType::Int32}) {
    TestTensor in(dtype, {5, 3, 7});
    in.randomise(11, -20, 20);
    for (const Ints& axes : {Ints{0}, Ints{1}, Ints{0, 2}, Ints{0, 1, 2}}) {
      TestTensor out(dtype, reduced_shape(in.shape(), axes));
      TestTensor at(DType::Int32, reduced_shape(in.shape(), axes));
      run_kernel("ReduceMedian", {{"axes", axes}, {"keepdims", false}}, {&in}, {&out, &at});
      std::vector<double> wanted, positions;
      for (const auto& values : groups(in, axes)) {
        auto sorted = values;
        std::sort(sorted.begin(), sorted.end());
        wanted.push_back(sorted[(sorted.size() - 1) / 2]);
      }
      expect_close(out, wanted, 0);
      const auto lists = groups(in, axes);
      for (std::size_t o = 0; o < lists.size(); ++o) {
        const auto position = static_cast<std::size_t>(at.get(static_cast<std::int64_t>(o)));
        EXPECT_EQ(lists[o][position], wanted[o]);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ReduceOnTarget, kSimdTargets, target_name);

}  // namespace
}  // namespace pando::testing
