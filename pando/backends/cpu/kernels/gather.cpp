// Gather, GatherGrad and GatherElements.
#include <algorithm>
#include <cstring>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/index.hpp"
#include "pando/backends/cpu/kernels/scatter_rows.hpp"
#include "pando/backends/cpu/kernels/strided_copy.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

/// out[g, o, i, :] = t[g, o, indices[g, i], :]
struct GatherProblem {
  std::int64_t groups = 1, outer = 1, size = 1, inner = 1, indices = 1;
  std::int64_t step = 1;  // from an index to the next one
  DType index_dtype = DType::Int32;
  int threads = 1;
};

std::string parse_gather(const KernelRequest& request, const Shape& shape, GatherProblem& p) {
  const OperandDesc& indices = request.input(1);
  if (!is_integer(indices.dtype)) return "indices must be integers";
  const auto rank = static_cast<std::int64_t>(shape.size());
  const std::int64_t axis =
      normalise_axis(request.attributes().integer("axis"), rank, request.spec.kind.c_str());
  p.groups = request.attributes().integer_or("group_size", 1);
  if (p.groups > 1 && (axis == 0 || shape[0] != p.groups || indices.shape.empty() ||
                       indices.shape[0] != p.groups)) {
    return str_cat("group_size ", p.groups, " needs axis >= 1 and that first dimension");
  }
  const AxisView view(shape, axis);
  p.outer = view.outer / std::max<std::int64_t>(1, p.groups);
  p.size = view.size;
  p.inner = view.inner;
  p.indices = num_elements(indices.shape) / std::max<std::int64_t>(1, p.groups);
  p.index_dtype = indices.dtype;
  p.threads = request.num_threads;
  return "";
}

/// Rows of `row` bytes by `count` indices from `first` on; zeros for those out of range.
void gather_rows(const GatherProblem& p, const std::byte* from, const IndexReader& indices,
                 std::int64_t first, std::int64_t count, std::int64_t row, std::byte* to) {
  // The processor cannot know where the next rows are: it is told the first lines of them.
  constexpr std::int64_t kAhead = 8, kLine = 64, kLines = 8;
  const std::int64_t prefetched = std::min(row, kLines * kLine);
  for (std::int64_t i = 0; i < count; ++i, to += row) {
    const std::int64_t next = i + kAhead < count ? indices[first + (i + kAhead) * p.step] : -1;
    if (next >= 0 && next < p.size) {
      for (std::int64_t at = 0; at < prefetched; at += kLine) {
        __builtin_prefetch(from + next * row + at);
      }
    }
    const std::int64_t at = indices[first + i * p.step];
    if (at < 0 || at >= p.size) {
      std::memset(to, 0, static_cast<std::size_t>(row));
    } else {
      std::memcpy(to, from + at * row, static_cast<std::size_t>(row));
    }
  }
}

KernelPlan make_gather(const KernelRequest& request) {
  GatherProblem p;
  if (std::string fault = parse_gather(request, request.input(0).shape, p); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  const auto row = p.inner * static_cast<std::int64_t>(dtype_bytes(request.input(0).dtype));
  KernelPlan plan;
  plan.run = [p, row](std::byte* const* operands, std::byte*) {
    const std::byte* t = operands[0];
    const IndexReader indices(operands[1], p.index_dtype);
    std::byte* out = operands[2];
    parallel_for(p.threads, p.groups * p.outer * p.indices, row_grain(row, 1 << 15),
                 [&](std::int64_t begin, std::int64_t end) {
                   while (begin < end) {
                     const std::int64_t block = begin / p.indices, first = begin % p.indices;
                     const std::int64_t count = std::min(p.indices - first, end - begin);
                     gather_rows(p, t + block * p.size * row, indices,
                                 block / p.outer * p.indices + first, count, row,
                                 out + begin * row);
                     begin += count;
                   }
                 });
  };
  return plan;
}

KernelPlan make_gather_grad_rows(const KernelRequest& request) {
  GatherProblem p;
  const Shape& shape = request.output(0).shape;
  if (std::string fault = parse_gather(request, shape, p); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  RowTargets targets;
  targets.count = p.indices;
  targets.size = p.size;
  targets.columns = p.inner;
  targets.blocks = {{p.groups, p.outer}, {p.indices, 0}};
  targets.index_dtype = p.index_dtype;
  targets.threads = p.threads;
  if (!targets.is_worth_it()) return KernelPlan::reject("rows are short");
  // Then zeros with a few sums are less work. Half precision would need a table of floats for them.
  constexpr std::int64_t kFew = 4;
  const DType dtype = request.input(0).dtype;
  if (!is_half_precision(dtype) && targets.is_one_order() && kFew * p.indices < p.size) {
    return KernelPlan::reject("most rows get nothing");
  }
  return plan_row_sums(dtype, targets);
}

struct ColumnRange {
  std::int64_t begin = 0, end = 0;
};

/// Adds columns of rows of g into `sums` for blocks [begin, end).
template <class T, class Sum>
void add_rows(const GatherProblem& p, const T* g, const IndexReader& indices, Sum* sums,
              std::int64_t begin, std::int64_t end, ColumnRange columns) {
  for (std::int64_t block = begin; block < end; ++block) {
    Sum* target = sums + block * p.size * p.inner;
    for (std::int64_t i = 0; i < p.indices; ++i) {
      const std::int64_t at = indices[block / p.outer * p.indices + i];
      if (at < 0 || at >= p.size) continue;
      const T* row = g + (block * p.indices + i) * p.inner;
      Sum* to = target + at * p.inner;
      for (std::int64_t j = columns.begin; j < columns.end; ++j) {
        to[j] = static_cast<Sum>(to[j] + row[j]);
      }
    }
  }
}

KernelPlan make_gather_grad(const KernelRequest& request) {
  GatherProblem p;
  const Shape& shape = request.output(0).shape;
  if (std::string fault = parse_gather(request, shape, p); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  const DType dtype = request.input(0).dtype;
  const auto count = static_cast<std::size_t>(num_elements(shape));
  KernelPlan plan;
  const bool known = dispatch_arithmetic(dtype, [&]<class T>(T) {
    constexpr bool kThroughFloat = kIsHalfPrecision<T>;
    if (kThroughFloat) plan.scratch_bytes = count * sizeof(float);
    const std::int64_t blocks = p.groups * p.outer;
    // Threads own blocks or columns, so that repeated indices add up in one order.
    const bool by_columns = blocks < p.threads;
    const std::int64_t grain =
        by_columns ? std::max<std::int64_t>(16, row_grain(blocks * p.indices, 1 << 15))
                   : row_grain(p.indices * p.inner, 1 << 15);
    plan.run = [=](std::byte* const* operands, std::byte* scratch) {
      using Sum = std::conditional_t<kThroughFloat, float, T>;
      T* out = operand_out<T>(operands, 2);
      Sum* sums = kThroughFloat ? reinterpret_cast<Sum*>(scratch) : reinterpret_cast<Sum*>(out);
      const IndexReader indices(operands[1], p.index_dtype);
      const std::int64_t elements = p.groups * p.outer * p.size * p.inner;
      parallel_for(p.threads, elements, 1 << 15, [&](std::int64_t begin, std::int64_t end) {
        std::fill(sums + begin, sums + end, Sum{});
      });
      const T* g = operand_in<T>(operands, 0);
      const std::int64_t parts = by_columns ? p.inner : blocks;
      parallel_for(p.threads, parts, grain, [&](std::int64_t begin, std::int64_t end) {
        if (by_columns) {
          add_rows(p, g, indices, sums, 0, blocks, {begin, end});
        } else {
          add_rows(p, g, indices, sums, begin, end, {0, p.inner});
        }
      });
      if constexpr (kThroughFloat) from_floats(sums, out, static_cast<std::size_t>(elements));
    };
  });
  return known ? plan : KernelPlan::reject(unsupported_dtype(dtype));
}

/// Indices that are the same for all elements of a row.
KernelPlan make_gather_element_rows(const KernelRequest& request) {
  const OperandDesc& t = request.input(0);
  const OperandDesc& indices = request.input(1);
  const auto axis = static_cast<std::size_t>(
      normalise_axis(request.attributes().integer("axis"),
                     static_cast<std::int64_t>(t.shape.size()), "GatherElements"));
  const auto targets = row_targets(indices, t.shape, axis, request.num_threads);
  if (!is_integer(indices.dtype) || !targets) return KernelPlan::reject("no rows");
  GatherProblem p;
  p.size = targets->size;
  p.indices = targets->count;
  p.step = targets->step;
  p.index_dtype = indices.dtype;
  const auto row = targets->columns * static_cast<std::int64_t>(dtype_bytes(t.dtype));
  KernelPlan plan;
  plan.run = [p, row, targets = *targets](std::byte* const* operands, std::byte*) {
    const IndexReader index(operands[1], p.index_dtype);
    parallel_for(targets.threads, targets.num_blocks() * p.indices, row_grain(row, 1 << 15),
                 [&](std::int64_t begin, std::int64_t end) {
                   while (begin < end) {
                     const std::int64_t block = begin / p.indices, i = begin % p.indices;
                     const std::int64_t count = std::min(p.indices - i, end - begin);
                     gather_rows(p, operands[0] + block * p.size * row, index,
                                 strided_offset(targets.blocks, block) + i * p.step, count, row,
                                 operands[2] + begin * row);
                     begin += count;
                   }
                 });
  };
  return plan;
}

KernelPlan make_gather_elements(const KernelRequest& request) {
  const OperandDesc& t = request.input(0);
  const OperandDesc& indices = request.input(1);
  const auto rank = static_cast<std::int64_t>(t.shape.size());
  if (!is_integer(indices.dtype) || indices.shape.size() != t.shape.size()) {
    return KernelPlan::reject("indices must be integers of the rank of the data");
  }
  const auto axis = static_cast<std::size_t>(
      normalise_axis(request.attributes().integer("axis"), rank, "GatherElements"));
  StridedDims dims{indices.shape, contiguous_strides(t.shape)};
  const StridedDims index_dims{indices.shape, indices.strides};
  const std::int64_t step = dims.strides[axis], size = t.shape[axis];
  dims.strides[axis] = 0;
  const std::int64_t count = num_elements(indices.shape);
  KernelPlan plan;
  dispatch_bytes(t.dtype, [&]<class T>(T) {
    plan.run = [=, dtype = indices.dtype, threads = request.num_threads](std::byte* const* operands,
                                                                         std::byte*) {
      const T* from = operand_in<T>(operands, 0);
      const IndexReader index(operands[1], dtype);
      T* out = operand_out<T>(operands, 2);
      parallel_for(threads, count, 1 << 13, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t at = index[strided_offset(index_dims, i)];
          out[i] = at < 0 || at >= size ? T{} : from[strided_offset(dims, i) + at * step];
        }
      });
    };
  });
  return plan;
}

}  // namespace

void register_gather_kernels(KernelTable& table) {
  table["Gather"] = {{{"rows", make_gather}}};
  table["GatherGrad"] = {{{"rows", make_gather_grad_rows}, {"elements", make_gather_grad}}};
  table["GatherElements"] = {
      {{"rows", make_gather_element_rows}, {"elements", make_gather_elements}},
      AcceptedLayout::Contiguous,
      {},
      nullptr,
      {1}};
}

}  // namespace pando::cpu
