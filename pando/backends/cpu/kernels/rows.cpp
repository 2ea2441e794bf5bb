// CoalesceRows and UpdateRows.
#include <algorithm>
#include <cstring>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/index.hpp"
#include "pando/backends/cpu/kernels/radix_sort.hpp"
#include "pando/backends/cpu/kernels/strided_copy.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

/// Rows of `inner` elements, `indices` of them in each of `outer` blocks.
struct RowsProblem {
  std::int64_t outer = 1, size = 1, inner = 1, indices = 0;
  DType index_dtype = DType::Int32;
  bool skips_zeros = false;
  int threads = 1;

  std::int64_t grain() const { return row_grain(outer * inner, 1 << 13); }
};

/// Rows that have one index are neighbours in `order`: run k has [starts[k], starts[k + 1]).
struct Runs {
  const std::uint64_t* order = nullptr;  // index above, position of the row below
  const std::int64_t* starts = nullptr;

  std::int64_t position(std::int64_t i) const {
    return static_cast<std::int64_t>(order[i] & 0xFFFFFFFFu);
  }
};

/// Finds the runs and writes the index of each, and -1 behind them; gives how many there are.
std::int64_t find_runs(const RowsProblem& p, const IndexReader& indices, std::uint64_t* entries,
                       std::int64_t* starts, std::int64_t* keys, Runs& runs) {
  std::int64_t known = 0;
  for (std::int64_t i = 0; i < p.indices; ++i) {
    const std::int64_t at = indices[i];
    if (at < 0 || at >= p.size) continue;
    entries[known++] = static_cast<std::uint64_t>(at) << 32 | static_cast<std::uint64_t>(i);
  }
  runs = {radix_sort(entries, entries + p.indices, known), starts};
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < known; ++i) {
    const auto key = static_cast<std::int64_t>(runs.order[i] >> 32);
    if (i > 0 && key == keys[count - 1]) continue;
    keys[count] = key;
    starts[count++] = i;
  }
  starts[count] = known;
  std::fill(keys + count, keys + p.indices, -1);
  return count;
}

/// Writes the sum of run k in each block; gives whether an element of them is not 0.
template <class T>
bool sum_run(const RowsProblem& p, const Runs& runs, std::int64_t k, const T* x, T* out,
             Compute<T>* buffer) {
  using Sum = Compute<T>;
  bool is_nonzero = false;
  for (std::int64_t block = 0; block < p.outer; ++block) {
    const T* rows = x + block * p.indices * p.inner;
    T* result = out + (block * p.indices + k) * p.inner;
    Sum* sums = buffer;
    if constexpr (std::is_same_v<T, Sum>) sums = result;
    std::fill(sums, sums + p.inner, Sum{});
    for (std::int64_t i = runs.starts[k]; i < runs.starts[k + 1]; ++i) {
      const T* row = rows + runs.position(i) * p.inner;
      for (std::int64_t j = 0; j < p.inner; ++j) sums[j] += static_cast<Sum>(row[j]);
    }
    if constexpr (!std::is_same_v<T, Sum>) {
      from_floats(sums, result, static_cast<std::size_t>(p.inner));
    }
    is_nonzero = is_nonzero || std::any_of(result, result + p.inner, [](T value) {
                   return static_cast<Sum>(value) != Sum{};
                 });
  }
  return is_nonzero;
}

/// Segments of the scratch of CoalesceRows.
struct RowsScratch {
  std::size_t starts = 0, buffers = 0, buffer_bytes = 0, bytes = 0;

  RowsScratch(const RowsProblem& p, std::size_t sum_bytes) {
    const auto count = static_cast<std::size_t>(p.indices);
    starts = scratch_aligned(2 * count * sizeof(std::uint64_t));
    buffers = starts + scratch_aligned((count + 1) * sizeof(std::int64_t));
    buffer_bytes = scratch_aligned(static_cast<std::size_t>(p.inner) * sum_bytes);
    bytes = buffers + buffer_bytes * static_cast<std::size_t>(p.threads);
  }
};

template <class T>
KernelPlan plan_coalesce_rows(const RowsProblem& p) {
  using Sum = Compute<T>;
  const RowsScratch parts(p, std::is_same_v<T, Sum> ? 0 : sizeof(Sum));
  KernelPlan plan;
  plan.scratch_bytes = parts.bytes;
  plan.run = [p, parts](std::byte* const* operands, std::byte* scratch) {
    const T* x = operand_in<T>(operands, 0);
    T* out = operand_out<T>(operands, 2);
    auto* keys = operand_out<std::int64_t>(operands, 3);
    Runs runs;
    const std::int64_t count = find_runs(
        p, IndexReader(operands[1], p.index_dtype), reinterpret_cast<std::uint64_t*>(scratch),
        reinterpret_cast<std::int64_t*>(scratch + parts.starts), keys, runs);
    parallel_slots(
        p.threads, p.indices, p.grain(),
        [&](std::int64_t slot, std::int64_t begin, std::int64_t end) {
          auto* buffer = reinterpret_cast<Sum*>(
              scratch + parts.buffers + static_cast<std::size_t>(slot) * parts.buffer_bytes);
          for (std::int64_t k = begin; k < std::min(end, count); ++k) {
            const bool is_nonzero = sum_run(p, runs, k, x, out, buffer);
            if (p.skips_zeros && !is_nonzero) keys[k] = -1;
          }
          const std::int64_t first = std::clamp(count, begin, end);
          for (std::int64_t block = 0; block < p.outer; ++block) {
            T* rows = out + block * p.indices * p.inner;
            std::fill(rows + first * p.inner, rows + end * p.inner, T{});
          }
        });
  };
  return plan;
}

KernelPlan make_coalesce_rows(const KernelRequest& request) {
  const OperandDesc& indices = request.input(1);
  if (!is_integer(indices.dtype)) return KernelPlan::reject("indices must be integers");
  const AxisView view(request.output(0).shape, request.attributes().integer("axis"));
  RowsProblem p;
  p.outer = view.outer;
  p.size = request.attributes().integer("size");
  p.inner = view.inner;
  p.indices = view.size;
  p.index_dtype = indices.dtype;
  p.skips_zeros = request.attributes().flag_or("skip_zero_rows", false);
  p.threads = request.num_threads;
  KernelPlan plan;
  const bool known =
      dispatch_float(request.input(0).dtype, [&]<class T>(T) { plan = plan_coalesce_rows<T>(p); });
  return known ? plan : KernelPlan::reject(unsupported_dtype(request.input(0).dtype));
}

KernelPlan make_update_rows(const KernelRequest& request) {
  const OperandDesc& t = request.input(0);
  const OperandDesc& indices = request.input(2);
  if (!is_integer(indices.dtype) || request.input(1).dtype != t.dtype) {
    return KernelPlan::reject("indices must be integers and rows of the dtype of the table");
  }
  const AxisView view(t.shape, request.attributes().integer("axis"));
  const auto row = view.inner * static_cast<std::int64_t>(dtype_bytes(t.dtype));
  const std::int64_t count = num_elements(indices.shape);
  const std::int64_t bytes = view.outer * view.size * row;
  KernelPlan plan;
  plan.run = [=, dtype = indices.dtype, threads = request.num_threads](std::byte* const* operands,
                                                                       std::byte*) {
    std::byte* out = operands[3];
    if (out != operands[0]) std::memcpy(out, operands[0], static_cast<std::size_t>(bytes));
    const IndexReader index(operands[2], dtype);
    parallel_for(threads, view.outer * count, row_grain(row, 1 << 15),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     const std::int64_t at = index[i % count];
                     if (at < 0 || at >= view.size) continue;
                     std::memcpy(out + (i / count * view.size + at) * row, operands[1] + i * row,
                                 static_cast<std::size_t>(row));
                   }
                 });
  };
  return plan;
}

}  // namespace

void register_rows_kernels(KernelTable& table) {
  table["CoalesceRows"] = {{{"sorted", make_coalesce_rows}}};
  table["UpdateRows"] = {{{"rows", make_update_rows}}, AcceptedLayout::Contiguous, {0}};
}

}  // namespace pando::cpu
