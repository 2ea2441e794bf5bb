#include <algorithm>

#include "kernel_test_util.hpp"
#include "pando/base/band.hpp"
#include "tests/cpp/backends/simd_targets.hpp"

namespace pando::testing {
namespace {

class SoftmaxOnTarget : public SimdTargetTest {};

const std::vector<DType> kFloats = {DType::Float16, DType::BFloat16, DType::Float32,
                                    DType::Float64};

std::vector<double> softmax(const std::vector<double>& x, std::int64_t columns) {
  std::vector<double> y(x.size());
  for (std::size_t r = 0; r + columns <= x.size() && columns > 0; r += columns) {
    const double max = *std::max_element(x.begin() + r, x.begin() + r + columns);
    double total = 0;
    for (std::int64_t j = 0; j < columns; ++j) total += std::exp(x[r + j] - max);
    for (std::int64_t j = 0; j < columns; ++j) y[r + j] = std::exp(x[r + j] - max) / total;
  }
  return y;
}

TEST_P(SoftmaxOnTarget, NormalisesEverythingFromTheAxisOn) {
  for (const DType dtype : kFloats) {
    for (const Shape& shape :
         {Shape{8, 10}, Shape{3, 5, 7}, Shape{1, 1}, Shape{4, 1000}, Shape{0, 5}, Shape{2, 9001}}) {
      TestTensor in(dtype, shape), out(dtype, shape);
      in.randomise(12, -10, 10);
      for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(shape.size()); ++axis) {
        std::int64_t columns = 1;
        for (std::size_t d = axis; d < shape.size(); ++d) columns *= shape[d];
        for (const std::int64_t given : {axis, axis - static_cast<std::int64_t>(shape.size())}) {
          run_kernel("Softmax", {{"axis", given}}, {&in}, {&out});
          expect_close(out, softmax(in.values(), columns), epsilon_of(dtype) / 2);
        }
      }
    }
  }
}

TEST(Softmax, RunsInPlaceAndKeepsNaN) {
  TestTensor in(DType::Float32, {2, 17});
  in.randomise(13);
  in.set(20, NAN);
  const auto before = in.values();
  run_kernel("Softmax", {{"axis", std::int64_t{1}}}, {&in}, {&in});
  for (int j = 0; j < 17; ++j) {
    EXPECT_NEAR(in.get(j), softmax(before, 17)[j], 1e-6);
    EXPECT_TRUE(std::isnan(in.get(17 + j)));
  }
}

TEST_P(SoftmaxOnTarget, GradientsMatchLoops) {
  for (const DType dtype : kFloats) {
    for (const std::int64_t columns : {1, 7, 16, 100, 5000}) {
      TestTensor out(dtype, {3, columns}), g(dtype, {3, columns}), dx(dtype, {3, columns});
      out.randomise(14, 0, 0.1);
      g.randomise(15);
      run_kernel("SoftmaxGrad", {{"axis", std::int64_t{1}}}, {&out, &g}, {&dx});
      std::vector<double> wanted;
      for (int r = 0; r < 3; ++r) {
        double total = 0;
        for (int j = 0; j < columns; ++j)
          total += out.get(r * columns + j) * g.get(r * columns + j);
        for (int j = 0; j < columns; ++j) {
          wanted.push_back(out.get(r * columns + j) * (g.get(r * columns + j) - total));
        }
      }
      expect_close(dx, wanted, epsilon_of(dtype) * 2);
    }
  }
}

/// Bands of (rows x columns) matrices, by side.
const std::vector<Ints> kBands = {{40, 0}, {0, 0}, {3, 2}, {-1, 5}, {100, -2}, {40, 40}};

bool in_band(const Ints& band, const Shape& shape, std::int64_t i) {
  const std::int64_t column = i % shape[2], row = i / shape[2] % shape[1];
  return -band[0] <= column - row && column - row <= band[1];
}

/// What is outside a band is NaN in the inputs: it is not read, and 0 in the result.
TEST_P(SoftmaxOnTarget, BandsAndScalesMatchLoops) {
  int checked = 0;
  for (const DType dtype : kFloats) {
    for (const Shape& shape : {Shape{2, 5, 7}, Shape{3, 40, 33}, Shape{1, 1, 1}}) {
      for (const Ints& band : kBands) {
        if (!Band{band[0], band[1]}.meets_rows(shape[1], shape[2])) continue;
        ++checked;
        TestTensor in(dtype, shape), g(dtype, shape), out(dtype, shape), dx(dtype, shape);
        in.randomise(16, -10, 10);
        g.randomise(17);
        std::vector<double> y(static_cast<std::size_t>(in.size())), wanted_dx(y.size());
        const double scale = 0.25;
        for (std::int64_t row = 0; row < in.size(); row += shape[2]) {
          double sum = 0, dot = 0;
          for (std::int64_t i = row; i < row + shape[2]; ++i) {
            if (!in_band(band, shape, i)) continue;
            sum += y[i] = std::exp(scale * in.get(i));
            dot += y[i] * g.get(i);
          }
          for (std::int64_t i = row; i < row + shape[2]; ++i) {
            y[i] /= sum;
            wanted_dx[i] = scale * y[i] * (g.get(i) - dot / sum);
          }
        }
        for (std::int64_t i = 0; i < in.size(); ++i) {
          if (in_band(band, shape, i)) continue;
          in.set(i, NAN);
          g.set(i, NAN);
          wanted_dx[i] = 0;
        }
        const Attributes attributes = {{"axis", std::int64_t{2}}, {"band", band}, {"scale", scale}};
        run_kernel("Softmax", attributes, {&in}, {&out});
        expect_close(out, y, epsilon_of(dtype));
        for (std::int64_t i = 0; i < in.size(); ++i) {
          if (!in_band(band, shape, i)) out.set(i, NAN);
        }
        run_kernel("SoftmaxGrad", attributes, {&out, &g}, {&dx});
        expect_close(dx, wanted_dx, epsilon_of(dtype) * 2);
      }
    }
  }
  EXPECT_GE(checked, 30);
}

struct LossCase {
  DType dtype;
  std::string reduction;
  bool ignore, log_prob;
};

constexpr std::int64_t kRows = 6, kClasses = 5;
const std::vector<double> kLabels = {0, 4, 2, 7, 2, 1};  // 7 is out of range

std::vector<LossCase> loss_cases() {
  std::vector<LossCase> result;
  for (const DType dtype : kFloats) {
    for (const char* reduction : {"mean", "sum", "none"}) {
      for (const bool ignore : {false, true}) {
        for (const bool log_prob : {false, true})
          result.push_back({dtype, reduction, ignore, log_prob});
      }
    }
  }
  return result;
}

Attributes loss_attributes(const LossCase& c) {
  Attributes attributes = {{"reduction", c.reduction}, {"log_prob", c.log_prob}};
  if (c.ignore) attributes.set("ignore_index", std::int64_t{2});
  return attributes;
}

double mean_scale(const LossCase& c) {
  return c.reduction != "mean" ? 1.0 : 1.0 / (c.ignore ? 4 : kRows);
}

TEST(Nll, LossAndGradientMatchLoops) {
  for (const LossCase& c : loss_cases()) {
    const Shape loss_shape = c.reduction == "none" ? Shape{2, 3} : Shape{};
    TestTensor probs(c.dtype, {2, 3, kClasses}), labels(DType::UInt16, {2, 3});
    TestTensor loss(c.dtype, loss_shape), g(c.dtype, loss_shape), dx(c.dtype, probs.shape());
    probs.randomise(16, 0, 1);
    probs.set(4, 0);
    labels.fill(kLabels);
    g.randomise(17);
    const double eps = c.dtype == DType::Float16 ? 6.104e-5 : 1e-7;
    const double slope_eps = c.dtype == DType::Float16 ? 6.104e-5 : 1e-10;
    std::vector<double> losses, slopes(kRows * kClasses, 0.0);
    double total = 0;
    for (int i = 0; i < kRows; ++i) {
      const int label = static_cast<int>(kLabels[i]);
      const double p = label < kClasses ? probs.get(i * kClasses + label) : 0.0;
      const bool ignored = c.ignore && label == 2;
      losses.push_back(ignored ? 0 : c.log_prob ? -p : -std::log(std::max(p, eps)));
      total += losses.back() * mean_scale(c);
      if (ignored || label >= kClasses) continue;
      slopes[i * kClasses + label] = g.get(c.reduction == "none" ? i : 0) * mean_scale(c) *
                                     (c.log_prob ? -1 : -1 / std::max(p, slope_eps));
    }
    run_kernel("Nll", loss_attributes(c), {&probs, &labels}, {&loss});
    expect_close(loss, c.reduction == "none" ? losses : std::vector<double>{total},
                 epsilon_of(c.dtype));
    run_kernel("NllGrad", loss_attributes(c), {&g, &probs, &labels}, {&dx});
    expect_close(dx, slopes, epsilon_of(c.dtype));
  }
}

TEST(NlllWithSoftmaxGradDirect, MatchesLoops) {
  for (const LossCase& c : loss_cases()) {
    if (c.log_prob) continue;
    for (const DType grad_dtype : {DType::Float32, c.dtype}) {
      const Shape loss_shape = c.reduction == "none" ? Shape{kRows} : Shape{};
      TestTensor probs(c.dtype, {kRows, kClasses}), labels(DType::Int32, {kRows});
      TestTensor grad(grad_dtype, loss_shape), loss(c.dtype, loss_shape),
          dx(c.dtype, probs.shape());
      probs.randomise(18, 0.01, 1);
      labels.fill(kLabels);
      grad.randomise(19, 1, 3);
      std::vector<double> losses, wanted;
      double total = 0;
      for (int i = 0; i < kRows; ++i) {
        const int label = static_cast<int>(kLabels[i]);
        const bool ignored = c.ignore && label == 2;
        const double p = label < kClasses ? probs.get(i * kClasses + label) : 0.0;
        losses.push_back(ignored ? 0 : -std::log(p + 1e-7));
        total += losses.back() * mean_scale(c);
        for (int j = 0; j < kClasses; ++j) {
          const double d = probs.get(i * kClasses + j) - (j == label ? 1 : 0);
          wanted.push_back(ignored ? 0
                                   : d * mean_scale(c) * grad.get(c.reduction == "none" ? i : 0));
        }
      }
      run_kernel("NlllWithSoftmaxGradDirect", loss_attributes(c), {&probs, &labels, &grad},
                 {&loss, &dx});
      expect_close(loss, c.reduction == "none" ? losses : std::vector<double>{total},
                   epsilon_of(c.dtype));
      expect_close(dx, wanted, epsilon_of(c.dtype) * 2);
    }
  }
}

TEST(NlllWithSoftmaxGradDirect, TakesScoresAsSoftmaxAndLossDo) {
  for (const LossCase& c : loss_cases()) {
    if (c.log_prob || c.dtype != DType::Float32) continue;
    const Shape loss_shape = c.reduction == "none" ? Shape{kRows} : Shape{};
    TestTensor scores(c.dtype, {kRows, kClasses}), probs(c.dtype, scores.shape());
    TestTensor labels(DType::Int32, {kRows}), grad(DType::Float16, loss_shape);
    TestTensor loss(c.dtype, loss_shape), dx(c.dtype, scores.shape());
    TestTensor wanted_loss(c.dtype, loss_shape), wanted(c.dtype, scores.shape());
    scores.randomise(21, -30, 30);
    scores.set(1, std::numeric_limits<double>::quiet_NaN());
    scores.set(kClasses, -std::numeric_limits<double>::infinity());
    labels.fill(kLabels);
    grad.randomise(22, 1, 3);
    Attributes attributes = loss_attributes(c);
    run_kernel("Softmax", {{"axis", std::int64_t{1}}}, {&scores}, {&probs});
    run_kernel("NlllWithSoftmaxGradDirect", attributes, {&probs, &labels, &grad},
               {&wanted_loss, &wanted});
    attributes.set("from_scores", true);
    for (const int threads : {1, 2}) {
      run_kernel("NlllWithSoftmaxGradDirect", attributes, {&scores, &labels, &grad}, {&loss, &dx},
                 threads);
      expect_close(loss, wanted_loss.values(), 0);
      expect_close(dx, wanted.values(), 0);
    }
  }
}

TEST(NlllWithSoftmaxGradDirect, EverythingIgnoredGivesZeros) {
  TestTensor probs(DType::Float32, {2, 3}), labels(DType::Int32, {2});
  TestTensor loss(DType::Float32, {}), dx(DType::Float32, {2, 3});
  probs.randomise(20, 0, 1);
  labels.fill({2, 2});
  run_kernel("NlllWithSoftmaxGradDirect",
             {{"reduction", std::string("mean")}, {"ignore_index", std::int64_t{2}}},
             {&probs, &labels, nullptr}, {&loss, &dx});
  expect_close(loss, {0}, 0);
  expect_close(dx, std::vector<double>(6, 0.0), 0);
}

TEST(Nll, RejectsLabelsOfTheWrongShape) {
  TestTensor probs(DType::Float32, {2, 3}), labels(DType::Int32, {3}), loss(DType::Float32, {});
  const std::string error = error_of([&] {
    run_kernel("Nll", {{"reduction", std::string("mean")}}, {&probs, &labels}, {&loss});
  });
  EXPECT_NE(error.find("(3,) int32 for (2, 3) float32"), std::string::npos) << error;
}

INSTANTIATE_TEST_SUITE_P(Targets, SoftmaxOnTarget, kSimdTargets, target_name);

}  // namespace
}  // namespace pando::testing
