// MaxPool and AveragePool with their gradients, one thread per (sample, channel) plane.
#include "pando/backends/cpu/kernels/pool.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/pool_rows.hpp"
#include "pando/backends/cpu/row_copy.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

struct PoolProblem : PoolShape {
  std::vector<RowRun> row_runs;  // by the cells of a window along a row

  void find_row_runs() {
    for (std::int64_t k = 0; k < kernel[2]; ++k) {
      const Range range = inside(2, k);
      if (range.begin == range.end) continue;
      row_runs.push_back({data_index(2, range.begin, k), range.begin, range.end - range.begin});
    }
  }

  /// Calls body(first cell of a data row, first of a row of results) for the rows that share
  /// row_runs; data cells are stride[2] apart. Every result's cells come in their order in memory.
  template <class Body>
  void for_row_pairs(const Body& body) const {
    for (std::int64_t i = 0; i < result[0]; ++i) {
      for (std::int64_t j = 0; j < result[1]; ++j) {
        const std::int64_t to = (i * result[1] + j) * result[2];
        for_rows(i, j, [&](std::int64_t row) { body(row, to); });
      }
    }
  }

  /// Calls body(first data cell, first result, count) for every run of them.
  template <class Body>
  void for_runs(const Body& body) const {
    for_row_pairs([&](std::int64_t row, std::int64_t to) {
      for (const RowRun& run : row_runs) body(row + run.from, to + run.to, run.count);
    });
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

  /// Where windows tile the data: calls body(first cell of a data row, first of a row of results)
  /// for each row of the windows at the first row of every depth of results.
  template <class Body>
  void for_tile_rows(const Body& body) const {
    for (std::int64_t i = 0; i < result[0]; ++i) {
      for_rows(i, 0, [&](std::int64_t row) { body(row, i * result[1] * result[2]); });
    }
  }
  /// How many cells of each result's window an average counts; 1 where there is none, so that its
  /// sum, 0, is divided without a branch.
  template <class T>
  std::vector<T> window_counts() const {
    std::vector<T> counts;
    for (std::int64_t i = 0; i < result[0]; ++i) {
      for (std::int64_t j = 0; j < result[1]; ++j) {
        const std::int64_t rows = counted(0, i) * counted(1, j);
        for (std::int64_t k = 0; k < result[2]; ++k) {
          counts.push_back(static_cast<T>(std::max<std::int64_t>(1, rows * counted(2, k))));
        }
      }
    }
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
  /// Windows tile the data in steps that vectors take, but rows are too short for long runs.
  bool has_narrow_tiles() const { return windows_tile() && stride[2] == 2 && result[2] <= 32; }
  /// Elements of the rows that narrow tiles are copied through.
  std::int64_t tile_rows_size() const { return has_narrow_tiles() ? columns_size() : 0; }
  bool windows_tile() const {
    bool tile = tiles_rows();
    for (std::size_t d = 0; d < 3; ++d) {
      tile = tile && pad[d] == 0 && kernel[d] == stride[d] && dilation[d] == 1 &&
             data[d] == result[d] * stride[d];
    }
    return tile;
  }
};

/// The first row, and the elements from one row to the next.
template <class T>
struct DataRows {
  T* first;
  std::int64_t step;
};

/// Copies a row of the data for each row of results at one depth.
template <class T>
void copy_data_rows(const PoolProblem& p, const DataRows<const T>& from, const DataRows<T>& to) {
  constexpr std::int64_t kBytes = sizeof(T);
  copy_rows({reinterpret_cast<const std::byte*>(from.first), from.step * kBytes},
            {reinterpret_cast<std::byte*>(to.first), to.step * kBytes}, p.data[2] * kBytes,
            p.result[1]);
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

/// What results that are NaN have to give goes to the last NaN of their windows.
template <class T>
void give_to_last_nans(const PoolProblem& p, const T* x, const T* y, const T* g, T* dx) {
  for (std::int64_t o = 0; o < p.result_size(); ++o) {
    if (!std::isnan(y[o])) continue;
    const std::int64_t line = o / p.result[2];
    std::int64_t last = -1;
    p.for_rows(line / p.result[1], line % p.result[1], [&](std::int64_t row) {
      for (std::int64_t k = 0; k < p.kernel[2]; ++k) {
        const std::int64_t at = p.data_index(2, o % p.result[2], k);
        if (at >= 0 && at < p.data[2] && std::isnan(x[row + at])) last = row + at;
      }
    });
    if (last >= 0) dx[last] += g[o];
  }
}

template <class T>
void first_max_pool_grad(const PoolProblem& p, const T* x, const T* y, const T* g, T* dx, T* left) {
  std::fill_n(dx, p.data_size(), T{});
  std::copy_n(g, p.result_size(), left);
  p.for_runs([&](std::int64_t from, std::int64_t to, std::int64_t count) {
    first_max_cells_grad(x + from, y + to, left + to, p.stride[2], dx + from, count);
  });
  give_to_last_nans(p, x, y, g, dx);
}

template <class T>
void max_pool_grad(const PoolProblem& p, std::byte* const* operands, std::byte* scratch) {
  const bool tiles = p.windows_tile();
  p.for_planes([&](std::int64_t slot, std::int64_t plane) {
    const T* x = operand_in<T>(operands, 0) + plane * p.data_size();
    const T* y = operand_in<T>(operands, 1) + plane * p.result_size();
    const T* g = operand_in<T>(operands, 2) + plane * p.result_size();
    T* dx = operand_out<T>(operands, 3) + plane * p.data_size();
    if (p.first_of_ties) {
      T* left = reinterpret_cast<T*>(scratch) + slot * p.result_size();
      first_max_pool_grad(p, x, y, g, dx, left);
      return;
    }
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

/// Sums of windows that tile the plane. Row b of every window is copied beside the next one, so
/// that rows of a few cells fill vectors too. Cells come in their order in memory.
template <class T>
void add_tiles(const PoolProblem& p, const T* x, T* y, T* rows) {
  p.for_tile_rows([&](std::int64_t from, std::int64_t to) {
    copy_data_rows<T>(p, {x + from, p.kernel[1] * p.data[2]}, {rows, p.data[2]});
    for (std::int64_t k = 0; k < p.kernel[2]; ++k) {
      add_cells(rows + k, p.stride[2], y + to, p.result[1] * p.result[2]);
    }
  });
}

/// Gives shares[o] to every cell of window o; windows tile the plane.
template <class T>
void spread_tiles(const PoolProblem& p, const T* shares, T* dx, T* rows) {
  repeat_cells(shares, p.stride[2], rows, p.result_size());
  p.for_tile_rows([&](std::int64_t to, std::int64_t from) {
    copy_data_rows<T>(p, {rows + from * p.stride[2], p.data[2]},
                      {dx + to, p.kernel[1] * p.data[2]});
  });
}

template <class T>
void average_pool(const PoolProblem& p, const std::vector<T>& counts, std::byte* const* operands,
                  std::byte* scratch) {
  const bool narrow_tiles = p.has_narrow_tiles();
  p.for_planes([&](std::int64_t slot, std::int64_t plane) {
    const T* x = operand_in<T>(operands, 0) + plane * p.data_size();
    T* y = operand_out<T>(operands, 1) + plane * p.result_size();
    std::fill_n(y, p.result_size(), T{});
    if (narrow_tiles) {
      add_tiles(p, x, y, reinterpret_cast<T*>(scratch) + slot * p.tile_rows_size());
    } else {
      p.for_row_pairs([&](std::int64_t row, std::int64_t to) {
        add_runs(x + row, p.stride[2], y + to, p.row_runs);
      });
    }
    for (std::size_t o = 0; o < counts.size(); ++o) y[o] /= counts[o];
  });
}

template <class T>
void average_pool_grad(const PoolProblem& p, const std::vector<T>& counts,
                       std::byte* const* operands, std::byte* scratch) {
  const bool narrow_tiles = p.has_narrow_tiles();
  p.for_planes([&](std::int64_t slot, std::int64_t plane) {
    T* shares = reinterpret_cast<T*>(scratch) + slot * (p.result_size() + p.tile_rows_size());
    const T* g = operand_in<T>(operands, 0) + plane * p.result_size();
    T* dx = operand_out<T>(operands, 1) + plane * p.data_size();
    for (std::size_t o = 0; o < counts.size(); ++o) shares[o] = g[o] / counts[o];
    if (narrow_tiles) return spread_tiles(p, shares, dx, shares + p.result_size());
    std::fill_n(dx, p.data_size(), T{});
    p.for_row_pairs([&](std::int64_t row, std::int64_t to) {
      add_runs_grad(shares + to, p.stride[2], dx + row, p.row_runs);
    });
  });
}

template <Pool P>
KernelPlan make_pool(const KernelRequest& request) {
  PoolProblem p;
  if (std::string fault = parse_pool(request, P, p); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  if (p.lanes > 1) return KernelPlan::reject("channels last");
  p.find_row_runs();
  const DType dtype = pool_operands(request, P).data->dtype;
  KernelPlan plan;
  const auto use = [&]<class T>(T) {
    constexpr bool kAverage = P == Pool::Average || P == Pool::AverageGrad;
    const std::vector<T> counts = kAverage ? p.template window_counts<T>() : std::vector<T>{};
    std::int64_t scratch_elements = 0;  // of one thread
    if (P == Pool::Max) scratch_elements = p.columns_size();
    if (P == Pool::MaxGrad && p.windows_tile()) scratch_elements = 2 * p.columns_size();
    if (P == Pool::MaxGrad && p.first_of_ties) scratch_elements = p.result_size();
    if (P == Pool::Average) scratch_elements = p.tile_rows_size();
    if (P == Pool::AverageGrad) scratch_elements = p.result_size() + p.tile_rows_size();
    plan.scratch_bytes = static_cast<std::size_t>(p.threads * scratch_elements) * sizeof(T);
    plan.run = [p, counts](std::byte* const* operands, std::byte* scratch) {
      if constexpr (P == Pool::Max) max_pool<T>(p, operands, scratch);
      if constexpr (P == Pool::MaxGrad) max_pool_grad<T>(p, operands, scratch);
      if constexpr (P == Pool::Average) average_pool<T>(p, counts, operands, scratch);
      if constexpr (P == Pool::AverageGrad) average_pool_grad<T>(p, counts, operands, scratch);
    };
  };
  if (dtype == DType::Float32) {
    use(float{});
  } else if (dtype == DType::Float64) {
    use(double{});
  } else {
    return KernelPlan::reject(unsupported_dtype(dtype));
  }
  return plan;
}

template <Pool P>
KernelPlan make_half_pool(const KernelRequest& request) {
  KernelPlan plan = plan_through_float32(request, make_pool<P>);
  return plan.rejection.empty() ? plan : plan_through_float32(request, make_cell_pool<P>);
}

/// All operands.
template <Pool P>
KernelImages pool_images(const KernelRequest& request) {
  return images_in_either_layout(request,
                                 P == Pool::MaxGrad ? std::vector{0, 1, 2, 3} : std::vector{0, 1});
}

template <Pool P>
KindEntry pool_entry() {
  return {.candidates = {{"windows", make_pool<P>},
                         {"cells", make_cell_pool<P>},
                         {"half", make_half_pool<P>}},
          .images = pool_images<P>};
}

template <Pool P>
KernelPlan make_half_cell_pool(const KernelRequest& request) {
  return plan_through_float32(request, make_cell_pool<P>);
}

template <Pool P>
KindEntry adaptive_entry() {
  return {.candidates = {{"cells", make_cell_pool<P>}, {"half", make_half_cell_pool<P>}},
          .images = pool_images<P>};
}

}  // namespace

PoolOperands pool_operands(const KernelRequest& request, Pool pool) {
  switch (pool) {
    case Pool::MaxGrad:
      return {&request.output(0), &request.input(2)};
    case Pool::AverageGrad:
      return {&request.output(0), &request.input(0)};
    default:
      return {&request.input(0), &request.output(0)};
  }
}

std::string parse_pool_sizes(const KernelRequest& request, Pool pool, PoolShape& p,
                             PoolSizes& sizes) {
  const auto [data, result] = pool_operands(request, pool);
  if (data->shape.size() < 2 || result->shape.size() != data->shape.size()) {
    return "wanted data (N, C, spatial...)";
  }
  if (data->dtype != result->dtype) return "operand dtypes differ";
  const bool last = request.attributes().flag_or("channel_last", false);
  const auto spatial = [last](const Shape& shape) {
    return last ? Shape(shape.begin() + 1, shape.end() - 1) : Shape(shape.begin() + 2, shape.end());
  };
  sizes = {spatial(data->shape), spatial(result->shape)};
  p.planes = last ? data->shape[0] : data->shape[0] * data->shape[1];
  p.lanes = last ? data->shape.back() : 1;
  p.first_of_ties =
      request.attributes().has("ties") && request.attributes().text("ties") == "first";
  p.threads = request.num_threads;
  return "";
}

std::string parse_pool(const KernelRequest& request, Pool pool, PoolShape& p) {
  PoolSizes sizes;
  if (std::string fault = parse_pool_sizes(request, pool, p, sizes); !fault.empty()) return fault;
  std::string fault = read_windows(request.attributes(), sizes.data, sizes.result, p);
  if (!fault.empty() || !request.attributes().has("counted_pads")) return fault;
  const Ints& counted = request.attributes().ints("counted_pads");
  const std::size_t rank = sizes.data.size();
  if (counted.size() != 2 * rank) return "wanted two counted pads per dimension";
  for (std::size_t d = 0; d < rank; ++d) {
    p.counted_before[3 - rank + d] = counted[d];
    p.counted_after[3 - rank + d] = counted[rank + d];
  }
  return "";
}

void register_pool_kernels(KernelTable& table) {
  table["MaxPool"] = pool_entry<Pool::Max>();
  table["MaxPoolGrad"] = pool_entry<Pool::MaxGrad>();
  table["AveragePool"] = pool_entry<Pool::Average>();
  table["AveragePoolGrad"] = pool_entry<Pool::AverageGrad>();
  table["AdaptiveMaxPool"] = adaptive_entry<Pool::Max>();
  table["AdaptiveMaxPoolGrad"] = adaptive_entry<Pool::MaxGrad>();
  table["AdaptiveAveragePool"] = adaptive_entry<Pool::Average>();
  table["AdaptiveAveragePoolGrad"] = adaptive_entry<Pool::AverageGrad>();
}

}  // namespace pando::cpu
