// The statistics of batch normalisation: sums over all dimensions but the channels.
#include <algorithm>
#include <array>
#include <cmath>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/batch_norm_rows.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

constexpr std::int64_t kBlock = 4096;  // elements that are summed in float before double totals
constexpr std::int64_t kTile = 512;    // channels of a block whose columns are channels
constexpr std::int64_t kParts = 16;    // wanted parts of the sums, whatever the thread count

/// Data (samples, channels, spatial). With spatial 1 the channels are columns: a block has several
/// of them, else it has one.
struct ChannelProblem {
  std::int64_t samples = 1, channels = 1, spatial = 1;
  // Neighbouring columns that are one channel: few channels would fill no vector.
  std::int64_t repeats = 1;
  DType dtype = DType::Float32;
  double epsilon = 0;
  int threads = 1;

  std::int64_t count() const { return samples * spatial * repeats; }
  bool has_columns() const { return spatial == 1; }
  std::int64_t tile() const { return has_columns() ? std::min(kTile, channels) : 1; }
  std::int64_t tiles() const { return (channels + tile() - 1) / tile(); }
  /// Rows and neighbouring elements of a block.
  std::int64_t run() const { return has_columns() ? tile() : std::min(spatial, kBlock); }
  std::int64_t rows() const { return std::clamp<std::int64_t>(kBlock / run(), 1, samples); }
  std::int64_t runs_of_row() const { return has_columns() ? 1 : (spatial + run() - 1) / run(); }
  std::int64_t blocks() const { return (samples + rows() - 1) / rows() * runs_of_row(); }
  std::int64_t parts() const {
    return std::clamp<std::int64_t>((kParts + tiles() - 1) / tiles(), 1, blocks());
  }
};

/// Where a block begins, and its size.
struct ChannelBlock {
  std::int64_t first_element, stride, rows, count;
};

/// Calls body(block) for the blocks of a part of the channels from `channel` on.
template <class Body>
void for_blocks(const ChannelProblem& p, std::int64_t channel, std::int64_t part,
                const Body& body) {
  const std::int64_t end = p.blocks() * (part + 1) / p.parts(), stride = p.channels * p.spatial;
  for (std::int64_t b = p.blocks() * part / p.parts(); b < end; ++b) {
    const std::int64_t sample = b / p.runs_of_row() * p.rows();
    const std::int64_t at = b % p.runs_of_row() * p.run();
    const std::int64_t width =
        p.has_columns() ? std::min(p.tile(), p.channels - channel) : p.spatial - at;
    body(ChannelBlock{sample * stride + channel * p.spatial + at, stride,
                      std::min(p.rows(), p.samples - sample), std::min(p.run(), width)});
  }
}

/// The elements of a block as floats: where they are, or converted in `buffer`.
struct FloatBlock {
  const float* data;
  std::int64_t stride;
};
FloatBlock floats_of(const float* data, const ChannelBlock& block, float*) {
  return {data + block.first_element, block.stride};
}
template <DType kFormat>
FloatBlock floats_of(const HalfPrecision<kFormat>* data, const ChannelBlock& block, float* buffer) {
  for (std::int64_t row = 0; row < block.rows; ++row) {
    read_row(data + block.first_element + row * block.stride, buffer + row * block.count,
             block.count);
  }
  return {buffer, block.count};
}

/// Two numbers of each channel, and (moments) how many elements they come from.
struct Totals {
  double *first, *second, *count;
};

/// Joins the mean and the squared deviations of n more elements (Chan, Golub and LeVeque).
void join_moments(double& count, double& mean, double& squares, double n, double new_mean,
                  double new_squares) {
  const double total = count + n, delta = new_mean - mean;
  mean += delta * (n / total);
  squares += new_squares + delta * delta * (count * n / total);
  count = total;
}

template <class T>
void add_moments(const ChannelProblem& p, const T* x, std::int64_t channel, std::int64_t part,
                 const Totals& totals, float* buffer) {
  for_blocks(p, channel, part, [&](const ChannelBlock& block) {
    const FloatBlock floats = floats_of(x, block, buffer);
    if (!p.has_columns()) {
      const BlockMoments moments =
          block_moments_f32(floats.data, floats.stride, block.rows, block.count);
      join_moments(totals.count[0], totals.first[0], totals.second[0],
                   static_cast<double>(block.rows * block.count), moments.mean, moments.squares);
      return;
    }
    std::array<float, kTile> mean, squares;
    column_moments_f32(floats.data, floats.stride, block.rows, block.count, mean.data(),
                       squares.data());
    for (std::int64_t c = 0; c < block.count; ++c) {
      const auto i = static_cast<std::size_t>(c);
      join_moments(totals.count[c], totals.first[c], totals.second[c],
                   static_cast<double>(block.rows), mean[i], squares[i]);
    }
  });
}

template <class T>
void add_products(const ChannelProblem& p, const T* g, const T* x, const float* mean,
                  std::int64_t channel, std::int64_t part, const Totals& totals, float* buffer) {
  for_blocks(p, channel, part, [&](const ChannelBlock& block) {
    const FloatBlock factors = floats_of(g, block, buffer);
    const FloatBlock floats = floats_of(x, block, buffer + kBlock);
    if (!p.has_columns()) {
      const BlockProducts products = block_products_f32(factors.data, floats.data, floats.stride,
                                                        block.rows, block.count, mean[channel]);
      totals.first[0] += products.g;
      totals.second[0] += products.g_x;
      return;
    }
    std::array<float, kTile> sums, products;
    column_products_f32(factors.data, floats.data, floats.stride, block.rows, block.count,
                        mean + channel, sums.data(), products.data());
    for (std::int64_t c = 0; c < block.count; ++c) {
      totals.first[c] += sums[static_cast<std::size_t>(c)];
      totals.second[c] += products[static_cast<std::size_t>(c)];
    }
  });
}

/// Scratch: totals of each part, then buffers of each thread for `operands` converted blocks.
struct Scratch {
  std::int64_t channels, parts;
  std::int64_t buffer_floats;

  Scratch(const ChannelProblem& p, std::int64_t operands)
      : channels(p.channels),
        parts(p.parts()),
        buffer_floats(p.dtype == DType::Float32 ? 0 : operands * kBlock) {}
  std::size_t totals_bytes() const {
    return scratch_aligned(static_cast<std::size_t>(3 * channels * parts) * sizeof(double));
  }
  std::size_t bytes(int threads) const {
    return totals_bytes() + static_cast<std::size_t>(buffer_floats * threads) * sizeof(float);
  }
  Totals totals(std::byte* scratch, std::int64_t part, std::int64_t channel) const {
    double* first = reinterpret_cast<double*>(scratch) + 3 * channels * part + channel;
    return {first, first + channels, first + 2 * channels};
  }
  float* buffer(std::byte* scratch, std::int64_t slot) const {
    return reinterpret_cast<float*>(scratch + totals_bytes()) + slot * buffer_floats;
  }
};

/// Fills the totals by body(first channel, part, totals, buffer) on the threads.
template <class Body>
void fill_totals(const ChannelProblem& p, const Scratch& layout, std::byte* scratch,
                 const Body& body) {
  std::fill_n(reinterpret_cast<double*>(scratch), 3 * p.channels * p.parts(), 0.0);
  const std::int64_t items = p.tiles() * p.parts();
  const std::int64_t elements = p.samples * p.channels * p.spatial;
  parallel_slots(p.threads, items, row_grain(elements / items),
                 [&](std::int64_t slot, std::int64_t begin, std::int64_t end) {
                   for (std::int64_t item = begin; item < end; ++item) {
                     const std::int64_t channel = item % p.tiles() * p.tile();
                     const std::int64_t part = item / p.tiles();
                     body(channel, part, layout.totals(scratch, part, channel),
                          layout.buffer(scratch, slot));
                   }
                 });
}

/// Calls body(channel of the operands, totals of one part of it) in a fixed order.
template <class Body>
void for_totals(const ChannelProblem& p, const Scratch& layout, std::byte* scratch,
                std::int64_t channel, const Body& body) {
  for (std::int64_t part = 0; part < p.parts(); ++part) {
    for (std::int64_t k = 0; k < p.repeats; ++k) {
      body(layout.totals(scratch, part, k * (p.channels / p.repeats) + channel));
    }
  }
}

template <class S>
void write_moments(const ChannelProblem& p, std::int64_t channel, double mean, double squares,
                   S* out_mean, S* variance, S* inv_std) {
  const auto n = static_cast<double>(p.count());
  out_mean[channel] = static_cast<S>(mean);
  variance[channel] = static_cast<S>(squares / (n - 1));
  inv_std[channel] = static_cast<S>(1.0 / std::sqrt(squares / n + p.epsilon));
}

template <class T>
KernelPlan plan_moments(const ChannelProblem& p) {
  const Scratch layout(p, 1);
  KernelPlan plan;
  plan.scratch_bytes = layout.bytes(p.threads);
  plan.run = [p, layout](std::byte* const* operands, std::byte* scratch) {
    const T* x = operand_in<T>(operands, 0);
    fill_totals(p, layout, scratch,
                [&](std::int64_t channel, std::int64_t part, const Totals& totals, float* buffer) {
                  add_moments(p, x, channel, part, totals, buffer);
                });
    for (std::int64_t c = 0; c < p.channels / p.repeats; ++c) {
      double count = 0, mean = 0, squares = 0;
      for_totals(p, layout, scratch, c, [&](const Totals& part) {
        join_moments(count, mean, squares, *part.count, *part.first, *part.second);
      });
      write_moments(p, c, mean, squares, operand_out<float>(operands, 1),
                    operand_out<float>(operands, 2), operand_out<float>(operands, 3));
    }
  };
  return plan;
}

template <class T>
KernelPlan plan_products(const ChannelProblem& p) {
  const Scratch layout(p, 2);
  const std::size_t means = layout.bytes(p.threads);
  KernelPlan plan;
  plan.scratch_bytes = means + static_cast<std::size_t>(p.channels) * sizeof(float);
  plan.run = [p, layout, means](std::byte* const* operands, std::byte* scratch) {
    const std::int64_t channels = p.channels / p.repeats;
    auto* mean = reinterpret_cast<float*>(scratch + means);
    for (std::int64_t k = 0; k < p.repeats; ++k) {
      std::copy_n(operand_in<float>(operands, 2), channels, mean + k * channels);
    }
    const T* g = operand_in<T>(operands, 0);
    const T* x = operand_in<T>(operands, 1);
    fill_totals(p, layout, scratch,
                [&](std::int64_t channel, std::int64_t part, const Totals& totals, float* buffer) {
                  add_products(p, g, x, mean, channel, part, totals, buffer);
                });
    for (std::int64_t c = 0; c < channels; ++c) {
      double sum = 0, product = 0;
      for_totals(p, layout, scratch, c, [&](const Totals& part) {
        sum += *part.first;
        product += *part.second;
      });
      operand_out<float>(operands, 4)[c] = static_cast<float>(sum);
      operand_out<float>(operands, 5)[c] =
          static_cast<float>(product * operand_in<float>(operands, 3)[c]);
    }
  };
  return plan;
}

/// Calls body(element) for all elements of a channel.
template <class Body>
void for_elements(const ChannelProblem& p, std::int64_t channel, const Body& body) {
  for (std::int64_t n = 0; n < p.samples; ++n) {
    const std::int64_t first = (n * p.channels + channel) * p.spatial;
    for (std::int64_t i = first; i < first + p.spatial; ++i) body(i);
  }
}

void plain_moments(const ChannelProblem& p, std::byte* const* operands) {
  const double* x = operand_in<double>(operands, 0);
  for (std::int64_t c = 0; c < p.channels; ++c) {
    double sum = 0, squares = 0;
    for_elements(p, c, [&](std::int64_t i) { sum += x[i]; });
    const double mean = sum / static_cast<double>(p.count());
    for_elements(p, c, [&](std::int64_t i) { squares += (x[i] - mean) * (x[i] - mean); });
    write_moments(p, c, mean, squares, operand_out<double>(operands, 1),
                  operand_out<double>(operands, 2), operand_out<double>(operands, 3));
  }
}

void plain_products(const ChannelProblem& p, std::byte* const* operands) {
  const double* g = operand_in<double>(operands, 0);
  const double* x = operand_in<double>(operands, 1);
  for (std::int64_t c = 0; c < p.channels; ++c) {
    const double mean = operand_in<double>(operands, 2)[c];
    double sum = 0, product = 0;
    for_elements(p, c, [&](std::int64_t i) {
      sum += g[i];
      product += g[i] * (x[i] - mean);
    });
    operand_out<double>(operands, 4)[c] = sum;
    operand_out<double>(operands, 5)[c] = product * operand_in<double>(operands, 3)[c];
  }
}

std::string parse_channels(const KernelRequest& request, const OperandDesc& x, ChannelProblem& p) {
  const bool last = request.attributes().flag_or("channel_last", false);
  if (x.shape.size() < 2) return "the data needs rank 2 or more";
  p.dtype = x.dtype;
  p.threads = request.num_threads;
  p.epsilon = request.attributes().number_or("epsilon", 0);
  p.channels = last ? x.shape.back() : x.shape[1];
  const DType statistics = dtype_bytes(x.dtype) > 4 ? x.dtype : DType::Float32;
  for (const OperandDesc& operand : request.spec.outputs) {
    if (operand.dtype != statistics) return str_cat("wanted statistics in ", statistics);
  }
  const std::int64_t count = num_elements(x.shape);
  if (count == 0) return "empty data";
  p.samples = last ? count / p.channels : x.shape[0];
  p.spatial = count / p.channels / p.samples;
  return "";
}

/// Makes several rows of few columns one row of many.
void widen_columns(ChannelProblem& p) {
  if (!p.has_columns()) return;
  while (p.channels * 2 <= 64 && p.samples % 2 == 0) {
    p.channels *= 2;
    p.repeats *= 2;
    p.samples /= 2;
  }
}

enum class Statistic { Moments, Products };

template <Statistic S>
KernelPlan make_rows(const KernelRequest& request) {
  ChannelProblem p;
  const OperandDesc& x = request.input(S == Statistic::Moments ? 0 : 1);
  if (std::string fault = parse_channels(request, x, p); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  widen_columns(p);
  constexpr bool kMoments = S == Statistic::Moments;
  if (p.dtype == DType::Float32) return kMoments ? plan_moments<float>(p) : plan_products<float>(p);
  if (p.dtype == DType::Float16) return kMoments ? plan_moments<Half>(p) : plan_products<Half>(p);
  if (p.dtype == DType::BFloat16) {
    return kMoments ? plan_moments<BFloat16>(p) : plan_products<BFloat16>(p);
  }
  return KernelPlan::reject("only float16, bfloat16 and float32");
}

template <Statistic S>
KernelPlan make_plain(const KernelRequest& request) {
  ChannelProblem p;
  const OperandDesc& x = request.input(S == Statistic::Moments ? 0 : 1);
  if (std::string fault = parse_channels(request, x, p); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  if (p.dtype != DType::Float64) return KernelPlan::reject(unsupported_dtype(p.dtype));
  KernelPlan plan;
  plan.run = [p](std::byte* const* operands, std::byte*) {
    S == Statistic::Moments ? plain_moments(p, operands) : plain_products(p, operands);
  };
  return plan;
}

template <Statistic S>
KindEntry channel_entry() {
  return {.candidates = {{"rows", make_rows<S>}, {"plain", make_plain<S>}},
          .images = [](const KernelRequest& request) {
            return images_in_either_layout(
                request, S == Statistic::Moments ? std::vector{0} : std::vector{0, 1});
          }};
}

}  // namespace

void register_batch_norm_kernels(KernelTable& table) {
  table["BatchNormalizationStatistics"] = channel_entry<Statistic::Moments>();
  table["BatchNormalizationSums"] = channel_entry<Statistic::Products>();
}

}  // namespace pando::cpu
