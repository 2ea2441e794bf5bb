#include "kernel_test_util.hpp"
#include "tests/cpp/backends/simd_targets.hpp"

namespace pando::testing {
namespace {

class NormOnTarget : public SimdTargetTest {};

struct NormCase {
  Shape shape;
  std::int64_t groups;
  bool strided = false;
};

const std::vector<NormCase> kCases = {
    {{4, 16}, 1},         {{3, 1}, 1},       {{40, 37}, 1},   {{2, 6, 5}, 3}, {{2, 6, 4, 3}, 2},
    {{2, 6, 5}, 3, true}, {{1, 4, 5000}, 2}, {{17, 8, 1}, 4}, {{0, 4}, 2},    {{3, 6000}, 1}};

struct Statistics {
  std::vector<double> mean, inv_std;
};

struct Layout {
  std::int64_t samples, channels, spatial, groups;
  bool strided;
  explicit Layout(const NormCase& c)
      : samples(c.shape[0]),
        channels(c.shape[1]),
        spatial(1),
        groups(c.groups),
        strided(c.strided) {
    for (std::size_t d = 2; d < c.shape.size(); ++d) spatial *= c.shape[d];
  }
  std::int64_t channel(std::int64_t i) const { return i / spatial % channels; }
  std::size_t row(std::int64_t i) const {
    const std::int64_t c = channel(i);
    const std::int64_t group = strided ? c % groups : c / (channels / groups);
    return static_cast<std::size_t>(i / spatial / channels * groups + group);
  }
  double count() const {
    const std::int64_t elements = channels / groups * spatial;
    return double(elements);
  }
};

constexpr double kEps = 1e-3;

Statistics statistics(const TestTensor& x, const Layout& layout) {
  const auto rows = static_cast<std::size_t>(layout.samples * layout.groups);
  Statistics s{std::vector<double>(rows), std::vector<double>(rows)};
  for (std::int64_t i = 0; i < x.size(); ++i) s.mean[layout.row(i)] += x.get(i) / layout.count();
  for (std::int64_t i = 0; i < x.size(); ++i) {
    s.inv_std[layout.row(i)] += std::pow(x.get(i) - s.mean[layout.row(i)], 2) / layout.count();
  }
  for (double& v : s.inv_std) v = 1 / std::sqrt(v + kEps);
  return s;
}

Attributes attributes_of(const NormCase& c) {
  return {{"num_groups", c.groups}, {"eps", kEps}, {"strided_channel_grouping", c.strided}};
}

TEST_P(NormOnTarget, GroupNormalizationMatchesLoops) {
  for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64}) {
    for (const NormCase& c : kCases) {
      const Layout layout(c);
      const std::int64_t rows = layout.samples * layout.groups;
      TestTensor x(dtype, c.shape), weight(dtype, {layout.channels}),
          bias(dtype, {layout.channels});
      TestTensor y(dtype, c.shape), mean(dtype, {rows}), inv_std(dtype, {rows});
      x.randomise(30, 3, 7);
      weight.randomise(31);
      bias.randomise(32);
      const std::string why = run_kernel("GroupNormalization", attributes_of(c),
                                         {&x, &weight, &bias}, {&y, &mean, &inv_std});
      const Statistics s = statistics(x, layout);
      std::vector<double> wanted;
      for (std::int64_t i = 0; i < x.size(); ++i) {
        const std::int64_t ch = layout.channel(i);
        wanted.push_back((x.get(i) - s.mean[layout.row(i)]) * s.inv_std[layout.row(i)] *
                             weight.get(ch) +
                         bias.get(ch));
      }
      expect_close(y, wanted, 3 * epsilon_of(dtype), why + shape_text(c.shape));
      expect_close(mean, s.mean, epsilon_of(dtype), why);
      expect_close(inv_std, s.inv_std, 2 * epsilon_of(dtype), why);
    }
  }
}

TEST_P(NormOnTarget, GradientsMatchLoopsForAnyThreadCount) {
  for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64}) {
    for (const NormCase& c : kCases) {
      const Layout layout(c);
      const std::int64_t rows = layout.samples * layout.groups;
      TestTensor g(dtype, c.shape), x(dtype, c.shape), weight(dtype, {layout.channels});
      TestTensor mean(dtype, {rows}), inv_std(dtype, {rows});
      g.randomise(33);
      x.randomise(34, 3, 7);
      weight.randomise(35);
      const Statistics s = statistics(x, layout);
      mean.fill(s.mean);
      inv_std.fill(s.inv_std);
      const auto xhat = [&](std::int64_t i) {
        const auto r = static_cast<std::int64_t>(layout.row(i));
        return (x.get(i) - mean.get(r)) * inv_std.get(r);
      };
      std::vector<double> h(static_cast<std::size_t>(rows)), hx(h.size()), wanted;
      std::vector<double> dw(static_cast<std::size_t>(layout.channels)), db(dw.size());
      for (std::int64_t i = 0; i < x.size(); ++i) {
        const auto ch = static_cast<std::size_t>(layout.channel(i));
        const double e = g.get(i) * weight.get(static_cast<std::int64_t>(ch));
        dw[ch] += g.get(i) * xhat(i);
        db[ch] += g.get(i);
        h[layout.row(i)] += e / layout.count();
        hx[layout.row(i)] += e * xhat(i) / layout.count();
      }
      for (std::int64_t i = 0; i < x.size(); ++i) {
        const std::size_t r = layout.row(i);
        wanted.push_back(inv_std.get(static_cast<std::int64_t>(r)) *
                         (g.get(i) * weight.get(layout.channel(i)) - h[r] - xhat(i) * hx[r]));
      }
      std::vector<std::vector<double>> results;
      for (const int threads : {1, 2, 3}) {
        TestTensor dx(dtype, c.shape), dweight(dtype, {layout.channels}),
            dbias(dtype, {layout.channels});
        const std::string why =
            run_kernel("GroupNormalizationGrad", attributes_of(c),
                       {&g, &x, &weight, &mean, &inv_std}, {&dx, &dweight, &dbias}, threads);
        expect_close(dx, wanted, 5 * epsilon_of(dtype), why + shape_text(c.shape));
        expect_close(dweight, dw, 5 * epsilon_of(dtype), why + shape_text(c.shape));
        expect_close(dbias, db, 5 * epsilon_of(dtype), why + shape_text(c.shape));
        results.push_back(dweight.values());
      }
      EXPECT_EQ(results[0], results[1]);
      EXPECT_EQ(results[0], results[2]);
    }
  }
}

TEST(GroupNormalization, RejectsGroupsThatDoNotDivide) {
  TestTensor x(DType::Float32, {2, 5}), w(DType::Float32, {5}), s(DType::Float32, {4});
  const std::string error = error_of([&] {
    run_kernel("GroupNormalization", attributes_of({{2, 5}, 2}), {&x, &w, &w}, {&x, &s, &s});
  });
  EXPECT_NE(error.find("5 channels cannot form 2 groups"), std::string::npos) << error;
}

INSTANTIATE_TEST_SUITE_P(Targets, NormOnTarget, kSimdTargets, target_name);

}  // namespace
}  // namespace pando::testing
