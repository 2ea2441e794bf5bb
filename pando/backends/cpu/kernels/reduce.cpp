// ReduceSum, ReduceMax, ReduceMin, ReduceProd over any axes and strides.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/median.hpp"
#include "pando/backends/cpu/kernels/reduce_plan.hpp"
#include "pando/backends/cpu/kernels/reduce_rows.hpp"
#include "pando/backends/cpu/parallel.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

constexpr std::int64_t kTile = 256;       // columns reduced together
constexpr std::int64_t kFlushRows = 256;  // rows between flushes of a float tile
constexpr std::int64_t kSlices = 16;      // pieces of one long reduction, whatever the thread count
constexpr std::int64_t kSliceElements = 1 << 16;

/// Accumulators: floats in double, integers modulo their own width.
template <class T>
struct AccumulatorOf {
  using Type = std::make_unsigned_t<T>;
};
template <>
struct AccumulatorOf<float> {
  using Type = double;
};
template <>
struct AccumulatorOf<double> {
  using Type = double;
};
template <DType kFormat>
struct AccumulatorOf<HalfPrecision<kFormat>> {
  using Type = double;
};
template <class T>
using Accumulator = typename AccumulatorOf<T>::Type;

template <class T>
Accumulator<T> identity(Reduction reduction) {
  if constexpr (kIsFloatElement<T>) {
    return reduction_identity(reduction);
  } else {
    switch (reduction) {
      case Reduction::Sum:
        return 0;
      case Reduction::Prod:
        return 1;
      case Reduction::Max:
        return static_cast<Accumulator<T>>(std::numeric_limits<T>::min());
      default:
        return static_cast<Accumulator<T>>(std::numeric_limits<T>::max());
    }
  }
}

template <class T>
Accumulator<T> combine(Reduction reduction, Accumulator<T> a, Accumulator<T> b) {
  if (reduction == Reduction::Sum) return static_cast<Accumulator<T>>(a + b);
  // The product in uint64: narrow unsigned types promote to int, whose overflow is undefined.
  if constexpr (kIsFloatElement<T>) {
    if (reduction == Reduction::Prod) return a * b;
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
    return reduction == Reduction::Max ? std::max(a, b) : std::min(a, b);
  } else {
    if (reduction == Reduction::Prod) {
      return static_cast<Accumulator<T>>(std::uint64_t(a) * std::uint64_t(b));
    }
    const T x = static_cast<T>(a), y = static_cast<T>(b);
    return static_cast<Accumulator<T>>(reduction == Reduction::Max ? std::max(x, y)
                                                                   : std::min(x, y));
  }
}

template <class T>
Accumulator<T> reduce_run(Reduction reduction, const T* values, std::int64_t count,
                          std::int64_t stride) {
  if constexpr (std::is_same_v<T, float>) {
    if (stride == 1) return reduce_run_f32(reduction, values, count);
  }
  Accumulator<T> total = identity<T>(reduction);
  if constexpr (kIsHalfPrecision<T>) {
    if (stride == 1) {
      float buffer[kTile];
      for (std::int64_t i = 0; i < count; i += kTile) {
        const std::int64_t n = std::min(kTile, count - i);
        to_floats(values + i, buffer, static_cast<std::size_t>(n));
        total = combine<T>(reduction, total, reduce_run_f32(reduction, buffer, n));
      }
      return total;
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    total = combine<T>(reduction, total, static_cast<Accumulator<T>>(values[i * stride]));
  }
  return total;
}

/// Joins `rows` rows of at most kTile contiguous columns into acc.
template <class T>
void reduce_rows(Reduction reduction, Accumulator<T>* acc, const T* rows, std::int64_t row_count,
                 std::int64_t row_stride, std::int64_t columns) {
  if constexpr (std::is_same_v<T, float> || kIsHalfPrecision<T>) {
    float tile[kTile], buffer[kTile];
    for (std::int64_t first = 0; first < row_count; first += kFlushRows) {
      const std::int64_t count = std::min(kFlushRows, row_count - first);
      std::fill_n(tile, columns, static_cast<float>(reduction_identity(reduction)));
      if constexpr (std::is_same_v<T, float>) {
        reduce_rows_f32(reduction, tile, rows + first * row_stride, count, row_stride, columns);
      } else {
        for (std::int64_t r = first; r < first + count; ++r) {
          to_floats(rows + r * row_stride, buffer, static_cast<std::size_t>(columns));
          reduce_rows_f32(reduction, tile, buffer, 1, 0, columns);
        }
      }
      for (std::int64_t j = 0; j < columns; ++j) acc[j] = combine<T>(reduction, acc[j], tile[j]);
    }
  } else {
    for (std::int64_t r = 0; r < row_count; ++r) {
      const T* row = rows + r * row_stride;
      for (std::int64_t j = 0; j < columns; ++j) {
        acc[j] = combine<T>(reduction, acc[j], static_cast<Accumulator<T>>(row[j]));
      }
    }
  }
}

/// Work items: tiles of columns, of each outer position in turn.
std::int64_t num_tiles(const ReducePlan& plan) {
  return num_elements(plan.kept.shape) * ((plan.columns + kTile - 1) / kTile);
}

struct ColumnTile {
  std::int64_t in, out, columns;  // offsets of its first column in the data and in the results
};

ColumnTile column_tile(const ReducePlan& plan, std::int64_t item) {
  const std::int64_t tiles = (plan.columns + kTile - 1) / kTile;
  const std::int64_t outer = item / tiles, column = item % tiles * kTile;
  return {strided_offset(plan.kept, outer) + column * plan.column_stride,
          outer * plan.columns + column, std::min(kTile, plan.columns - column)};
}

/// Reduces rows [begin, end) of the split dimension for work items [item_begin, item_end).
template <class T>
void reduce_items(const ReducePlan& plan, Reduction reduction, const T* in, Accumulator<T>* out,
                  std::int64_t begin, std::int64_t end, std::int64_t item_begin,
                  std::int64_t item_end) {
  for (std::int64_t item = item_begin; item < item_end; ++item) {
    const ColumnTile tile = column_tile(plan, item);
    Accumulator<T>* acc = out + tile.out;
    std::fill_n(acc, tile.columns, identity<T>(reduction));
    for (std::int64_t r = begin; r < end; ++r) {
      const T* rows = in + tile.in + strided_offset(plan.reduced, r);
      if (plan.columns == 1) {
        acc[0] = combine<T>(reduction, acc[0],
                            reduce_run<T>(reduction, rows, plan.run, plan.run_stride));
      } else {
        reduce_rows<T>(reduction, acc, rows, plan.run, plan.run_stride, tile.columns);
      }
    }
  }
}

/// Whether every result is the reduction of a row of its own, and these are evenly spaced.
bool reduces_even_rows(const ReducePlan& plan) {
  return plan.columns == 1 && plan.run_stride == 1 && plan.reduced.shape.empty() &&
         plan.kept.shape.size() <= 1;
}

KernelPlan plan_even_rows(const ReducePlan& plan, Reduction reduction, std::int64_t grain,
                          int num_threads) {
  KernelPlan kernel;
  kernel.detail = "even rows";
  const bool is_one = plan.kept.shape.empty();
  const std::int64_t rows = is_one ? 1 : plan.kept.shape[0];
  const std::int64_t stride = is_one ? 0 : plan.kept.strides[0];
  kernel.run = [=, columns = plan.run](std::byte* const* operands, std::byte*) {
    const float* in = operand_in<float>(operands, 0);
    float* out = operand_out<float>(operands, 1);
    parallel_for(num_threads, rows, grain, [&](std::int64_t begin, std::int64_t end) {
      reduce_each_row_f32(reduction, in + begin * stride, end - begin, stride, columns,
                          out + begin);
    });
  };
  return kernel;
}

/// Whether columns are reduced over so few rows that sums in float need no totals in double.
bool reduces_few_rows(const ReducePlan& plan) {
  return plan.columns > 1 && plan.reduced.shape.empty() && plan.run <= kFlushRows;
}

KernelPlan plan_few_rows(const ReducePlan& plan, Reduction reduction, std::int64_t grain,
                         int num_threads) {
  KernelPlan kernel;
  kernel.detail = "columns of few rows";
  const auto start = static_cast<float>(reduction_identity(reduction));
  kernel.run = [=](std::byte* const* operands, std::byte*) {
    const float* in = operand_in<float>(operands, 0);
    float* out = operand_out<float>(operands, 1);
    parallel_for(num_threads, num_tiles(plan), grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t item = begin; item < end; ++item) {
        const ColumnTile tile = column_tile(plan, item);
        std::fill_n(out + tile.out, tile.columns, start);
        reduce_rows_f32(reduction, out + tile.out, in + tile.in, plan.run, plan.run_stride,
                        tile.columns);
      }
    });
  };
  return kernel;
}

template <class T>
KernelPlan plan_reduce(ReducePlan plan, Reduction reduction, int num_threads) {
  const std::int64_t items = num_tiles(plan);
  const std::int64_t outputs = num_elements(plan.kept.shape) * plan.columns;
  const std::int64_t per_item = plan.outer_count() * plan.run * std::min(plan.columns, kTile);
  std::int64_t slices = 1;
  if (items < kSlices && per_item >= 2 * kSliceElements) {
    plan.split_run(kSlices);
    slices = std::min(kSlices, plan.outer_count());
  }
  const std::int64_t grain =
      std::max<std::int64_t>(1, (1 << 14) / std::max<std::int64_t>(1, per_item / slices));
  if (std::is_same_v<T, float> && slices == 1) {
    if (reduces_even_rows(plan)) return plan_even_rows(plan, reduction, grain, num_threads);
    if (reduces_few_rows(plan)) return plan_few_rows(plan, reduction, grain, num_threads);
  }
  KernelPlan kernel;
  kernel.detail = str_cat(plan.columns == 1 ? "rows" : "columns", ", slices ", slices);
  kernel.scratch_bytes = static_cast<std::size_t>(slices * outputs) * sizeof(Accumulator<T>);
  kernel.run = [=](std::byte* const* operands, std::byte* scratch) {
    const T* in = operand_in<T>(operands, 0);
    T* out = operand_out<T>(operands, 1);
    auto* partial = reinterpret_cast<Accumulator<T>*>(scratch);
    const std::int64_t rows = plan.outer_count();
    parallel_for(num_threads, items * slices, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t slice = i % slices;
        reduce_items<T>(plan, reduction, in, partial + slice * outputs, rows * slice / slices,
                        rows * (slice + 1) / slices, i / slices, i / slices + 1);
      }
    });
    for (std::int64_t j = 0; j < outputs; ++j) {
      Accumulator<T> total = partial[j];
      for (std::int64_t s = 1; s < slices; ++s) {
        total = combine<T>(reduction, total, partial[s * outputs + j]);
      }
      out[j] = static_cast<T>(total);
    }
  };
  return kernel;
}

template <Reduction R>
KernelPlan make_reduce(const KernelRequest& request) {
  const OperandDesc& in = request.input(0);
  if (in.dtype != request.output(0).dtype) {
    return KernelPlan::reject(
        str_cat("result dtype ", request.output(0).dtype, " differs from ", in.dtype));
  }
  const ReducePlan plan(in, request.attributes().ints("axes"));
  KernelPlan kernel;
  const bool known = in.dtype != DType::Bool && dispatch_arithmetic(in.dtype, [&]<class T>(T) {
                       kernel = plan_reduce<T>(plan, R, request.num_threads);
                     });
  return known ? kernel : KernelPlan::reject(unsupported_dtype(in.dtype));
}

/// The results are in the same order if the channels or all spatial dimensions are reduced.
KernelImages reduced_images(const KernelRequest& request) {
  const Ints& axes = request.attributes().ints("axes");
  const auto is_reduced = [&](std::int64_t axis) {
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  };
  const auto spatial = static_cast<std::int64_t>(request.input(0).shape.size()) - 2;
  std::int64_t reduced = 0;
  for (std::int64_t d = 0; d < spatial; ++d) reduced += is_reduced(d + 2) ? 1 : 0;
  if (!is_reduced(1) && reduced != spatial) return {};
  return images_in_either_layout(request, {0});
}

template <Reduction R>
KindEntry reduce_entry() {
  return {.candidates = {{"blocked", make_reduce<R>}},
          .layout = AcceptedLayout::AnyStrides,
          .images = reduced_images};
}

}  // namespace

void register_reduce_kernels(KernelTable& table) {
  table["ReduceSum"] = reduce_entry<Reduction::Sum>();
  table["ReduceMax"] = reduce_entry<Reduction::Max>();
  table["ReduceMin"] = reduce_entry<Reduction::Min>();
  table["ReduceProd"] = reduce_entry<Reduction::Prod>();
  table["ReduceMedian"] = {{{"selection", make_median}}, AcceptedLayout::AnyStrides};
}

}  // namespace pando::cpu
