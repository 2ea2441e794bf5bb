#include "pando/backends/cpu/kernels/scatter_rows.hpp"

#include <algorithm>

#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/row_sums.hpp"
#include "pando/backends/cpu/kernels/scatter_reduction.hpp"
#include "pando/backends/cpu/kernels/strided_copy.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

/// Memory of a thread for rows of half precision, which are computed in float.
template <class T>
class RowBuffers {
 public:
  static std::size_t bytes(const RowTargets& targets) {
    return kIsHalfPrecision<T> ? 2 * row_bytes(targets) * static_cast<std::size_t>(targets.threads)
                               : 0;
  }

  RowBuffers(const RowTargets& targets, std::byte* scratch, std::int64_t slot)
      : row_(scratch + static_cast<std::size_t>(2 * slot) * row_bytes(targets)),
        result_(row_ + row_bytes(targets)) {}

  const Compute<T>* read(const T* row, std::int64_t count) const {
    if constexpr (kIsHalfPrecision<T>) {
      return read_row(row, reinterpret_cast<float*>(row_), count);
    } else {
      return row;
    }
  }
  /// Where a result is computed that goes to `out`.
  Compute<T>* begin_result(T* out) const {
    if constexpr (kIsHalfPrecision<T>) {
      return begin_row(out, reinterpret_cast<float*>(result_));
    } else {
      return out;
    }
  }
  void finish_result(T* out, std::int64_t count) const {
    if constexpr (kIsHalfPrecision<T>) finish_row(out, reinterpret_cast<float*>(result_), count);
  }

 private:
  static std::size_t row_bytes(const RowTargets& targets) {
    return scratch_aligned(static_cast<std::size_t>(targets.columns) * sizeof(Compute<T>));
  }

  std::byte* row_;
  std::byte* result_;
};

/// Calls add(result, row, is_first) for the rows of each result in their order, for
/// `count` elements from those of the piece on. Results begin with `terms.initial`, or 0.
template <class T, class Add>
void reduce_rows(const RowOrder& order, const RowPiece& piece, std::int64_t columns,
                 const RowTerms<T>& terms, const RowBuffers<T>& buffers, const Add& add) {
  const std::int64_t count = piece.end - piece.begin;
  for (std::int64_t t = piece.first; t < piece.last; ++t) {
    if (terms.keeps(order, t)) continue;
    T* out = terms.out + t * columns + piece.begin;
    Compute<T>* result = buffers.begin_result(out);
    for (std::int64_t j = 0; j < count; ++j) {
      const bool is_given = terms.initial != nullptr;
      result[j] =
          is_given ? static_cast<Compute<T>>(terms.initial[out - terms.out + j]) : Compute<T>{};
    }
    bool is_first = terms.initial == nullptr;
    for (std::int64_t k = order.starts[t]; k < order.starts[t + 1]; ++k) {
      const T* row = terms.x + order.positions[k] * columns + piece.begin;
      add(result, buffers.read(row, count), is_first);
      is_first = false;
    }
    buffers.finish_result(out, count);
  }
}

template <class T>
void sum_rows(const RowOrder& order, const RowPiece& piece, std::int64_t columns,
              const RowTerms<T>& terms, const RowBuffers<T>& buffers) {
  if constexpr (std::is_same_v<T, float>) {
    sum_rows_f32(order, piece, columns, terms);
  } else {
    using Sum = Compute<T>;
    const std::int64_t count = piece.end - piece.begin;
    reduce_rows(order, piece, columns, terms, buffers, [&](Sum* sums, const Sum* row, bool) {
      for (std::int64_t j = 0; j < count; ++j) {
        sums[j] = static_cast<Sum>(sums[j] + row[j]);
      }
    });
  }
}

/// Without initial values the first row takes the place of the zeros.
template <class T>
void combine_rows(ScatterReduction reduction, const RowOrder& order, const RowPiece& piece,
                  std::int64_t columns, const RowTerms<T>& terms, const RowBuffers<T>& buffers) {
  using Value = Compute<T>;
  const std::int64_t count = piece.end - piece.begin;
  const auto with = [&](auto constant) {
    reduce_rows(order, piece, columns, terms, buffers,
                [&](Value* result, const Value* row, bool is_first) {
                  for (std::int64_t j = 0; j < count; ++j) {
                    result[j] = is_first ? row[j] : reduced(constant(), result[j], row[j]);
                  }
                });
  };
  using enum ScatterReduction;
  switch (reduction) {
    case Product:
      return with(std::integral_constant<ScatterReduction, Product>());
    case Min:
      return with(std::integral_constant<ScatterReduction, Min>());
    case Max:
      return with(std::integral_constant<ScatterReduction, Max>());
    case None:
      return with(std::integral_constant<ScatterReduction, None>());
    default:
      return sum_rows(order, piece, columns, terms, buffers);
  }
}

/// The operands of a scatter; -1: there is none.
struct RowOperands {
  int x = 0, targets = 1, initial = -1, out = 2;
};

template <class T>
KernelPlan plan_rows(const RowTargets& targets, ScatterReduction reduction, const RowOperands& at) {
  const std::size_t order_bytes = targets.scratch_bytes();
  KernelPlan plan;
  plan.scratch_bytes = order_bytes + RowBuffers<T>::bytes(targets);
  plan.run = [=](std::byte* const* operands, std::byte* scratch) {
    const std::int64_t columns = targets.columns;
    for_row_pieces(
        targets, operands[at.targets], scratch, [&](const RowOrder& order, const RowPiece& piece) {
          RowTerms<T> terms;
          terms.x =
              reinterpret_cast<const T*>(operands[at.x]) + piece.block * targets.count * columns;
          const std::int64_t results = piece.block * targets.size * columns;
          terms.out = reinterpret_cast<T*>(operands[at.out]) + results;
          if (at.initial >= 0) {
            terms.initial = reinterpret_cast<const T*>(operands[at.initial]) + results;
          }
          const RowBuffers<T> buffers(targets, scratch + order_bytes, piece.slot);
          combine_rows(reduction, order, piece, columns, terms, buffers);
        });
  };
  return plan;
}

KernelPlan plan_for(DType dtype, const RowTargets& targets, ScatterReduction reduction,
                    const RowOperands& at) {
  KernelPlan plan;
  const bool known =
      dispatch_arithmetic(dtype, [&]<class T>(T) { plan = plan_rows<T>(targets, reduction, at); });
  return known ? plan : KernelPlan::reject(unsupported_dtype(dtype));
}

std::optional<RowTargets> targets_of(const KernelRequest& request) {
  const Shape& out = request.output(0).shape;
  const std::int64_t axis =
      normalise_axis(request.attributes().integer("axis"), static_cast<std::int64_t>(out.size()),
                     request.spec.kind.c_str());
  return row_targets(request.input(1), out, static_cast<std::size_t>(axis), request.num_threads);
}

}  // namespace

bool goes_by_rows(const KernelRequest& request) {
  return is_integer(request.input(1).dtype) && request.input(0).shape == request.input(1).shape &&
         targets_of(request).has_value();
}

KernelPlan make_scatter_reduce_rows(const KernelRequest& request) {
  const std::optional<RowTargets> targets = targets_of(request);
  const auto reduction = scatter_reduction(request.attributes().text("reduction"));
  const DType dtype = request.output(0).dtype;
  if (!targets || !reduction || request.input(0).dtype != dtype) {
    return KernelPlan::reject("wanted rows of the dtype of the result");
  }
  RowOperands at;
  at.out = static_cast<int>(request.spec.inputs.size());
  if (request.has_input(2)) {
    if (!(request.input(2) == request.output(0))) {
      return KernelPlan::reject("initial values differ from the result in shape or dtype");
    }
    at.initial = 2;
  }
  return plan_for(dtype, *targets, *reduction, at);
}

KernelPlan plan_row_sums(DType dtype, const RowTargets& targets) {
  return plan_for(dtype, targets, ScatterReduction::Sum, {});
}

}  // namespace pando::cpu
