#include <algorithm>
#include <limits>

#include "kernel_test_util.hpp"
#include "tests/cpp/backends/simd_targets.hpp"

namespace pando::testing {
namespace {

struct ConvCase {
  Shape data, weights;  // (N, C, ...), (M, C / groups, ...)
  Ints strides, pads, dilations;
  std::int64_t groups = 1;
  DType dtype = DType::Float32;
};

Shape result_shape(const ConvCase& c) {
  Shape shape = {c.data[0], c.weights[0]};
  const std::size_t rank = c.strides.size();
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t room =
        c.data[d + 2] + c.pads[d] + c.pads[rank + d] - 1 - c.dilations[d] * (c.weights[d + 2] - 1);
    shape.push_back(room / c.strides[d] + 1);
  }
  return shape;
}

/// Coordinates of element `index`.
Shape coordinates(const Shape& shape, std::int64_t index) {
  Shape at(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    at[d] = index % shape[d];
    index /= shape[d];
  }
  return at;
}

std::int64_t index_of(const Shape& shape, const Shape& at) {
  std::int64_t index = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) index = index * shape[d] + at[d];
  return index;
}

/// Calls body(data, weight, result) for all elements that meet.
template <class Body>
void for_pairs(const ConvCase& c, const Shape& result, const Body& body) {
  const Shape window(c.weights.begin() + 1, c.weights.end());
  std::vector<Shape> taps(static_cast<std::size_t>(num_elements(window)));
  for (std::size_t k = 0; k < taps.size(); ++k) {
    taps[k] = coordinates(window, static_cast<std::int64_t>(k));
  }
  const std::int64_t count = num_elements(result), num_taps = num_elements(window);
  for (std::int64_t o = 0; o < count; ++o) {
    const Shape out = coordinates(result, o);
    const std::int64_t group = out[1] / (c.weights[0] / c.groups);
    const std::int64_t first = out[0] * c.data[1] + group * c.weights[1];
    for (std::int64_t k = 0; k < num_taps; ++k) {
      const std::int64_t* tap = taps[static_cast<std::size_t>(k)].data();
      std::int64_t index = first + tap[0];
      bool inside = true;
      for (std::size_t d = 0; d < c.strides.size() && inside; ++d) {
        const std::int64_t at = out[d + 2] * c.strides[d] - c.pads[d] + tap[d + 1] * c.dilations[d];
        inside = at >= 0 && at < c.data[d + 2];
        index = index * c.data[d + 2] + at;
      }
      if (inside) body(index, out[1] * num_taps + k, o);
    }
  }
}

std::vector<ConvCase> conv_cases() {
  std::vector<ConvCase> cases = {
      {{2, 3, 8, 7}, {4, 3, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
      {{1, 4, 9, 9}, {6, 2, 3, 2}, {2, 1}, {0, 1, 2, 0}, {1, 2}, 2},
      {{1, 16, 8, 8}, {16, 16, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
      {{2, 3, 11}, {5, 3, 4}, {3}, {2, 1}, {1}},
      {{1, 2, 5, 4, 6}, {3, 2, 2, 3, 2}, {1, 2, 1}, {0, 1, 0, 1, 0, 1}, {1, 1, 2}},
      {{1, 8, 6, 6}, {8, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 8},
      {{1, 1, 28, 28}, {8, 1, 5, 5}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
      {{0, 3, 8, 7}, {4, 3, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
      // Weights that several threads bring into oneDNN's layout.
      {{2, 32, 8, 8}, {32, 32, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
      {{2, 40, 5, 6}, {24, 40, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
      {{2, 64, 4, 5}, {160, 32, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 2},
  };
  const std::size_t count = cases.size();
  for (std::size_t i = 0; i < count; ++i) {
    for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float64}) {
      cases.push_back(cases[i]);
      cases.back().dtype = dtype;
    }
  }
  return cases;
}

TEST(Conv, AllPassesMatchLoops) {
  for (const ConvCase& c : conv_cases()) {
    const Shape shape = result_shape(c);
    TestTensor data(c.dtype, c.data), weights(c.dtype, c.weights), g(c.dtype, shape);
    data.randomise(40, -1, 1);
    weights.randomise(41, -1, 1);
    g.randomise(42, -1, 1);
    std::vector<double> result(static_cast<std::size_t>(g.size()));
    std::vector<double> ddata(static_cast<std::size_t>(data.size()));
    std::vector<double> dweights(static_cast<std::size_t>(weights.size()));
    for_pairs(c, shape, [&](std::int64_t x, std::int64_t w, std::int64_t o) {
      result[o] += data.get(x) * weights.get(w);
      ddata[x] += g.get(o) * weights.get(w);
      dweights[w] += g.get(o) * data.get(x);
    });
    const Attributes attributes = {
        {"strides", c.strides}, {"pads", c.pads}, {"dilations", c.dilations}, {"groups", c.groups}};
    const double tolerance = is_half_precision(c.dtype) ? 2 * epsilon_of(c.dtype) : 2e-5;
    TestTensor out(c.dtype, shape), dx(c.dtype, c.data), dw(c.dtype, c.weights);
    Attributes backward = attributes;
    backward.set("input_shape", Ints(c.data));
    backward.set("weight_shape", Ints(c.weights));
    for (const int threads : {1, 2, 3}) {
      std::string why = run_kernel("Conv", attributes, {&data, &weights}, {&out}, threads);
      expect_close(out, result, tolerance, why);
      why = run_kernel("ConvDataGrad", backward, {&weights, &g}, {&dx}, threads);
      expect_close(dx, ddata, tolerance, why);
      why = run_kernel("ConvWeightsGrad", backward, {&data, &g}, {&dw}, threads);
      expect_close(dw, dweights, tolerance, why);
    }
  }
}

/// Elements of (N, C, spatial...) as (N, spatial..., C).
std::vector<double> with_channels_last(const Shape& shape, const std::vector<double>& values) {
  Shape last = shape;
  std::rotate(last.begin() + 1, last.begin() + 2, last.end());
  std::vector<double> moved(values.size());
  for (std::int64_t i = 0; i < num_elements(shape); ++i) {
    Shape at = coordinates(shape, i);
    std::rotate(at.begin() + 1, at.begin() + 2, at.end());
    moved[static_cast<std::size_t>(index_of(last, at))] = values[static_cast<std::size_t>(i)];
  }
  return moved;
}

TEST(Conv, RowsOfFewSamplesAreSpreadOverThreads) {
  const std::vector<ConvCase> cases = {
      {{1, 16, 21, 19}, {24, 16, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
      {{2, 16, 60, 29}, {24, 8, 3, 2}, {2, 1}, {2, 1, 3, 0}, {2, 1}, 2},
      {{1, 3, 64, 64}, {20, 3, 5, 5}, {3, 3}, {2, 2, 2, 2}, {1, 1}},
      {{1, 32, 500}, {24, 32, 3}, {1}, {1, 1}, {1}},
      {{1, 8, 11, 10, 9}, {16, 8, 3, 3, 2}, {1, 2, 1}, {1, 0, 0, 1, 1, 1}, {1, 1, 2}},
  };
  for (const ConvCase& c : cases) {
    const Shape shape = result_shape(c);
    TestTensor data(c.dtype, c.data), weights(c.dtype, c.weights);
    data.randomise(45, -1, 1);
    weights.randomise(46, -1, 1);
    std::vector<double> wanted(static_cast<std::size_t>(num_elements(shape)));
    for_pairs(c, shape, [&](std::int64_t x, std::int64_t w, std::int64_t o) {
      wanted[o] += data.get(x) * weights.get(w);
    });
    Attributes attributes = {
        {"strides", c.strides}, {"pads", c.pads}, {"dilations", c.dilations}, {"groups", c.groups}};
    for (const int threads : {2, 5}) {
      TestTensor out(c.dtype, shape);
      const std::string why = run_kernel("Conv", attributes, {&data, &weights}, {&out}, threads);
      expect_close(out, wanted, 2e-5, why);
      const bool has_few = c.data[0] * 2 <= threads;
      EXPECT_EQ(why.find("parts of rows") != std::string::npos, has_few) << why;
      Shape last_data = c.data, last_shape = shape;
      for (Shape* s : {&last_data, &last_shape})
        std::rotate(s->begin() + 1, s->begin() + 2, s->end());
      TestTensor data_last(c.dtype, last_data), out_last(c.dtype, last_shape);
      data_last.fill(with_channels_last(c.data, data.values()));
      Attributes last = attributes;
      last.set("channel_last", true);
      const std::string how =
          run_kernel("Conv", last, {&data_last, &weights}, {&out_last}, threads);
      expect_close(out_last, with_channels_last(shape, wanted), 2e-5, how);
    }
  }
}

TEST(Conv, RowsThatSeePaddingOnlyAreNotCutOff) {
  const ConvCase c{{1, 16, 4, 64}, {32, 16, 3, 3}, {1, 1}, {9, 1, 9, 1}, {1, 1}};
  const Shape shape = result_shape(c);
  TestTensor data(c.dtype, c.data), weights(c.dtype, c.weights), out(c.dtype, shape);
  data.randomise(47, -1, 1);
  weights.randomise(48, -1, 1);
  std::vector<double> wanted(static_cast<std::size_t>(num_elements(shape)));
  for_pairs(c, shape, [&](std::int64_t x, std::int64_t w, std::int64_t o) {
    wanted[o] += data.get(x) * weights.get(w);
  });
  const Attributes attributes = {
      {"strides", c.strides}, {"pads", c.pads}, {"dilations", c.dilations}, {"groups", c.groups}};
  const std::string why = run_kernel("Conv", attributes, {&data, &weights}, {&out}, 8);
  expect_close(out, wanted, 2e-5, why);
}

TEST(Conv, PreparedWeightsAreTheSameWeights) {
  const std::vector<ConvCase> cases = {
      {{4, 32, 9, 9}, {160, 32, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
      {{1, 16, 21, 19}, {24, 8, 3, 3}, {2, 1}, {1, 1, 1, 1}, {1, 1}, 2},
      {{3, 64, 7, 7}, {256, 64, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
  };
  int count = 0;
  for (const ConvCase& c : cases) {
    const Shape shape = result_shape(c);
    TestTensor data(c.dtype, c.data), weights(c.dtype, c.weights), g(c.dtype, shape);
    data.randomise(49, -1, 1);
    weights.randomise(50, -1, 1);
    g.randomise(51, -1, 1);
    TestTensor out(c.dtype, shape), plain(c.dtype, shape), dx(c.dtype, c.data), dplain = dx;
    Attributes attributes = {
        {"strides", c.strides}, {"pads", c.pads}, {"dilations", c.dilations}, {"groups", c.groups}};
    for (const int threads : {1, 2}) {
      run_kernel("Conv", attributes, {&data, &weights}, {&plain}, threads);
      count +=
          run_prepared_kernel("Conv", attributes, {&data, &weights}, {&out}, threads).size() > 0;
      expect_close(out, plain.values(), 0);
      Attributes backward = attributes;
      backward.set("input_shape", Ints(c.data));
      run_kernel("ConvDataGrad", backward, {&weights, &g}, {&dplain}, threads);
      count +=
          run_prepared_kernel("ConvDataGrad", backward, {&weights, &g}, {&dx}, threads).size() > 0;
      expect_close(dx, dplain.values(), 0);
    }
  }
  EXPECT_GT(count, 0);
}

/// A convolution with channels last, and what its passes give by loops. `how`: what the kernels say
/// of themselves. `prepared`: the filters are, and the gradient of the filters is not computed.
void expect_channels_last(const ConvCase& c, const char* how, bool prepared = false,
                          double tolerance = 2e-5) {
  const Shape shape = result_shape(c);
  TestTensor data(c.dtype, c.data), weights(c.dtype, c.weights), g(c.dtype, shape);
  data.randomise(52, -1, 1);
  weights.randomise(53, -1, 1);
  g.randomise(54, -1, 1);
  std::vector<double> result(static_cast<std::size_t>(g.size()));
  std::vector<double> ddata(static_cast<std::size_t>(data.size()));
  std::vector<double> dweights(static_cast<std::size_t>(weights.size()));
  const std::vector<double> x_values = data.values(), w_values = weights.values();
  const std::vector<double> g_values = g.values();
  for_pairs(c, shape, [&](std::int64_t x, std::int64_t w, std::int64_t o) {
    result[o] += x_values[x] * w_values[w];
    ddata[x] += g_values[o] * w_values[w];
    dweights[w] += g_values[o] * x_values[x];
  });
  Shape last_data = c.data, last_shape = shape;
  for (Shape* s : {&last_data, &last_shape}) std::rotate(s->begin() + 1, s->begin() + 2, s->end());
  TestTensor data_last(c.dtype, last_data), g_last(c.dtype, last_shape), out(c.dtype, last_shape);
  TestTensor dx(c.dtype, last_data), dw(c.dtype, c.weights);
  data_last.fill(with_channels_last(c.data, x_values));
  g_last.fill(with_channels_last(shape, g_values));
  Attributes attributes = {{"strides", c.strides},
                           {"pads", c.pads},
                           {"dilations", c.dilations},
                           {"groups", c.groups},
                           {"channel_last", true}};
  attributes.set("input_shape", Ints(last_data));
  attributes.set("weight_shape", Ints(c.weights));
  const auto expect = [&](const char* kind, const std::vector<TestTensor*>& inputs, TestTensor& got,
                          const std::vector<double>& wanted) {
    for (const int threads : {1, 2}) {
      const std::string why = prepared
                                  ? run_prepared_kernel(kind, attributes, inputs, {&got}, threads)
                                  : run_kernel(kind, attributes, inputs, {&got}, threads);
      EXPECT_NE(why.find(how), std::string::npos) << why;
      expect_close(got, wanted, tolerance, why);
    }
  };
  expect("Conv", {&data_last, &weights}, out, with_channels_last(shape, result));
  expect("ConvDataGrad", {&weights, &g_last}, dx, with_channels_last(c.data, ddata));
  if (!prepared) expect("ConvWeightsGrad", {&data_last, &g_last}, dw, dweights);
}

class ConvOnTarget : public SimdTargetTest {};

TEST_P(ConvOnTarget, FewProductsGiveTheSameSums) {
  const std::vector<ConvCase> cases = {
      {{3, 32, 16, 18}, {32, 32, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
      {{2, 48, 23, 19}, {32, 48, 3, 3}, {1, 1}, {0, 2, 1, 0}, {1, 1}},
      {{1, 32, 25, 33}, {48, 32, 3, 3}, {1, 1}, {3, 0, 0, 2}, {1, 1}},
  };
  for (const ConvCase& c : cases) {
    expect_channels_last(c, "winograd");
    expect_channels_last(c, "winograd", true);
  }
}

TEST(Conv, StridesOverFewChannelsStayInTheirScratch) {
  for (const std::int64_t channels : {1, 3, 5, 12, 20}) {
    SCOPED_TRACE(str_cat(channels, " channels"));
    // Gradients of weights are sums over thousands of pixels.
    expect_channels_last(
        {{2, channels, 96, 96}, {48, channels, 1, 1}, {2, 2}, {0, 0, 0, 0}, {1, 1}}, "", false,
        2e-4);
  }
}

/// The kernel for depthwise filters sums what plain loops do.
void expect_depthwise_gradient(const ConvCase& c) {
  const Shape shape = result_shape(c);
  TestTensor data(c.dtype, c.data), g(c.dtype, shape), dw(c.dtype, c.weights);
  data.randomise(61, -1, 1);
  g.randomise(62, -1, 1);
  std::vector<double> wanted(static_cast<std::size_t>(dw.size()));
  for_pairs(c, shape, [&](std::int64_t x, std::int64_t w, std::int64_t o) {
    wanted[w] += g.get(o) * data.get(x);
  });
  Shape last_data = c.data, last_shape = shape;
  for (Shape* s : {&last_data, &last_shape}) std::rotate(s->begin() + 1, s->begin() + 2, s->end());
  TestTensor data_last(c.dtype, last_data), g_last(c.dtype, last_shape);
  data_last.fill(with_channels_last(c.data, data.values()));
  g_last.fill(with_channels_last(shape, g.values()));
  Attributes attributes = {{"strides", c.strides},
                           {"pads", c.pads},
                           {"dilations", c.dilations},
                           {"groups", c.groups},
                           {"weight_shape", Ints(c.weights)}};
  for (const int threads : {1, 2, 3}) {
    attributes.set("channel_last", false);
    std::string why = run_kernel("ConvWeightsGrad", attributes, {&data, &g}, {&dw}, threads);
    EXPECT_NE(why.find("depthwise"), std::string::npos) << why;
    expect_close(dw, wanted, 2e-5, why);
    attributes.set("channel_last", true);
    why = run_kernel("ConvWeightsGrad", attributes, {&data_last, &g_last}, {&dw}, threads);
    EXPECT_EQ(why.find("depthwise") != std::string::npos, num_elements(c.weights) > 9 * c.groups);
    expect_close(dw, wanted, 2e-5, why);
  }
}

TEST_P(ConvOnTarget, GradientsOfDepthwiseFiltersMatchLoops) {
  const std::vector<ConvCase> cases = {
      {{2, 8, 14, 14}, {8, 1, 7, 7}, {1, 1}, {3, 3, 3, 3}, {1, 1}, 8},
      {{1, 5, 9, 11}, {5, 1, 3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 5},
      {{3, 6, 12, 13}, {6, 1, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 6},
      {{2, 7, 17, 19}, {7, 1, 5, 2}, {2, 3}, {0, 2, 1, 0}, {1, 2}, 7},
      {{1, 4, 6, 33}, {4, 1, 2, 5}, {3, 1}, {2, 0, 0, 4}, {2, 3}, 4},
      {{1, 3, 1, 1}, {3, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 3},
      {{2, 4, 10, 10}, {4, 1, 1, 1}, {2, 2}, {0, 0, 0, 0}, {1, 1}, 4},
      {{2, 35, 7, 9}, {35, 1, 5, 5}, {1, 1}, {2, 2, 2, 2}, {1, 1}, 35},
      {{3, 48, 11, 8}, {48, 1, 4, 4}, {2, 2}, {1, 2, 1, 2}, {1, 1}, 48},
  };
  for (const ConvCase& c : cases) expect_depthwise_gradient(c);
}

/// Padding on any side alone is outside the data, where neighbouring rows and planes are not seen.
TEST_P(ConvOnTarget, GradientsOfDepthwiseFiltersMatchLoopsWithPadsOnAnySide) {
  for (int sides = 0; sides < 16; ++sides) {
    const auto pad = [&](int side) { return (sides >> side & 1) == 0 ? 0 : 2; };
    for (const std::int64_t stride : {1, 2}) {
      expect_depthwise_gradient(
          {{2, 3, 5, 6}, {3, 1, 3, 4}, {2, stride}, {pad(0), pad(1), pad(2), pad(3)}, {1, 1}, 3});
    }
  }
  expect_depthwise_gradient({{1, 3, 1, 3}, {3, 1, 2, 1}, {2, 1}, {0, 0, 2, 2}, {1, 1}, 3});
}

TEST(Conv, WhatGradientsOfDepthwiseFiltersDoNotMeetIsLeftOut) {
  // The last columns are seen by no window: nothing of them may reach a sum.
  const ConvCase c{{1, 2, 5, 12}, {2, 1, 3, 3}, {1, 4}, {0, 0, 0, 0}, {1, 1}, 2};
  const Shape shape = result_shape(c);
  TestTensor data(c.dtype, c.data), g(c.dtype, shape), dw(c.dtype, c.weights);
  data.randomise(63, -1, 1);
  g.randomise(64, -1, 1);
  std::vector<double> values = data.values();
  for (std::size_t i = 11; i < values.size(); i += 12) {
    values[i] = std::numeric_limits<double>::quiet_NaN();
  }
  data.fill(values);
  run_kernel("ConvWeightsGrad",
             {{"strides", c.strides},
              {"pads", c.pads},
              {"dilations", c.dilations},
              {"groups", c.groups},
              {"weight_shape", Ints(c.weights)}},
             {&data, &g}, {&dw});
  for (const double value : dw.values()) EXPECT_FALSE(std::isnan(value));
}

TEST(Conv, PreparedFiltersPayWithFewerTiles) {
  const ConvCase c{{1, 32, 16, 16}, {48, 32, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}};
  expect_channels_last(c, "winograd", true);
}

TEST(Conv, ManyFiltersTakeMemoryOnceForAllThreads) {
  const ConvCase c{{1, 256, 23, 22}, {256, 256, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}};
  const Attributes attributes = {{"strides", c.strides},     {"pads", c.pads},
                                 {"dilations", c.dilations}, {"groups", c.groups},
                                 {"channel_last", true},     {"weight_shape", Ints(c.weights)}};
  const Shape last = {1, 23, 22, 256};
  TestTensor data(c.dtype, last), g(c.dtype, last), dw(c.dtype, c.weights);
  data.randomise(55, -1, 1);
  g.randomise(56, -1, 1);
  const std::string why = run_kernel("ConvWeightsGrad", attributes, {&data, &g}, {&dw}, 2);
  EXPECT_NE(why.find("winograd"), std::string::npos) << why;
  for (std::int64_t i = 0; i < dw.size(); i += 4999) {
    const std::int64_t map = i / (9 * 256), channel = i / 9 % 256, row = i / 3 % 3, column = i % 3;
    double wanted = 0;
    for (std::int64_t o = 0; o < std::int64_t{23} * 22; ++o) {
      const std::int64_t y = o / 22 + row - 1, x = o % 22 + column - 1;
      if (y < 0 || y >= 23 || x < 0 || x >= 22) continue;
      wanted += g.get(o * 256 + map) * data.get((y * 22 + x) * 256 + channel);
    }
    ASSERT_NEAR(dw.get(i), wanted, 2e-5 * std::max(1.0, std::abs(wanted))) << why;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ConvOnTarget, kSimdTargets, target_name);

TEST(ConvDataGrad, DropsPositionsOutsideAndTakesNegativePads) {
  const ConvCase c{{1, 2, 9}, {3, 2, 3}, {2}, {-1, -2}, {1}};
  TestTensor weights(DType::Float32, c.weights), g(DType::Float32, {1, 3, 5});
  TestTensor dx(DType::Float32, c.data);
  weights.randomise(43);
  g.randomise(44);
  std::vector<double> wanted(18);
  for_pairs(c, g.shape(), [&](std::int64_t x, std::int64_t w, std::int64_t o) {
    wanted[x] += g.get(o) * weights.get(w);
  });
  const std::string why = run_kernel("ConvDataGrad",
                                     {{"strides", c.strides},
                                      {"pads", c.pads},
                                      {"dilations", c.dilations},
                                      {"groups", c.groups},
                                      {"input_shape", Ints(c.data)}},
                                     {&weights, &g}, {&dx});
  expect_close(dx, wanted, 1e-5, why);
}

TEST(Pool, ValuesAndGradientsMatchLoops) {
  const std::vector<ConvCase> cases = {
      {{2, 3, 8, 7}, {3, 1, 2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}},
      {{1, 2, 9, 9}, {2, 1, 3, 3}, {2, 1}, {1, 1, 1, 1}, {1, 2}},
      {{2, 1, 11}, {1, 1, 4}, {3}, {2, 1}, {1}},
      {{1, 2, 5, 4, 6}, {2, 1, 2, 3, 2}, {1, 2, 1}, {0, 1, 0, 1, 0, 1}, {1, 1, 2}},
      {{2, 2, 6, 44}, {2, 1, 2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}},
      {{2, 3, 8, 8}, {3, 1, 4, 2}, {4, 2}, {0, 0, 0, 0}, {1, 1}},
      {{1, 2, 4, 80}, {2, 1, 2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}},
      {{2, 2, 4, 6, 8}, {2, 1, 2, 3, 2}, {2, 3, 2}, {0, 0, 0, 0, 0, 0}, {1, 1, 1}},
      {{3, 1, 34}, {1, 1, 2}, {2}, {0, 0}, {1}},
      {{1, 2, 6, 43}, {2, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
      {{1, 2, 6, 45}, {2, 1, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
      {{1, 2, 6, 45}, {2, 1, 3, 3}, {3, 3}, {0, 0, 0, 0}, {1, 1}},
      {{1, 2, 6, 45}, {2, 1, 2, 2}, {3, 3}, {0, 0, 0, 0}, {2, 2}},
      {{1, 5, 1}, {5, 1, 2}, {2}, {2, 0}, {2}},  // the first cell lies outside everywhere
  };
  for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64}) {
    for (ConvCase c : cases) {
      const Shape shape = result_shape(c);
      c.groups = c.data[1];  // a pool is a depthwise window
      TestTensor x(dtype, c.data), g(dtype, shape), top(dtype, shape), mean(dtype, shape);
      for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, double(i * 7 % 5) - 2);  // many ties
      g.randomise(45, -1, 1);
      const auto outputs = static_cast<std::size_t>(g.size());
      std::vector<double> max(outputs, -INFINITY), sum(outputs), count(outputs);
      for_pairs(c, shape, [&](std::int64_t i, std::int64_t, std::int64_t o) {
        max[o] = std::max(max[o], x.get(i));
        sum[o] += x.get(i);
        count[o] += 1;
      });
      std::vector<double> dmax(static_cast<std::size_t>(x.size())), dmean(dmax.size());
      for_pairs(c, shape, [&](std::int64_t i, std::int64_t, std::int64_t o) {
        if (x.get(i) == max[o]) dmax[i] += g.get(o);
        dmean[i] += g.get(o) / count[o];
      });
      for (std::size_t o = 0; o < outputs; ++o) sum[o] /= count[o];
      Attributes attributes = {{"kernel_size", Ints(c.weights.begin() + 2, c.weights.end())},
                               {"strides", c.strides},
                               {"pads", c.pads},
                               {"dilations", c.dilations}};
      TestTensor dx(dtype, c.data);
      run_kernel("MaxPool", attributes, {&x}, {&top});
      expect_close(top, max, 0);
      run_kernel("MaxPoolGrad", attributes, {&x, &top, &g}, {&dx});
      expect_close(dx, dmax, epsilon_of(dtype));
      run_kernel("AveragePool", attributes, {&x}, {&mean});
      expect_close(mean, sum, epsilon_of(dtype));
      attributes.set("input_shape", Ints(c.data));
      run_kernel("AveragePoolGrad", attributes, {&g}, {&dx});
      expect_close(dx, dmean, epsilon_of(dtype));
    }
  }
}

}  // namespace
}  // namespace pando::testing
