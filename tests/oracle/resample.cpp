// Resize and region-of-interest alignment.
#include <algorithm>
#include <array>
#include <cmath>

#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

/// What an output coordinate takes from its dimension: input coordinates with weights.
using Terms = std::vector<std::pair<std::int64_t, Number>>;

Number source_coordinate(const std::string& mode, Number i, Number n, Number scale) {
  const Number half_pixel = (i + 0.5L) / scale - 0.5L;
  if (mode == "half_pixel") return half_pixel;
  if (mode == "pytorch_half_pixel") return n * scale > 1.0L ? half_pixel : 0.0L;
  if (mode == "asymmetric") return i / scale;
  return n * scale == 1.0L ? 0.0L : i * (n - 1.0L) / (n * scale - 1.0L);
}

Number nearest(const std::string& mode, Number x) {
  if (mode == "round_prefer_floor") return std::ceil(x - 0.5L);
  if (mode == "round_prefer_ceil") return std::round(x);
  return mode == "floor" ? std::floor(x) : std::ceil(x);
}

Number cubic_weight(Number distance) {
  constexpr Number a = -0.75L;
  const Number d = std::fabs(distance);
  if (d <= 1.0L) return (a + 2.0L) * d * d * d - (a + 3.0L) * d * d + 1.0L;
  if (d < 2.0L) return a * (d * d * d - 5.0L * d * d + 8.0L * d - 4.0L);
  return 0.0L;
}

Terms terms_of(const Op& op, std::int64_t i, std::int64_t size, double scale) {
  if (scale == 1.0) return {{i, 1.0L}};
  const auto inside = [size](Number at) {
    return std::clamp(static_cast<std::int64_t>(at), std::int64_t{0}, size - 1);
  };
  const Number x = source_coordinate(op.attributes.text("coordinate_transformation_mode"),
                                     static_cast<Number>(i), static_cast<Number>(size), scale);
  const std::string& mode = op.attributes.text("mode");
  if (mode == "nearest") return {{inside(nearest(op.attributes.text("nearest_mode"), x)), 1.0L}};
  if (mode == "linear") {
    const Number positive = std::max(x, 0.0L);
    const Number weight = positive - std::floor(positive);
    return {{inside(std::floor(x)), 1.0L - weight}, {inside(std::ceil(x)), weight}};
  }
  Terms terms;
  for (int k = -1; k <= 2; ++k) {
    const Number at = std::floor(x) + k;
    terms.emplace_back(inside(at), cubic_weight(x - at));
  }
  return terms;
}

/// Calls visit(input position, output position, weight) for every term of every output element.
template <class Visit>
void for_each_term(const Op& op, const Shape& input, const Shape& output, Visit visit) {
  const Floats& scales = op.attributes.floats("scales");
  for_each_element(output, [&](std::int64_t o, const Shape& index) {
    std::vector<std::pair<std::int64_t, Number>> products = {{0, 1.0L}};
    for (std::size_t d = 0; d < input.size(); ++d) {
      std::vector<std::pair<std::int64_t, Number>> next;
      for (const auto& [position, weight] : products) {
        for (const auto& [at, factor] : terms_of(op, index[d], input[d], scales[d])) {
          next.emplace_back(position * input[d] + at, weight * factor);
        }
      }
      products = std::move(next);
    }
    for (const auto& [position, weight] : products) visit(position, o, weight);
  });
}

void resize(const Op& op, const Inputs& in, std::vector<Array>& out) {
  for_each_term(op, in[0]->shape, out[0].shape,
                [&](std::int64_t i, std::int64_t o, Number w) { out[0][o] += w * (*in[0])[i]; });
}

void resize_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  for_each_term(op, out[0].shape, in[0]->shape,
                [&](std::int64_t i, std::int64_t o, Number w) { out[0][i] += w * (*in[0])[o]; });
}

// RoiAlign

/// Calls visit(offset in the plane, weight) for the up to four neighbours of a sample point.
template <class Visit>
void bilinear(Number y, Number x, std::int64_t height, std::int64_t width, Visit visit) {
  if (y < -1.0L || y > static_cast<Number>(height) || x < -1.0L || x > static_cast<Number>(width)) {
    return;
  }
  const auto axis = [](Number at, std::int64_t size) {
    at = std::max(at, 0.0L);
    auto low = static_cast<std::int64_t>(at);
    if (low >= size - 1) return std::array<Number, 3>{Number(size - 1), Number(size - 1), 0.0L};
    return std::array<Number, 3>{Number(low), Number(low + 1), at - Number(low)};
  };
  const auto rows = axis(y, height), columns = axis(x, width);
  for (std::size_t r : {0u, 1u}) {
    for (std::size_t c : {0u, 1u}) {
      const Number weight = (r ? rows[2] : 1.0L - rows[2]) * (c ? columns[2] : 1.0L - columns[2]);
      visit(static_cast<std::int64_t>(rows[r]) * width + static_cast<std::int64_t>(columns[c]),
            weight);
    }
  }
}

/// Calls visit(data position, output position, weight) for every sample of every bin.
template <class Visit>
void for_each_sample(const Op& op, const Shape& data, const Array& rois, const Array& batches,
                     const Shape& output, Visit visit) {
  const Number scale = op.attributes.number("spatial_scale");
  const std::int64_t height = data[2], width = data[3];
  for_each_element(output, [&](std::int64_t o, const Shape& index) {
    const std::int64_t roi = index[0];
    const auto corner = [&](std::int64_t k) { return rois[roi * 4 + k] * scale; };
    const Number bin_h = std::max(corner(3) - corner(1), 1.0L) / static_cast<Number>(output[2]);
    const Number bin_w = std::max(corner(2) - corner(0), 1.0L) / static_cast<Number>(output[3]);
    const std::int64_t ratio = op.attributes.integer("sampling_ratio");
    const auto grid_h = ratio > 0 ? ratio : static_cast<std::int64_t>(std::ceil(bin_h));
    const auto grid_w = ratio > 0 ? ratio : static_cast<std::int64_t>(std::ceil(bin_w));
    const Number share = 1.0L / static_cast<Number>(grid_h * grid_w);
    const std::int64_t plane =
        (static_cast<std::int64_t>(batches[roi]) * data[1] + index[1]) * height * width;
    for (std::int64_t i = 0; i < grid_h * grid_w; ++i) {
      const auto centre = [](std::int64_t k, std::int64_t grid) {
        return (static_cast<Number>(k) + 0.5L) / static_cast<Number>(grid);
      };
      const Number y =
          corner(1) + bin_h * (static_cast<Number>(index[2]) + centre(i / grid_w, grid_h));
      const Number x =
          corner(0) + bin_w * (static_cast<Number>(index[3]) + centre(i % grid_w, grid_w));
      bilinear(y, x, height, width, [&](std::int64_t offset, Number weight) {
        visit(plane + offset, o, weight * share);
      });
    }
  });
}

void roi_align(const Op& op, const Inputs& in, std::vector<Array>& out) {
  for_each_sample(op, in[0]->shape, *in[1], *in[2], out[0].shape,
                  [&](std::int64_t i, std::int64_t o, Number w) { out[0][o] += w * (*in[0])[i]; });
}

void roi_align_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  for_each_sample(op, out[0].shape, *in[1], *in[2], in[0]->shape,
                  [&](std::int64_t i, std::int64_t o, Number w) { out[0][i] += w * (*in[0])[o]; });
}

}  // namespace

void add_resample_rules(RuleTable& table) {
  table.add("Resize", resize);
  table.add("ResizeGrad", resize_grad);
  table.add("RoiAlign", roi_align);
  table.add("RoiAlignGrad", roi_align_grad);
}

}  // namespace pando::oracle
