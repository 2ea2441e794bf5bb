// Pools whose windows differ in size (adaptive ones) and pools of images with channels last: cell
// by cell, all channels of a cell together.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/pool.hpp"
#include "pando/backends/cpu/kernels/pool_rows.hpp"

namespace pando::cpu {
namespace {

/// The window of one result along one dimension: `count` cells inside the data, of which an average
/// divides by `counted`.
struct Window {
  std::int64_t first, count, counted;
};

struct CellPool : PoolShape {
  std::array<std::vector<Window>, 3> windows;

  const Window& window(std::size_t d, std::int64_t o) const {
    return windows[d][static_cast<std::size_t>(o)];
  }
  /// Calls body(cell of the data) for the window of result (i, j, k), in C order.
  template <class Body>
  void for_cells(const Spatial& o, const Body& body) const {
    const Window &z = window(0, o[0]), &y = window(1, o[1]), &x = window(2, o[2]);
    for (std::int64_t a = 0; a < z.count; ++a) {
      for (std::int64_t b = 0; b < y.count; ++b) {
        const std::int64_t row = (z.first + a * dilation[0]) * data[1] + y.first + b * dilation[1];
        for (std::int64_t c = 0; c < x.count; ++c) {
          body(row * data[2] + x.first + c * dilation[2]);
        }
      }
    }
  }
  std::int64_t counted_cells(const Spatial& o) const {
    return window(0, o[0]).counted * window(1, o[1]).counted * window(2, o[2]).counted;
  }
  Spatial position(std::int64_t o) const {
    return {o / (result[1] * result[2]), o / result[2] % result[1], o % result[2]};
  }
  std::int64_t mean_cells() const {
    return std::max<std::int64_t>(1, data_size() / std::max<std::int64_t>(1, result_size()));
  }

  /// Calls body(plane, result) on the threads.
  template <class Body>
  void for_results(const Body& body) const {
    parallel_for(threads, planes * result_size(), row_grain(lanes * mean_cells(), 1 << 13),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     body(i / result_size(), i % result_size());
                   }
                 });
  }

  /// Lanes of a piece of the data that one thread writes.
  std::int64_t lane_piece() const {
    return planes >= threads ? lanes : std::min<std::int64_t>(lanes, 64);
  }

  /// Calls body(slot, plane, first lane, lanes) on the threads.
  template <class Body>
  void for_pieces(const Body& body) const {
    const std::int64_t pieces = (lanes + lane_piece() - 1) / lane_piece();
    parallel_slots(threads, planes * pieces, row_grain(data_size() * lane_piece(), 1 << 13),
                   [&](std::int64_t slot, std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) {
                       const std::int64_t lane = i % pieces * lane_piece();
                       body(slot, i / pieces, lane, std::min(lane_piece(), lanes - lane));
                     }
                   });
  }
};

/// The windows of attributes kernel_size and so on.
void set_windows(CellPool& p) {
  for (std::size_t d = 0; d < 3; ++d) {
    for (std::int64_t o = 0; o < p.result[d]; ++o) {
      Window window{0, 0, p.counted(d, o)};
      for (std::int64_t k = 0; k < p.kernel[d]; ++k) {
        const std::int64_t at = p.data_index(d, o, k);
        if (at < 0 || at >= p.data[d]) continue;
        if (window.count++ == 0) window.first = at;
      }
      p.windows[d].push_back(window);
    }
  }
}

/// Result o of n has the elements from floor(o * size / n) to ceil((o + 1) * size / n).
void set_adaptive_windows(CellPool& p, const PoolSizes& sizes) {
  const std::size_t rank = sizes.data.size();
  for (std::size_t d = 0; d < rank; ++d) {
    p.data[3 - rank + d] = sizes.data[d];
    p.result[3 - rank + d] = sizes.result[d];
  }
  for (std::size_t d = 0; d < 3; ++d) {
    for (std::int64_t o = 0; o < p.result[d]; ++o) {
      const std::int64_t first = o * p.data[d] / p.result[d];
      const std::int64_t end = ((o + 1) * p.data[d] + p.result[d] - 1) / p.result[d];
      p.windows[d].push_back({first, end - first, end - first});
    }
  }
}

template <class T>
void max_cell_pool(const CellPool& p, std::byte* const* operands) {
  const T* x = operand_in<T>(operands, 0);
  T* y = operand_out<T>(operands, 1);
  p.for_results([&](std::int64_t plane, std::int64_t o) {
    const T* from = x + plane * p.data_size() * p.lanes;
    T* to = y + (plane * p.result_size() + o) * p.lanes;
    std::fill_n(to, p.lanes, -std::numeric_limits<T>::infinity());
    p.for_cells(p.position(o), [&](std::int64_t cell) {
      if (p.lanes == 1) return max_cells<T>(from + cell, 1, to, 1);
      max_cells(from + cell * p.lanes, 1, to, p.lanes);
    });
  });
}

template <class T>
void average_cell_pool(const CellPool& p, std::byte* const* operands) {
  const T* x = operand_in<T>(operands, 0);
  T* y = operand_out<T>(operands, 1);
  p.for_results([&](std::int64_t plane, std::int64_t o) {
    const T* from = x + plane * p.data_size() * p.lanes;
    T* to = y + (plane * p.result_size() + o) * p.lanes;
    const Spatial at = p.position(o);
    std::fill_n(to, p.lanes, T{});
    p.for_cells(at, [&](std::int64_t cell) {
      if (p.lanes == 1) return add_cells<T>(from + cell, 1, to, 1);
      add_cells(from + cell * p.lanes, 1, to, p.lanes);
    });
    const auto count = static_cast<T>(p.counted_cells(at));
    for (std::int64_t i = 0; i < p.lanes && count > 0; ++i) to[i] /= count;
  });
}

/// Zeros in `count` lanes of every cell of a plane.
template <class T>
void clear_lanes(const CellPool& p, T* dx, std::int64_t count) {
  for (std::int64_t cell = 0; cell < p.data_size(); ++cell) {
    std::fill_n(dx + cell * p.lanes, count, T{});
  }
}

template <class T>
void first_max_of_window(const CellPool& p, const Spatial& at, const T* x, const T* y, const T* g,
                         T* dx, T* left, std::int64_t count) {
  std::copy_n(g, count, left);
  p.for_cells(at, [&](std::int64_t cell) {
    const std::int64_t i = cell * p.lanes;
    first_max_cells_grad(x + i, y, left, 1, dx + i, count);
  });
  // A result that is NaN gives to the last NaN of its window.
  for (std::int64_t i = 0; i < count; ++i) {
    if (!std::isnan(y[i])) continue;
    std::int64_t last = -1;
    p.for_cells(at, [&](std::int64_t cell) {
      if (std::isnan(x[cell * p.lanes + i])) last = cell;
    });
    if (last >= 0) dx[last * p.lanes + i] += g[i];
  }
}

template <class T>
void max_cell_pool_grad(const CellPool& p, std::byte* const* operands, std::byte* scratch) {
  p.for_pieces([&](std::int64_t slot, std::int64_t plane, std::int64_t lane, std::int64_t count) {
    const std::int64_t data = plane * p.data_size() * p.lanes + lane;
    const T* x = operand_in<T>(operands, 0) + data;
    T* dx = operand_out<T>(operands, 3) + data;
    clear_lanes(p, dx, count);
    for (std::int64_t o = 0; o < p.result_size(); ++o) {
      const std::int64_t result = (plane * p.result_size() + o) * p.lanes + lane;
      const T* y = operand_in<T>(operands, 1) + result;
      const T* g = operand_in<T>(operands, 2) + result;
      if (p.first_of_ties) {
        T* left = reinterpret_cast<T*>(scratch) + slot * p.lane_piece();
        first_max_of_window(p, p.position(o), x, y, g, dx, left, count);
        continue;
      }
      p.for_cells(p.position(o), [&](std::int64_t cell) {
        const std::int64_t i = cell * p.lanes;
        max_cells_grad(x + i, y, g, 1, dx + i, count);
      });
    }
  });
}

template <class T>
void average_cell_pool_grad(const CellPool& p, std::byte* const* operands, std::byte* scratch) {
  p.for_pieces([&](std::int64_t slot, std::int64_t plane, std::int64_t lane, std::int64_t count) {
    T* dx = operand_out<T>(operands, 1) + plane * p.data_size() * p.lanes + lane;
    T* share = reinterpret_cast<T*>(scratch) + slot * p.lane_piece();
    clear_lanes(p, dx, count);
    for (std::int64_t o = 0; o < p.result_size(); ++o) {
      const Spatial at = p.position(o);
      const T* g = operand_in<T>(operands, 0) + (plane * p.result_size() + o) * p.lanes + lane;
      const auto cells = static_cast<T>(p.counted_cells(at));
      for (std::int64_t i = 0; i < count; ++i) share[i] = cells > 0 ? g[i] / cells : T{};
      p.for_cells(at,
                  [&](std::int64_t cell) { add_cells_grad(share, 1, dx + cell * p.lanes, count); });
    }
  });
}

}  // namespace

template <Pool P>
KernelPlan make_cell_pool(const KernelRequest& request) {
  CellPool p;
  PoolSizes sizes;
  const bool adaptive = request.attributes().has("output_size");
  std::string fault = adaptive ? parse_pool_sizes(request, P, p, sizes) : parse_pool(request, P, p);
  if (!fault.empty()) return KernelPlan::reject(fault);
  if (adaptive) {
    set_adaptive_windows(p, sizes);
  } else {
    set_windows(p);
  }
  const DType dtype = pool_operands(request, P).data->dtype;
  KernelPlan plan;
  const auto use = [&]<class T>(T) {
    if (P == Pool::MaxGrad || P == Pool::AverageGrad) {
      plan.scratch_bytes = static_cast<std::size_t>(p.threads * p.lane_piece()) * sizeof(T);
    }
    plan.run = [p](std::byte* const* operands, [[maybe_unused]] std::byte* scratch) {
      if constexpr (P == Pool::Max) max_cell_pool<T>(p, operands);
      if constexpr (P == Pool::MaxGrad) max_cell_pool_grad<T>(p, operands, scratch);
      if constexpr (P == Pool::Average) average_cell_pool<T>(p, operands);
      if constexpr (P == Pool::AverageGrad) average_cell_pool_grad<T>(p, operands, scratch);
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

template KernelPlan make_cell_pool<Pool::Max>(const KernelRequest& request);
template KernelPlan make_cell_pool<Pool::MaxGrad>(const KernelRequest& request);
template KernelPlan make_cell_pool<Pool::Average>(const KernelRequest& request);
template KernelPlan make_cell_pool<Pool::AverageGrad>(const KernelRequest& request);

}  // namespace pando::cpu
