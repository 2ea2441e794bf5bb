// Group, layer and batch normalisation, and softmax.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

/// Element (n, c, rest) of (N, C, ...): its channel and its statistics slot n * groups + group.
struct Position {
  std::int64_t channel, slot;
};

Position position_of(const Op& op, const Shape& shape, std::int64_t i) {
  const std::int64_t groups = op.attributes.integer("num_groups");
  const std::int64_t rest = num_elements(Shape(shape.begin() + 2, shape.end()));
  const std::int64_t channel = i / rest % shape[1];
  const bool strided = op.attributes.flag_or("strided_channel_grouping", false);
  const std::int64_t group = strided ? channel % groups : channel / (shape[1] / groups);
  return {channel, i / (rest * shape[1]) * groups + group};
}

void group_norm(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Array& t = *in[0];
  Array &mean = out[1], &inverse = out[2];
  const Number count = static_cast<Number>(t.size()) / static_cast<Number>(mean.size());
  for (std::int64_t i = 0; i < t.size(); ++i) mean[position_of(op, t.shape, i).slot] += t[i];
  for (Number& m : mean.data) m /= count;
  std::vector<Number> variance(mean.data.size(), 0.0L);
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const std::int64_t slot = position_of(op, t.shape, i).slot;
    variance[static_cast<std::size_t>(slot)] += (t[i] - mean[slot]) * (t[i] - mean[slot]) / count;
  }
  for (std::size_t s = 0; s < variance.size(); ++s) {
    inverse.data[s] = 1.0L / std::sqrt(variance[s] + op.attributes.number("eps"));
  }
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const Position at = position_of(op, t.shape, i);
    out[0][i] =
        (t[i] - mean[at.slot]) * inverse[at.slot] * (*in[1])[at.channel] + (*in[2])[at.channel];
  }
}

void group_norm_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Array &g = *in[0], &t = *in[1], &weight = *in[2], &mean = *in[3], &inverse = *in[4];
  const Number count = static_cast<Number>(t.size()) / static_cast<Number>(mean.size());
  std::vector<Number> h_mean(mean.data.size(), 0.0L), hx_mean(mean.data.size(), 0.0L);
  const auto xhat = [&](std::int64_t i, std::int64_t slot) {
    const Number x = (t[i] - mean[slot]) * inverse[slot];
    return in.absolute ? std::fabs(x) : x;
  };
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const Position at = position_of(op, t.shape, i);
    const Number h = g[i] * weight[at.channel];
    h_mean[static_cast<std::size_t>(at.slot)] += h / count;
    hx_mean[static_cast<std::size_t>(at.slot)] += h * xhat(i, at.slot) / count;
    out[1][at.channel] += g[i] * xhat(i, at.slot);
    out[2][at.channel] += g[i];
  }
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const Position at = position_of(op, t.shape, i);
    const auto slot = static_cast<std::size_t>(at.slot);
    const Number centred = in.difference(g[i] * weight[at.channel], h_mean[slot]);
    out[0][i] = inverse[at.slot] * in.difference(centred, xhat(i, at.slot) * hx_mean[slot]);
  }
}

/// The channel of element `i` of data that a batch norm takes.
std::int64_t channel_of(const Op& op, const Shape& shape, std::int64_t i) {
  if (op.attributes.flag_or("channel_last", false)) return i % shape.back();
  return i / num_elements(Shape(shape.begin() + 2, shape.end())) % shape[1];
}

void batch_norm(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Array& t = *in[0];
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const std::int64_t c = channel_of(op, t.shape, i);
    const Number deviation = std::sqrt((*in[4])[c] + op.attributes.number("epsilon"));
    out[0][i] = (*in[1])[c] * (t[i] - (*in[3])[c]) / deviation + (*in[2])[c];
  }
}

void batch_norm_scale(const Op& op, const Inputs& in, std::vector<Array>& out) {
  for (std::int64_t c = 0; c < out[0].size(); ++c) {
    out[0][c] = (*in[0])[c] / std::sqrt((*in[1])[c] + op.attributes.number("epsilon"));
  }
}

/// Inputs t, factor, bias and mean; the others broadcast to t.
void batch_norm_core(const Op&, const Inputs& in, std::vector<Array>& out) {
  for_each_element(out[0].shape, [&](std::int64_t i, const Shape& index) {
    const auto value = [&](std::size_t k) {
      return (*in[k])[broadcast_position(in[k]->shape, index)];
    };
    out[0][i] = (value(0) - value(3)) * value(1) + value(2);
  });
}

struct ChannelStatistics {
  std::vector<Number> mean, variance;  // the latter biased
  Number count;
};

ChannelStatistics statistics_of(const Op& op, const Array& t, std::int64_t channels) {
  const auto size = static_cast<std::size_t>(channels);
  ChannelStatistics result{std::vector<Number>(size, 0.0L), std::vector<Number>(size, 0.0L),
                           static_cast<Number>(t.size()) / static_cast<Number>(channels)};
  const auto channel = [&](std::int64_t i) {
    return static_cast<std::size_t>(channel_of(op, t.shape, i));
  };
  for (std::int64_t i = 0; i < t.size(); ++i) result.mean[channel(i)] += t[i] / result.count;
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const Number centred = t[i] - result.mean[channel(i)];
    result.variance[channel(i)] += centred * centred / result.count;
  }
  return result;
}

/// Writes mean, unbiased variance and inverse deviation to out[first] and those behind.
void write_statistics(const Op& op, const ChannelStatistics& statistics, std::vector<Array>& out,
                      std::size_t first) {
  for (std::size_t c = 0; c < statistics.mean.size(); ++c) {
    const Number variance = statistics.variance[c];
    out[first].data[c] = statistics.mean[c];
    out[first + 1].data[c] = variance * statistics.count / (statistics.count - 1);
    out[first + 2].data[c] = 1.0L / std::sqrt(variance + op.attributes.number("epsilon"));
  }
}

void batch_norm_training(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Array& t = *in[0];
  const ChannelStatistics statistics = statistics_of(op, t, out[1].size());
  write_statistics(op, statistics, out, 1);
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const std::int64_t c = channel_of(op, t.shape, i);
    const Number centred = t[i] - statistics.mean[static_cast<std::size_t>(c)];
    out[0][i] = centred * out[3][c] * (*in[1])[c] + (*in[2])[c];
  }
}

void batch_norm_statistics(const Op& op, const Inputs& in, std::vector<Array>& out) {
  write_statistics(op, statistics_of(op, *in[0], out[0].size()), out, 0);
}

/// Inputs g, t, scale, mean, inv_std and optional gradients of mean and unbiased variance.
void batch_norm_training_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Array &g = *in[0], &t = *in[1], &scale = *in[2], &mean = *in[3], &inverse = *in[4];
  const Number n = static_cast<Number>(t.size()) / static_cast<Number>(scale.size());
  const auto xhat = [&](std::int64_t i, std::int64_t c) {
    const Number x = (t[i] - mean[c]) * inverse[c];
    return in.absolute ? std::fabs(x) : x;
  };
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const std::int64_t c = channel_of(op, t.shape, i);
    out[1][c] += g[i] * xhat(i, c);
    out[2][c] += g[i];
  }
  const auto extra = [&](std::size_t k, std::int64_t c) {
    return k < in.size() && in[k] != nullptr ? (*in[k])[c] : 0.0L;
  };
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const std::int64_t c = channel_of(op, t.shape, i);
    const Number centred = in.difference(g[i], out[2][c] / n);
    const Number of_mean = extra(5, c) / n;
    const Number of_variance = 2 * extra(6, c) * xhat(i, c) / inverse[c] / (n - 1);
    out[0][i] = scale[c] * inverse[c] * in.difference(centred, xhat(i, c) * out[1][c] / n) +
                of_mean + of_variance;
  }
}

void batch_norm_sums(const Op& op, const Inputs& in, std::vector<Array>& out) {
  for (std::int64_t i = 0; i < in[0]->size(); ++i) {
    const std::int64_t c = channel_of(op, in[0]->shape, i);
    const Number centred = (*in[1])[i] - (*in[2])[c];
    out[0][c] += (*in[0])[i];
    out[1][c] += (*in[0])[i] * (in.absolute ? std::fabs(centred) : centred) * (*in[3])[c];
  }
}

void batch_norm_grad_factors(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const auto n = static_cast<Number>(op.attributes.integer("count"));
  const auto extra = [&](std::size_t k, std::int64_t c) {
    return k < in.size() && in[k] != nullptr ? (*in[k])[c] : 0.0L;
  };
  for (std::int64_t c = 0; c < out[0].size(); ++c) {
    const Number inverse = (*in[1])[c], a = (*in[0])[c] * inverse;
    out[0][c] = a;
    out[1][c] = 2 * extra(5, c) / (n - 1) - a * inverse * (*in[3])[c] / n;
    out[2][c] = (extra(4, c) - a * (*in[2])[c]) / n;
  }
}

/// Inputs g, t, mean, a, b and c; the latter four broadcast to t.
void batch_norm_grad_core(const Op&, const Inputs& in, std::vector<Array>& out) {
  for_each_element(out[0].shape, [&](std::int64_t i, const Shape& index) {
    const auto value = [&](std::size_t k) {
      return (*in[k])[broadcast_position(in[k]->shape, index)];
    };
    out[0][i] = value(0) * value(3) + (value(1) - value(2)) * value(4) + value(5);
  });
}

/// Elements of one row: everything from attribute axis on.
std::int64_t row_length(const Op& op, const Shape& shape) {
  return num_elements(Shape(shape.begin() + op.attributes.integer("axis"), shape.end()));
}

/// Whether element `i` is in the band, if the op has one.
bool in_band(const Op& op, const Shape& shape, std::int64_t i) {
  if (!op.attributes.has("band")) return true;
  const Ints& band = op.attributes.ints("band");
  const std::int64_t column = i % shape.back();
  const std::int64_t row = i / shape.back() % shape[shape.size() - 2];
  return -band[0] <= column - row && column - row <= band[1];
}

void softmax(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Array& x = *in[0];
  const std::int64_t length = row_length(op, x.shape);
  const Number scale = op.attributes.number_or("scale", 1);
  for (std::int64_t row = 0; row < out[0].size(); row += length) {
    Number top = -std::numeric_limits<Number>::infinity(), sum = 0.0L;
    for (std::int64_t i = row; i < row + length; ++i) {
      if (in_band(op, x.shape, i)) top = std::max(top, scale * x[i]);
    }
    for (std::int64_t i = row; i < row + length; ++i) {
      sum += out[0][i] = in_band(op, x.shape, i) ? std::exp(scale * x[i] - top) : 0.0L;
    }
    for (std::int64_t i = row; i < row + length; ++i) out[0][i] /= sum;
  }
}

void softmax_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Array &y = *in[0], &g = *in[1];
  const std::int64_t length = row_length(op, y.shape);
  const Number scale = op.attributes.number_or("scale", 1);
  for (std::int64_t row = 0; row < y.size(); row += length) {
    Number sum = 0.0L;
    for (std::int64_t i = row; i < row + length; ++i) {
      if (in_band(op, y.shape, i)) sum += g[i] * y[i];
    }
    for (std::int64_t i = row; i < row + length; ++i) {
      out[0][i] = in_band(op, y.shape, i) ? scale * y[i] * in.difference(g[i], sum) : 0.0L;
    }
  }
}

}  // namespace

void add_norm_rules(RuleTable& table) {
  table.add("GroupNormalization", group_norm);
  table.add("GroupNormalizationGrad", group_norm_grad);
  table.add("BatchNormalization", batch_norm);
  table.add("BatchNormalizationScale", batch_norm_scale);
  table.add("BatchNormalizationCore", batch_norm_core);
  table.add("BatchNormalizationTraining", batch_norm_training);
  table.add("BatchNormalizationStatistics", batch_norm_statistics);
  table.add("BatchNormalizationTrainingGrad", batch_norm_training_grad);
  table.add("BatchNormalizationSums", batch_norm_sums);
  table.add("BatchNormalizationGradFactors", batch_norm_grad_factors);
  table.add("BatchNormalizationGradCore", batch_norm_grad_core);
  table.add("Softmax", softmax);
  table.add("SoftmaxGrad", softmax_grad);
}

}  // namespace pando::oracle
