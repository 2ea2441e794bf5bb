// GroupNormalization and its gradient; layer norm is the case of one group and no trailing
// dimensions.
#include <algorithm>
#include <cmath>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/norm_rows.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

struct NormProblem {
  std::int64_t samples = 0, channels = 0, spatial = 1, groups = 1;
  double epsilon = 0;
  bool strided = false;  // group of channel c is c % groups instead of c / (channels / groups)
  DType dtype = DType::Float32;
  int threads = 1;

  std::int64_t group_channels() const { return channels / groups; }
  std::int64_t row() const { return group_channels() * spatial; }
  std::int64_t channel(std::int64_t group, std::int64_t i) const {
    return strided ? i * groups + group : group * group_channels() + i;
  }
};

// Samples are cut into this many blocks whatever the thread count; each has its own partial sums of
// dweight and dbias.
constexpr std::int64_t kBlocks = 16;

std::string parse_norm(const KernelRequest& request, std::size_t t, NormProblem& problem) {
  const OperandDesc& x = request.input(t);
  if (x.shape.size() < 2) return "the data needs rank 2 or more";
  problem.samples = x.shape[0];
  problem.channels = x.shape[1];
  for (std::size_t d = 2; d < x.shape.size(); ++d) problem.spatial *= x.shape[d];
  problem.groups = request.attributes().integer("num_groups");
  if (problem.groups < 1 || problem.channels % problem.groups != 0) {
    return str_cat(problem.channels, " channels cannot form ", problem.groups, " groups");
  }
  problem.epsilon = request.attributes().number("eps");
  problem.strided = request.attributes().flag_or("strided_channel_grouping", false);
  problem.dtype = x.dtype;
  problem.threads = request.num_threads;
  for (const auto* list : {&request.spec.inputs, &request.spec.outputs}) {
    for (const OperandDesc& operand : *list) {
      if (operand.dtype != x.dtype) {
        return str_cat("operand dtypes differ: ", operand.dtype, " and ", x.dtype);
      }
    }
  }
  return "";
}

// Contiguous groups in float32.

template <class T>
void normalise_row(const NormProblem& p, const T* x, const float* weight, const float* bias, T* y,
                   T* mean, T* inv_std, float* buffer, std::int64_t group) {
  const std::int64_t count = p.row();
  const float* in = read_row(x, buffer, count);
  float* out = begin_row(y, buffer);
  const Moments moments = moments_f32(in, count);
  const auto inverse = static_cast<float>(1.0 / std::sqrt(moments.variance + p.epsilon));
  *mean = static_cast<T>(moments.mean);
  *inv_std = static_cast<T>(inverse);
  const std::int64_t first = group * p.group_channels();
  if (p.spatial == 1) {
    layer_norm_row_f32(in, weight + first, bias + first, out, moments.mean, inverse, count);
  } else {
    for (std::int64_t c = 0; c < p.group_channels(); ++c) {
      affine_row_f32(in + c * p.spatial, out + c * p.spatial, moments.mean,
                     inverse * weight[first + c], bias[first + c], p.spatial);
    }
  }
  finish_row(y, out, count);
}

template <class T>
KernelPlan plan_norm_rows(const NormProblem& p) {
  KernelPlan plan;
  const bool converts = kIsHalfPrecision<T>;
  const std::size_t slot = scratch_aligned(static_cast<std::size_t>(p.row()) * sizeof(float));
  const std::size_t parameters =
      scratch_aligned(static_cast<std::size_t>(p.channels) * sizeof(float));
  if (converts) {
    plan.scratch_bytes = 2 * parameters + slot * static_cast<std::size_t>(p.threads);
  }
  plan.run = [=](std::byte* const* operands, std::byte* scratch) {
    const T* x = operand_in<T>(operands, 0);
    T* y = operand_out<T>(operands, 3);
    T* mean = operand_out<T>(operands, 4);
    T* inv_std = operand_out<T>(operands, 5);
    const float* weight =
        read_row(operand_in<T>(operands, 1), reinterpret_cast<float*>(scratch), p.channels);
    const float* bias =
        read_row(operand_in<T>(operands, 2),
                 reinterpret_cast<float*>(scratch + (converts ? parameters : 0)), p.channels);
    parallel_slots(p.threads, p.samples * p.groups, row_grain(p.row()),
                   [&](std::int64_t s, std::int64_t begin, std::int64_t end) {
                     auto* buffer = reinterpret_cast<float*>(
                         scratch + (converts ? 2 * parameters + slot * std::size_t(s) : 0));
                     for (std::int64_t r = begin; r < end; ++r) {
                       normalise_row(p, x + r * p.row(), weight, bias, y + r * p.row(), mean + r,
                                     inv_std + r, buffer, r % p.groups);
                     }
                   });
  };
  return plan;
}

struct GradientScratch {
  float *g, *x;            // row buffers of half precision
  float *dweight, *dbias;  // partial sums of the block
};

template <class T>
void gradient_row(const NormProblem& p, const T* g_row, const T* x_row, const float* weight,
                  float mean, float inv_std, T* dx_row, const GradientScratch& s,
                  std::int64_t group) {
  const std::int64_t count = p.row(), first = group * p.group_channels();
  const float* g = read_row(g_row, s.g, count);
  const float* x = read_row(x_row, s.x, count);
  GradientSums total;
  if (p.spatial == 1) {
    total = layer_norm_sums_f32(g, x, weight + first, mean, inv_std, s.dweight + first,
                                s.dbias + first, count);
  } else {
    for (std::int64_t c = 0; c < p.group_channels(); ++c) {
      const std::int64_t at = c * p.spatial;
      const GradientSums sums = gradient_sums_f32(g + at, x + at, mean, inv_std, p.spatial);
      s.dbias[first + c] += static_cast<float>(sums.g);
      s.dweight[first + c] += static_cast<float>(sums.g_x);
      total.g += sums.g * weight[first + c];
      total.g_x += sums.g_x * weight[first + c];
    }
  }
  float* dx = begin_row(dx_row, s.g);
  GradientFactors factors{mean, inv_std, static_cast<float>(total.g / double(count)),
                          static_cast<float>(total.g_x / double(count)), 1.f};
  if (p.spatial == 1) {
    norm_gradient_row_f32(g, x, weight + first, dx, factors, count);
  } else {
    for (std::int64_t c = 0; c < p.group_channels(); ++c) {
      const std::int64_t at = c * p.spatial;
      factors.factor = weight[first + c];
      norm_gradient_row_f32(g + at, x + at, nullptr, dx + at, factors, p.spatial);
    }
  }
  finish_row(dx_row, dx, count);
}

template <class T>
KernelPlan plan_gradient_rows(const NormProblem& p) {
  const std::int64_t blocks = std::min(kBlocks, std::max<std::int64_t>(1, p.samples));
  const std::int64_t items = blocks * p.groups;
  const std::int64_t row_floats = kIsHalfPrecision<T> ? 2 * p.row() : 0;
  const std::int64_t partial_floats = 2 * p.channels * blocks;
  KernelPlan plan;
  plan.scratch_bytes =
      static_cast<std::size_t>(partial_floats + p.channels + row_floats * p.threads) *
      sizeof(float);
  plan.run = [=](std::byte* const* operands, std::byte* scratch) {
    const T* g = operand_in<T>(operands, 0);
    const T* x = operand_in<T>(operands, 1);
    const T* mean = operand_in<T>(operands, 3);
    const T* inv_std = operand_in<T>(operands, 4);
    T* dx = operand_out<T>(operands, 5);
    auto* partial = reinterpret_cast<float*>(scratch);
    const float* weight =
        read_row(operand_in<T>(operands, 2), partial + partial_floats, p.channels);
    float* rows = partial + partial_floats + p.channels;
    std::fill_n(partial, partial_floats, 0.f);
    const std::int64_t per_item = p.row() * std::max<std::int64_t>(1, p.samples / blocks);
    parallel_slots(
        p.threads, items, row_grain(per_item),
        [&](std::int64_t slot, std::int64_t begin, std::int64_t end) {
          for (std::int64_t item = begin; item < end; ++item) {
            const std::int64_t block = item / p.groups, group = item % p.groups;
            float* sums = partial + 2 * p.channels * block;
            float* buffers = rows + row_floats * slot;
            const GradientScratch s{buffers, buffers + row_floats / 2, sums, sums + p.channels};
            for (std::int64_t n = p.samples * block / blocks; n < p.samples * (block + 1) / blocks;
                 ++n) {
              const std::int64_t r = n * p.groups + group;
              gradient_row(p, g + r * p.row(), x + r * p.row(), weight, static_cast<float>(mean[r]),
                           static_cast<float>(inv_std[r]), dx + r * p.row(), s, group);
            }
          }
        });
    add_partial_sums({partial, 2 * p.channels, blocks}, operand_out<T>(operands, 6), p.channels);
    add_partial_sums({partial + p.channels, 2 * p.channels, blocks}, operand_out<T>(operands, 7),
                     p.channels);
  };
  return plan;
}

// Any grouping and dtype, in double.

/// Calls body(channel, first element) for every channel of a group of a sample.
template <class Body>
void for_channels(const NormProblem& p, std::int64_t sample, std::int64_t group, const Body& body) {
  for (std::int64_t i = 0; i < p.group_channels(); ++i) {
    const std::int64_t c = p.channel(group, i);
    body(c, (sample * p.channels + c) * p.spatial);
  }
}

template <class T>
void plain_norm(const NormProblem& p, std::byte* const* operands) {
  const T* x = operand_in<T>(operands, 0);
  const T* weight = operand_in<T>(operands, 1);
  const T* bias = operand_in<T>(operands, 2);
  T* y = operand_out<T>(operands, 3);
  const auto count = static_cast<double>(p.row());
  for (std::int64_t r = 0; r < p.samples * p.groups; ++r) {
    const std::int64_t n = r / p.groups, group = r % p.groups;
    double sum = 0, squares = 0;
    for_channels(p, n, group, [&](std::int64_t, std::int64_t at) {
      for (std::int64_t i = 0; i < p.spatial; ++i) sum += double(x[at + i]);
    });
    const double mean = sum / count;
    for_channels(p, n, group, [&](std::int64_t, std::int64_t at) {
      for (std::int64_t i = 0; i < p.spatial; ++i) {
        squares += (double(x[at + i]) - mean) * (double(x[at + i]) - mean);
      }
    });
    const double inv_std = 1.0 / std::sqrt(squares / count + p.epsilon);
    operand_out<T>(operands, 4)[r] = static_cast<T>(mean);
    operand_out<T>(operands, 5)[r] = static_cast<T>(inv_std);
    for_channels(p, n, group, [&](std::int64_t c, std::int64_t at) {
      for (std::int64_t i = 0; i < p.spatial; ++i) {
        y[at + i] = static_cast<T>((double(x[at + i]) - mean) * inv_std * double(weight[c]) +
                                   double(bias[c]));
      }
    });
  }
}

template <class T>
void plain_gradient(const NormProblem& p, std::byte* const* operands, std::byte* scratch) {
  const T* g = operand_in<T>(operands, 0);
  const T* x = operand_in<T>(operands, 1);
  const T* weight = operand_in<T>(operands, 2);
  T* dx = operand_out<T>(operands, 5);
  auto* dweight = reinterpret_cast<double*>(scratch);
  double* dbias = dweight + p.channels;
  std::fill_n(dweight, 2 * p.channels, 0.0);
  const auto count = static_cast<double>(p.row());
  for (std::int64_t r = 0; r < p.samples * p.groups; ++r) {
    const std::int64_t n = r / p.groups, group = r % p.groups;
    const double mean = double(operand_in<T>(operands, 3)[r]);
    const double inv_std = double(operand_in<T>(operands, 4)[r]);
    double sum = 0, sum_x = 0;
    for_channels(p, n, group, [&](std::int64_t c, std::int64_t at) {
      for (std::int64_t i = 0; i < p.spatial; ++i) {
        const double xhat = (double(x[at + i]) - mean) * inv_std, v = double(g[at + i]);
        dweight[c] += v * xhat;
        dbias[c] += v;
        sum += v * double(weight[c]);
        sum_x += v * double(weight[c]) * xhat;
      }
    });
    for_channels(p, n, group, [&](std::int64_t c, std::int64_t at) {
      for (std::int64_t i = 0; i < p.spatial; ++i) {
        const double xhat = (double(x[at + i]) - mean) * inv_std;
        dx[at + i] = static_cast<T>(
            inv_std * (double(g[at + i]) * double(weight[c]) - sum / count - xhat * sum_x / count));
      }
    });
  }
  for (std::int64_t c = 0; c < p.channels; ++c) {
    operand_out<T>(operands, 6)[c] = static_cast<T>(dweight[c]);
    operand_out<T>(operands, 7)[c] = static_cast<T>(dbias[c]);
  }
}

template <bool Gradient>
KernelPlan make_row_norm(const KernelRequest& request) {
  NormProblem p;
  if (std::string fault = parse_norm(request, Gradient ? 1 : 0, p); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  if (p.strided && p.groups > 1) return KernelPlan::reject("strided channel groups");
  if (p.dtype == DType::Float32) {
    return Gradient ? plan_gradient_rows<float>(p) : plan_norm_rows<float>(p);
  }
  if (p.dtype == DType::Float16) {
    return Gradient ? plan_gradient_rows<Half>(p) : plan_norm_rows<Half>(p);
  }
  if (p.dtype == DType::BFloat16) {
    return Gradient ? plan_gradient_rows<BFloat16>(p) : plan_norm_rows<BFloat16>(p);
  }
  return KernelPlan::reject("only float16, bfloat16 and float32");
}

template <bool Gradient>
KernelPlan make_plain_norm(const KernelRequest& request) {
  NormProblem p;
  if (std::string fault = parse_norm(request, Gradient ? 1 : 0, p); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  KernelPlan plan;
  if (Gradient) plan.scratch_bytes = 2 * static_cast<std::size_t>(p.channels) * sizeof(double);
  const bool known = dispatch_float(p.dtype, [&]<class T>(T) {
    plan.run = [p](std::byte* const* operands, [[maybe_unused]] std::byte* scratch) {
      if constexpr (Gradient) {
        plain_gradient<T>(p, operands, scratch);
      } else {
        plain_norm<T>(p, operands);
      }
    };
  });
  return known ? plan : KernelPlan::reject(unsupported_dtype(p.dtype));
}

}  // namespace

void register_norm_kernels(KernelTable& table) {
  table["GroupNormalization"] = {
      {{"rows", make_row_norm<false>}, {"plain", make_plain_norm<false>}},
      AcceptedLayout::Contiguous,
      {0}};
  table["GroupNormalizationGrad"] = {
      {{"rows", make_row_norm<true>}, {"plain", make_plain_norm<true>}},
      AcceptedLayout::Contiguous,
      {0, 1}};
}

}  // namespace pando::cpu
