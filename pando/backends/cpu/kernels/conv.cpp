#include "pando/backends/cpu/kernels/conv.hpp"

#include <algorithm>
#include <array>

#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

using Spatial = std::array<std::int64_t, 3>;

/// The problem with three spatial dimensions.
struct PlainConv {
  std::int64_t samples, channels, maps, groups;
  bool channel_last;
  Spatial data{1, 1, 1}, kernel{1, 1, 1}, result{1, 1, 1};
  Spatial stride{1, 1, 1}, pad{0, 0, 0}, dilation{1, 1, 1};

  explicit PlainConv(const ConvProblem& p)
      : samples(p.data[0]),
        channels(p.data[1]),
        maps(p.weights[0]),
        groups(p.groups),
        channel_last(p.channel_last) {
    const std::size_t rank = p.spatial_rank();
    for (std::size_t d = 0; d < rank; ++d) {
      const std::size_t at = 3 - rank + d;
      data[at] = p.data[d + 2];
      kernel[at] = p.weights[d + 2];
      result[at] = p.result[d + 2];
      stride[at] = p.strides[d];
      pad[at] = p.pads[d];
      dilation[at] = p.dilations[d];
    }
  }
  static std::int64_t volume(const Spatial& s) { return s[0] * s[1] * s[2]; }

  /// Element (n, channel, at) of images with `of` channels of `size` elements.
  std::int64_t element(std::int64_t n, std::int64_t channel, std::int64_t at, std::int64_t of,
                       std::int64_t size) const {
    return channel_last ? (n * size + at) * of + channel : (n * of + channel) * size + at;
  }

  /// Calls body(data, kernel, result) with spatial positions for every pair that meets.
  template <class Body>
  void for_taps(const Body& body) const {
    for (std::int64_t o = 0; o < volume(result); ++o) {
      const Spatial at = position(o, result);
      for (std::int64_t k = 0; k < volume(kernel); ++k) {
        const Spatial tap = position(k, kernel);
        std::int64_t x = 0;
        bool inside = true;
        for (std::size_t d = 0; d < 3; ++d) {
          const std::int64_t i = at[d] * stride[d] - pad[d] + tap[d] * dilation[d];
          inside = inside && i >= 0 && i < data[d];
          x = x * data[d] + i;
        }
        if (inside) body(x, k, o);
      }
    }
  }

  static Spatial position(std::int64_t index, const Spatial& size) {
    return {index / (size[1] * size[2]), index / size[2] % size[1], index % size[2]};
  }
};

template <class T, ConvPass Pass>
void run_plain(const PlainConv& p, const T* a, const T* b, T* out) {
  const std::int64_t xs = PlainConv::volume(p.data), ks = PlainConv::volume(p.kernel);
  const std::int64_t os = PlainConv::volume(p.result);
  const std::int64_t group_channels = p.channels / p.groups, group_maps = p.maps / p.groups;
  const std::int64_t sizes[] = {p.samples * p.maps * os, p.samples * p.channels * xs,
                                p.maps * group_channels * ks};
  std::fill_n(out, sizes[static_cast<int>(Pass)], T{});
  for (std::int64_t n = 0; n < p.samples; ++n) {
    for (std::int64_t m = 0; m < p.maps; ++m) {
      for (std::int64_t i = 0; i < group_channels; ++i) {
        const std::int64_t c = m / group_maps * group_channels + i;
        const std::int64_t k0 = (m * group_channels + i) * ks;
        p.for_taps([&](std::int64_t data, std::int64_t k, std::int64_t result) {
          const std::int64_t x = p.element(n, c, data, p.channels, xs);
          const std::int64_t o = p.element(n, m, result, p.maps, os);
          if constexpr (Pass == ConvPass::Forward) out[o] += a[x] * b[k0 + k];
          if constexpr (Pass == ConvPass::Data) out[x] += a[k0 + k] * b[o];
          if constexpr (Pass == ConvPass::Weights) out[k0 + k] += a[x] * b[o];
        });
      }
    }
  }
}

template <ConvPass Pass>
KernelPlan make_plain_conv(const KernelRequest& request) {
  ConvProblem problem;
  if (std::string fault = parse_conv(request, Pass, problem); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  if (problem.has_prepared_weights) return KernelPlan::reject("weights are prepared for oneDNN");
  if (problem.has_prepared_filters) return KernelPlan::reject("filters are prepared for winograd");
  const PlainConv p(problem);
  KernelPlan plan;
  const auto use = [&]<class T>(T) {
    plan.run = [p](std::byte* const* operands, std::byte*) {
      run_plain<T, Pass>(p, operand_in<T>(operands, 0), operand_in<T>(operands, 1),
                         operand_out<T>(operands, 2));
    };
  };
  if (problem.dtype == DType::Float32) {
    use(float{});
  } else if (problem.dtype == DType::Float64) {
    use(double{});
  } else {
    return KernelPlan::reject(unsupported_dtype(problem.dtype));
  }
  return plan;
}

/// (N, spatial..., C) as (N, C, spatial...).
Shape channels_first(Shape shape) {
  if (shape.size() > 2) std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
  return shape;
}

template <ConvPass Pass>
KernelPlan make_half_conv(const KernelRequest& request) {
  KernelPlan plan = plan_through_float32(request, make_onednn_conv<Pass>);
  return plan.rejection.empty() ? plan : plan_through_float32(request, make_plain_conv<Pass>);
}

/// Data and result, of which oneDNN reorders some.
template <ConvPass Pass>
KernelImages conv_images(const KernelRequest& request) {
  KernelImages images =
      images_in_either_layout(request, Pass == ConvPass::Forward ? std::vector{0, 2}
                                       : Pass == ConvPass::Data  ? std::vector{1, 2}
                                                                 : std::vector{0, 1});
  if (!images.operands.empty()) images.reordered = onednn_reordered_images<Pass>(request);
  return images;
}

template <ConvPass Pass>
std::optional<PreparedInput> prepared_weights(const KernelRequest& request) {
  if (auto prepared = prepared_winograd_filters<Pass>(request)) return prepared;
  return prepared_conv_weights<Pass>(request);
}

template <ConvPass Pass>
KindEntry conv_entry() {
  KindEntry entry{.candidates = {{"winograd", make_winograd_conv<Pass>, is_for_winograd<Pass>},
                                 {"onednn", make_onednn_conv<Pass>},
                                 {"half", make_half_conv<Pass>},
                                 {"plain", make_plain_conv<Pass>}},
                  .images = conv_images<Pass>};
  if constexpr (Pass == ConvPass::Weights) {
    entry.candidates.insert(entry.candidates.begin(),
                            {"depthwise", make_depthwise_weights, is_for_depthwise_weights});
  } else {
    entry.prepared = prepared_weights<Pass>;
  }
  return entry;
}

/// What makes the weights of a convolution as its kernels want them.
template <ConvPass Pass>
void add_makers(const std::string& kind, KernelTable& table) {
  table[kind + "PreparedWeights"] = {.candidates = {{"onednn", make_prepared_weights<Pass>}}};
  table[kind + "RestoredWeights"] = {.candidates = {{"onednn", make_restored_weights<Pass>}}};
  table[kind + "PreparedFilters"] = {.candidates = {{"winograd", make_prepared_filters<Pass>}}};
}

}  // namespace

std::string parse_conv(const KernelRequest& request, ConvPass pass, ConvProblem& problem) {
  const OperandDesc* operands[] = {&request.input(0), &request.input(1), &request.output(0)};
  const int order[3][3] = {{0, 1, 2}, {2, 0, 1}, {0, 2, 1}};  // data, weights, result
  const auto* at = order[static_cast<int>(pass)];
  problem.data = operands[at[0]]->shape;
  problem.weights = operands[at[1]]->shape;
  problem.result = operands[at[2]]->shape;
  problem.has_prepared_weights = request.attributes().has("prepared_weights");
  if (problem.has_prepared_weights) problem.weights = request.attributes().ints("prepared_weights");
  problem.has_prepared_filters = request.attributes().has("prepared_filters");
  if (problem.has_prepared_filters) problem.weights = request.attributes().ints("prepared_filters");
  problem.channel_last = request.attributes().flag_or("channel_last", false);
  if (problem.channel_last) {
    problem.data = channels_first(problem.data);
    problem.result = channels_first(problem.result);
  }
  problem.dtype = operands[2]->dtype;
  problem.strides = request.attributes().ints("strides");
  problem.pads = request.attributes().ints("pads");
  problem.dilations = request.attributes().ints("dilations");
  problem.groups = request.attributes().integer_or("groups", 1);
  const std::size_t rank = problem.data.size();
  const bool ranks = rank >= 3 && rank <= 5 && problem.weights.size() == rank &&
                     problem.result.size() == rank && problem.strides.size() == rank - 2 &&
                     problem.pads.size() == 2 * (rank - 2) && problem.dilations.size() == rank - 2;
  if (!ranks) return "wanted 1 to 3 spatial dimensions with one stride, dilation and two pads each";
  for (const OperandDesc* operand : operands) {
    if (operand->dtype != problem.dtype) return "operand dtypes differ";
  }
  const bool fits = problem.groups >= 1 && problem.weights[0] % problem.groups == 0 &&
                    problem.weights[1] * problem.groups == problem.data[1] &&
                    problem.result[0] == problem.data[0] && problem.result[1] == problem.weights[0];
  return fits ? "" : "channels, groups and batch of the operands do not fit each other";
}

void register_conv_kernels(KernelTable& table) {
  table["Conv"] = conv_entry<ConvPass::Forward>();
  table["ConvDataGrad"] = conv_entry<ConvPass::Data>();
  table["ConvWeightsGrad"] = conv_entry<ConvPass::Weights>();
  add_makers<ConvPass::Forward>("Conv", table);
  add_makers<ConvPass::Data>("ConvDataGrad", table);
}

}  // namespace pando::cpu
