// MaxPool and AveragePool with their gradients, one thread per (sample, channel) plane.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

using Spatial = std::array<std::int64_t, 3>;

struct PoolProblem {
  std::int64_t planes = 0;
  Spatial data{1, 1, 1}, result{1, 1, 1}, kernel{1, 1, 1};
  Spatial stride{1, 1, 1}, pad{0, 0, 0}, dilation{1, 1, 1};
  int threads = 1;

  std::int64_t data_size() const { return data[0] * data[1] * data[2]; }
  std::int64_t result_size() const { return result[0] * result[1] * result[2]; }

  /// Calls body(offset) for every cell inside the data of the window of result element `o`.
  template <class Body>
  void for_window(std::int64_t o, const Body& body) const {
    const Spatial at = {o / (result[1] * result[2]), o / result[2] % result[1], o % result[2]};
    Spatial first, begin, end;
    for (std::size_t d = 0; d < 3; ++d) {
      first[d] = at[d] * stride[d] - pad[d];
      begin[d] = first[d] < 0 ? (-first[d] + dilation[d] - 1) / dilation[d] : 0;
      const std::int64_t room = data[d] - first[d];
      end[d] = std::min(kernel[d], room <= 0 ? 0 : (room + dilation[d] - 1) / dilation[d]);
    }
    for (std::int64_t i = begin[0]; i < end[0]; ++i) {
      for (std::int64_t j = begin[1]; j < end[1]; ++j) {
        const std::int64_t row =
            ((first[0] + i * dilation[0]) * data[1] + first[1] + j * dilation[1]) * data[2] +
            first[2];
        for (std::int64_t k = begin[2]; k < end[2]; ++k) body(row + k * dilation[2]);
      }
    }
  }

  /// Calls body(plane) on the threads.
  template <class Body>
  void for_planes(const Body& body) const {
    parallel_for(threads, planes, row_grain(result_size() * kernel[1] * kernel[2], 1 << 13),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t plane = begin; plane < end; ++plane) body(plane);
                 });
  }
};

std::string parse_pool(const KernelRequest& request, const OperandDesc& data,
                       const OperandDesc& result, PoolProblem& p) {
  const Ints& kernel = request.attributes().ints("kernel_size");
  const Ints& strides = request.attributes().ints("strides");
  const Ints& pads = request.attributes().ints("pads");
  const Ints& dilations = request.attributes().ints("dilations");
  const std::size_t rank = kernel.size();
  if (rank < 1 || rank > 3 || data.shape.size() != rank + 2 || result.shape.size() != rank + 2 ||
      strides.size() != rank || pads.size() != 2 * rank || dilations.size() != rank) {
    return "wanted 1 to 3 spatial dimensions with a kernel size, stride, dilation and two pads "
           "each";
  }
  if (data.dtype != result.dtype) return "operand dtypes differ";
  p.planes = data.shape[0] * data.shape[1];
  for (std::size_t d = 0; d < rank; ++d) {
    const std::size_t at = 3 - rank + d;
    p.data[at] = data.shape[d + 2];
    p.result[at] = result.shape[d + 2];
    p.kernel[at] = kernel[d];
    p.stride[at] = strides[d];
    p.pad[at] = pads[d];
    p.dilation[at] = dilations[d];
  }
  p.threads = request.num_threads;
  return "";
}

template <class T>
void max_pool(const PoolProblem& p, std::byte* const* operands) {
  p.for_planes([&](std::int64_t plane) {
    const T* x = operand_in<T>(operands, 0) + plane * p.data_size();
    T* y = operand_out<T>(operands, 1) + plane * p.result_size();
    for (std::int64_t o = 0; o < p.result_size(); ++o) {
      T best = -std::numeric_limits<T>::infinity();
      p.for_window(o, [&](std::int64_t i) {
        if (x[i] > best || std::isnan(x[i])) best = x[i];
      });
      y[o] = best;
    }
  });
}

template <class T>
void max_pool_grad(const PoolProblem& p, std::byte* const* operands) {
  p.for_planes([&](std::int64_t plane) {
    const T* x = operand_in<T>(operands, 0) + plane * p.data_size();
    const T* y = operand_in<T>(operands, 1) + plane * p.result_size();
    const T* g = operand_in<T>(operands, 2) + plane * p.result_size();
    T* dx = operand_out<T>(operands, 3) + plane * p.data_size();
    std::fill_n(dx, p.data_size(), T{});
    for (std::int64_t o = 0; o < p.result_size(); ++o) {
      p.for_window(o, [&](std::int64_t i) {
        if (x[i] == y[o]) dx[i] += g[o];
      });
    }
  });
}

template <class T>
void average_pool(const PoolProblem& p, std::byte* const* operands) {
  p.for_planes([&](std::int64_t plane) {
    const T* x = operand_in<T>(operands, 0) + plane * p.data_size();
    T* y = operand_out<T>(operands, 1) + plane * p.result_size();
    for (std::int64_t o = 0; o < p.result_size(); ++o) {
      T sum = 0;
      std::int64_t count = 0;
      p.for_window(o, [&](std::int64_t i) {
        sum += x[i];
        ++count;
      });
      y[o] = count == 0 ? T{} : sum / static_cast<T>(count);
    }
  });
}

template <class T>
void average_pool_grad(const PoolProblem& p, std::byte* const* operands) {
  p.for_planes([&](std::int64_t plane) {
    const T* g = operand_in<T>(operands, 0) + plane * p.result_size();
    T* dx = operand_out<T>(operands, 1) + plane * p.data_size();
    std::fill_n(dx, p.data_size(), T{});
    for (std::int64_t o = 0; o < p.result_size(); ++o) {
      std::int64_t count = 0;
      p.for_window(o, [&](std::int64_t) { ++count; });
      p.for_window(o, [&](std::int64_t i) { dx[i] += g[o] / static_cast<T>(count); });
    }
  });
}

enum class Pool { Max, MaxGrad, Average, AverageGrad };

template <Pool P>
KernelPlan make_pool(const KernelRequest& request) {
  PoolProblem p;
  const bool gradient = P == Pool::MaxGrad || P == Pool::AverageGrad;
  const OperandDesc& data = gradient ? request.output(0) : request.input(0);
  const OperandDesc& result = P == Pool::MaxGrad       ? request.input(2)
                              : P == Pool::AverageGrad ? request.input(0)
                                                       : request.output(0);
  if (std::string fault = parse_pool(request, data, result, p); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  KernelPlan plan;
  const auto use = [&]<class T>(T) {
    plan.run = [p](std::byte* const* operands, std::byte*) {
      if constexpr (P == Pool::Max) max_pool<T>(p, operands);
      if constexpr (P == Pool::MaxGrad) max_pool_grad<T>(p, operands);
      if constexpr (P == Pool::Average) average_pool<T>(p, operands);
      if constexpr (P == Pool::AverageGrad) average_pool_grad<T>(p, operands);
    };
  };
  if (data.dtype == DType::Float32) {
    use(float{});
  } else if (data.dtype == DType::Float64) {
    use(double{});
  } else {
    return KernelPlan::reject(unsupported_dtype(data.dtype));
  }
  return plan;
}

template <Pool P>
KernelPlan make_half_pool(const KernelRequest& request) {
  return plan_through_float32(request, make_pool<P>);
}

template <Pool P>
KindEntry pool_entry() {
  return {{{"windows", make_pool<P>}, {"half", make_half_pool<P>}}};
}

}  // namespace

void register_pool_kernels(KernelTable& table) {
  table["MaxPool"] = pool_entry<Pool::Max>();
  table["MaxPoolGrad"] = pool_entry<Pool::MaxGrad>();
  table["AveragePool"] = pool_entry<Pool::Average>();
  table["AveragePoolGrad"] = pool_entry<Pool::AverageGrad>();
}

}  // namespace pando::cpu
