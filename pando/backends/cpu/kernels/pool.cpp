// MaxPool and AveragePool with their gradients, one thread per (sample, channel) plane.
#include <algorithm>
#include <limits>
#include <vector>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/pool_rows.hpp"
#include "pando/backends/cpu/kernels/window_geometry.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

struct PoolProblem : WindowGeometry {
  std::int64_t planes = 0;
  int threads = 1;

  /// Calls body(first data cell, first result, count) for the runs of results along the last
  /// dimension that have the same cell of their windows; data cells are stride[2] apart. Every
  /// result's cells come in their order in memory.
  template <class Body>
  void for_runs(const Body& body) const {
    for (std::int64_t i = 0; i < result[0]; ++i) {
      for (std::int64_t j = 0; j < result[1]; ++j) {
        const std::int64_t to = (i * result[1] + j) * result[2];
        for_rows(i, j, [&](std::int64_t row) {
          for (std::int64_t k = 0; k < kernel[2]; ++k) {
            const Range range = inside(2, k);
            if (range.begin == range.end) continue;
            body(row + data_index(2, range.begin, k), to + range.begin, range.end - range.begin);
          }
        });
      }
    }
  }

  /// Calls body(first cell of a data row) for the rows of the windows at (i, j) inside the data.
  template <class Body>
  void for_rows(std::int64_t i, std::int64_t j, const Body& body) const {
    for (std::int64_t a = 0; a < kernel[0]; ++a) {
      const std::int64_t z = data_index(0, i, a);
      if (z < 0 || z >= data[0]) continue;
      for (std::int64_t b = 0; b < kernel[1]; ++b) {
        const std::int64_t y = data_index(1, j, b);
        if (y >= 0 && y < data[1]) body((z * data[1] + y) * data[2]);
      }
    }
  }

  /// How many cells of each result's window lie inside the data.
  template <class T>
  std::vector<T> window_counts() const {
    std::vector<T> counts(static_cast<std::size_t>(result_size()));
    for_runs([&](std::int64_t, std::int64_t to, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) counts[static_cast<std::size_t>(to + i)] += T{1};
    });
    return counts;
  }

  /// Calls body(slot, plane) on the threads, each of which has a slot of the scratch.
  template <class Body>
  void for_planes(const Body& body) const {
    parallel_slots(threads, planes, row_grain(result_size() * kernel[1] * kernel[2], 1 << 13),
                   [&](std::int64_t slot, std::int64_t begin, std::int64_t end) {
                     for (std::int64_t plane = begin; plane < end; ++plane) body(slot, plane);
                   });
  }

  /// Elements of one data row for every row of results.
  std::int64_t columns_size() const { return result[0] * result[1] * data[2]; }

  /// Along rows, cell k of every result lies `stride` after that of the one before, across rows.
  bool tiles_rows() const {
    return pad[2] == 0 && data[2] == result[2] * stride[2] &&
           (kernel[2] - 1) * dilation[2] < stride[2];
  }
  bool windows_tile() const {
    bool tile = tiles_rows();
    for (std::size_t d = 0; d < 3; ++d) {
      tile = tile && pad[d] == 0 && kernel[d] == stride[d] && dilation[d] == 1 &&
             data[d] == result[d] * stride[d];
    }
    return tile;
  }
};

std::string parse_pool(const KernelRequest& request, const OperandDesc& data,
                       const OperandDesc& result, PoolProblem& p) {
  if (data.shape.size() < 2 || result.shape.size() < 2) return "wanted data (N, C, spatial...)";
  if (data.dtype != result.dtype) return "operand dtypes differ";
  p.planes = data.shape[0] * data.shape[1];
  const auto spatial = [](const OperandDesc& t) {
    return Shape(t.shape.begin() + 2, t.shape.end());
  };
  p.threads = request.num_threads;
  return read_windows(request.attributes(), spatial(data), spatial(result), p);
}

/// The largest of each column of the window rows, then the largest of their cells along the row.
template <class T>
void max_pool_plane(const PoolProblem& p, const T* x, T* y, T* columns) {
  constexpr T kLeast = -std::numeric_limits<T>::infinity();
  const std::int64_t rows = p.result[0] * p.result[1], width = p.data[2];
  for (std::int64_t row = 0; row < rows; ++row) {
    T* best = columns + row * width;
    bool first = true;
    p.for_rows(row / p.result[1], row % p.result[1], [&](std::int64_t from) {
      if (first) std::copy_n(x + from, width, best);
      if (!first) max_cells(x + from, 1, best, width);
      first = false;
    });
    if (first) std::fill_n(best, width, kLeast);
  }
  std::fill_n(y, p.result_size(), kLeast);
  for (std::int64_t k = 0; k < p.kernel[2]; ++k) {
    if (p.tiles_rows()) {
      max_cells(columns + k * p.dilation[2], p.stride[2], y, p.result_size());
      continue;
    }
    const PoolProblem::Range range = p.inside(2, k);
    for (std::int64_t row = 0; row < rows; ++row) {
      max_cells(columns + row * width + p.data_index(2, range.begin, k), p.stride[2],
                y + row * p.result[2] + range.begin, range.end - range.begin);
    }
  }
}

template <class T>
void max_pool(const PoolProblem& p, std::byte* const* operands, std::byte* scratch) {
  p.for_planes([&](std::int64_t slot, std::int64_t plane) {
    max_pool_plane(p, operand_in<T>(operands, 0) + plane * p.data_size(),
                   operand_out<T>(operands, 1) + plane * p.result_size(),
                   reinterpret_cast<T*>(scratch) + slot * p.columns_size());
  });
}

/// Windows that tile the data: every cell belongs to one result.
template <class T>
void max_pool_grad_tiles(const PoolProblem& p, const T* x, const T* y, const T* g, T* dx,
                         T* repeated) {
  const std::int64_t rows = p.result[0] * p.result[1], width = p.data[2];
  T* top = repeated;
  T* share = repeated + rows * width;
  repeat_cells(y, p.stride[2], top, p.result_size());
  repeat_cells(g, p.stride[2], share, p.result_size());
  for (std::int64_t row = 0; row < rows; ++row) {
    p.for_rows(row / p.result[1], row % p.result[1], [&](std::int64_t from) {
      select_max(x + from, top + row * width, share + row * width, dx + from, width);
    });
  }
}

template <class T>
void max_pool_grad(const PoolProblem& p, std::byte* const* operands, std::byte* scratch) {
  const bool tiles = p.windows_tile();
  p.for_planes([&](std::int64_t slot, std::int64_t plane) {
    const T* x = operand_in<T>(operands, 0) + plane * p.data_size();
    const T* y = operand_in<T>(operands, 1) + plane * p.result_size();
    const T* g = operand_in<T>(operands, 2) + plane * p.result_size();
    T* dx = operand_out<T>(operands, 3) + plane * p.data_size();
    if (tiles) {
      T* repeated = reinterpret_cast<T*>(scratch) + slot * 2 * p.columns_size();
      max_pool_grad_tiles(p, x, y, g, dx, repeated);
      return;
    }
    std::fill_n(dx, p.data_size(), T{});
    p.for_runs([&](std::int64_t from, std::int64_t to, std::int64_t count) {
      max_cells_grad(x + from, y + to, g + to, p.stride[2], dx + from, count);
    });
  });
}

template <class T>
void average_pool(const PoolProblem& p, const std::vector<T>& counts, std::byte* const* operands) {
  p.for_planes([&](std::int64_t, std::int64_t plane) {
    const T* x = operand_in<T>(operands, 0) + plane * p.data_size();
    T* y = operand_out<T>(operands, 1) + plane * p.result_size();
    std::fill_n(y, p.result_size(), T{});
    p.for_runs([&](std::int64_t from, std::int64_t to, std::int64_t count) {
      add_cells(x + from, p.stride[2], y + to, count);
    });
    for (std::size_t o = 0; o < counts.size(); ++o) {
      if (counts[o] != 0) y[o] /= counts[o];
    }
  });
}

template <class T>
void average_pool_grad(const PoolProblem& p, const std::vector<T>& counts,
                       std::byte* const* operands, std::byte* scratch) {
  p.for_planes([&](std::int64_t slot, std::int64_t plane) {
    T* shares = reinterpret_cast<T*>(scratch) + slot * p.result_size();
    const T* g = operand_in<T>(operands, 0) + plane * p.result_size();
    T* dx = operand_out<T>(operands, 1) + plane * p.data_size();
    std::fill_n(dx, p.data_size(), T{});
    for (std::size_t o = 0; o < counts.size(); ++o) {
      shares[o] = counts[o] == 0 ? T{} : g[o] / counts[o];
    }
    p.for_runs([&](std::int64_t from, std::int64_t to, std::int64_t count) {
      add_cells_grad(shares + to, p.stride[2], dx + from, count);
    });
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
    constexpr bool kAverage = P == Pool::Average || P == Pool::AverageGrad;
    const std::vector<T> counts = kAverage ? p.template window_counts<T>() : std::vector<T>{};
    std::int64_t scratch_elements = 0;  // of one thread
    if (P == Pool::Max) scratch_elements = p.columns_size();
    if (P == Pool::MaxGrad && p.windows_tile()) scratch_elements = 2 * p.columns_size();
    if (P == Pool::AverageGrad) scratch_elements = p.result_size();
    plan.scratch_bytes = static_cast<std::size_t>(p.threads * scratch_elements) * sizeof(T);
    plan.run = [p, counts](std::byte* const* operands, [[maybe_unused]] std::byte* scratch) {
      if constexpr (P == Pool::Max) max_pool<T>(p, operands, scratch);
      if constexpr (P == Pool::MaxGrad) max_pool_grad<T>(p, operands, scratch);
      if constexpr (P == Pool::Average) average_pool<T>(p, counts, operands);
      if constexpr (P == Pool::AverageGrad) average_pool_grad<T>(p, counts, operands, scratch);
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
