// Scatter, ScatterReduce and ScatterArgReduce. Elements are written in C order of the indices by
// one thread, so that repeated indices have one result.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/index.hpp"
#include "pando/backends/cpu/kernels/scatter_reduction.hpp"
#include "pando/backends/cpu/kernels/scatter_rows.hpp"
#include "pando/backends/cpu/kernels/strided_copy.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

/// Where position i of the indices goes in the output. A row is what lies along the last dimension.
struct ScatterMap {
  StridedDims rows;        // strides of the output with 0 along the axis
  StridedDims index_rows;  // strides of the indices
  std::int64_t row = 1, row_step = 0, index_step = 0;
  std::int64_t step = 1, size = 0, out_count = 0;
  DType index_dtype = DType::Int32;
};

/// Takes the stride of the last dimension.
std::int64_t take_last(StridedDims& dims) {
  if (dims.shape.empty()) return 0;
  dims.shape.pop_back();
  const std::int64_t stride = dims.strides.back();
  dims.strides.pop_back();
  return stride;
}

std::string parse_scatter(const KernelRequest& request, std::size_t indices_at, std::size_t data_at,
                          ScatterMap& map) {
  const OperandDesc& indices = request.input(indices_at);
  const OperandDesc& data = request.input(data_at);
  const Shape& out = request.output(0).shape;
  if (!is_integer(indices.dtype) || indices.shape != data.shape ||
      indices.shape.size() != out.size() || data.dtype != request.output(0).dtype) {
    return str_cat("indices ", operand_text(indices), " and values ", operand_text(data),
                   " do not fit ", operand_text(request.output(0)));
  }
  const auto axis = static_cast<std::size_t>(normalise_axis(request.attributes().integer("axis"),
                                                            static_cast<std::int64_t>(out.size()),
                                                            request.spec.kind.c_str()));
  for (std::size_t d = 0; d < out.size(); ++d) {
    if (d != axis && indices.shape[d] > out[d]) return "indices reach outside the result";
  }
  map.rows = {indices.shape, contiguous_strides(out)};
  map.step = map.rows.strides[axis];
  map.size = out[axis];
  map.rows.strides[axis] = 0;
  map.index_rows = {indices.shape, indices.strides};
  map.row = indices.shape.empty() ? 1 : indices.shape.back();
  map.row_step = take_last(map.rows);
  map.index_step = take_last(map.index_rows);
  map.out_count = num_elements(out);
  map.index_dtype = indices.dtype;
  return "";
}

/// Calls body(position, output element) for every index in range.
template <class Body>
void for_targets(const ScatterMap& map, const IndexReader& indices, const Body& body) {
  const std::int64_t rows = num_elements(map.rows.shape);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t index = strided_offset(map.index_rows, r);
    const std::int64_t out = strided_offset(map.rows, r);
    for (std::int64_t j = 0; j < map.row; ++j) {
      const std::int64_t at = indices[index + j * map.index_step];
      if (at >= 0 && at < map.size) body(r * map.row + j, out + j * map.row_step + at * map.step);
    }
  }
}

KernelPlan make_scatter(const KernelRequest& request) {
  ScatterMap map;
  if (std::string fault = parse_scatter(request, 1, 2, map); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  if (request.input(0).dtype != request.output(0).dtype ||
      request.input(0).shape != request.output(0).shape) {
    return KernelPlan::reject("the result differs from the data in shape or dtype");
  }
  KernelPlan plan;
  dispatch_bytes(request.output(0).dtype, [&]<class T>(T) {
    plan.run = [map](std::byte* const* operands, std::byte*) {
      T* out = operand_out<T>(operands, 3);
      const T* values = operand_in<T>(operands, 2);
      if (operands[0] != operands[3]) {
        std::memcpy(operands[3], operands[0], static_cast<std::size_t>(map.out_count) * sizeof(T));
      }
      for_targets(map, IndexReader(operands[1], map.index_dtype),
                  [&](std::int64_t from, std::int64_t to) { out[to] = values[from]; });
    };
  });
  return plan;
}

template <class T>
KernelPlan plan_scatter_reduce(const ScatterMap& map, ScatterReduction reduction, bool has_initial,
                               std::size_t num_inputs) {
  using Sum = Compute<T>;
  // Without initial values the first value of an element replaces its zero.
  const bool marks =
      !has_initial && (reduction == ScatterReduction::Product ||
                       reduction == ScatterReduction::Min || reduction == ScatterReduction::Max);
  constexpr bool kConverts = kIsHalfPrecision<T>;
  const auto count = static_cast<std::size_t>(map.out_count);
  const std::size_t sums_bytes = kConverts ? scratch_aligned(count * sizeof(Sum)) : 0;
  KernelPlan plan;
  plan.scratch_bytes = sums_bytes + (marks ? count : 0);
  plan.run = [=](std::byte* const* operands, std::byte* scratch) {
    const T* data = operand_in<T>(operands, 0);
    const T* initial = has_initial ? operand_in<T>(operands, 2) : nullptr;
    T* out = operand_out<T>(operands, num_inputs);
    Sum* sums = reinterpret_cast<Sum*>(kConverts ? scratch : operands[num_inputs]);
    std::byte* written = scratch + sums_bytes;
    if (marks) std::memset(written, 0, count);
    for (std::size_t i = 0; i < count; ++i) {
      sums[i] = initial == nullptr ? Sum{} : static_cast<Sum>(initial[i]);
    }
    for_targets(map, IndexReader(operands[1], map.index_dtype),
                [&](std::int64_t from, std::int64_t to) {
                  const Sum value = static_cast<Sum>(data[from]);
                  const bool first = marks && written[to] == std::byte{0};
                  sums[to] = first ? value : reduced(reduction, sums[to], value);
                  if (marks) written[to] = std::byte{1};
                });
    if constexpr (kConverts) from_floats(sums, out, count);
  };
  return plan;
}

KernelPlan make_scatter_reduce(const KernelRequest& request) {
  ScatterMap map;
  if (std::string fault = parse_scatter(request, 1, 0, map); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  const std::string& name = request.attributes().text("reduction");
  const auto reduction = scatter_reduction(name);
  if (!reduction) return KernelPlan::reject(str_cat("unknown reduction '", name, "'"));
  const bool has_initial = request.has_input(2);
  const DType dtype = request.output(0).dtype;
  if (has_initial &&
      !(request.input(2).shape == request.output(0).shape && request.input(2).dtype == dtype)) {
    return KernelPlan::reject("initial values differ from the result in shape or dtype");
  }
  KernelPlan plan;
  const bool known = dispatch_arithmetic(dtype, [&]<class T>(T) {
    plan = plan_scatter_reduce<T>(map, *reduction, has_initial, request.spec.inputs.size());
  });
  return known ? plan : KernelPlan::reject(unsupported_dtype(dtype));
}

/// Whether `value` replaces `current`; NaN replaces all but NaN.
template <class A>
bool beats(ScatterReduction reduction, A value, A current) {
  if (value != value) return current == current;
  return reduction == ScatterReduction::Min ? value < current : current < value;
}

template <class T>
KernelPlan plan_scatter_arg(const ScatterMap& map, ScatterReduction reduction, bool has_initial,
                            const AxisView& data, std::size_t num_inputs) {
  using Value = Compute<T>;
  KernelPlan plan;
  plan.run = [=](std::byte* const* operands, std::byte*) {
    const T* values = operand_in<T>(operands, 0);
    T* out = operand_out<T>(operands, num_inputs);
    auto* chosen = operand_out<std::int32_t>(operands, num_inputs + 1);
    const auto none = static_cast<std::int32_t>(data.size);
    if (has_initial) {
      std::memcpy(out, operands[2], static_cast<std::size_t>(map.out_count) * sizeof(T));
    } else {
      std::fill(out, out + map.out_count, T{});
    }
    std::fill(chosen, chosen + map.out_count, none);
    for_targets(map, IndexReader(operands[1], map.index_dtype),
                [&](std::int64_t from, std::int64_t to) {
                  const bool is_first = !has_initial && chosen[to] == none;
                  const auto value = static_cast<Value>(values[from]);
                  if (!is_first && !beats(reduction, value, static_cast<Value>(out[to]))) return;
                  out[to] = values[from];
                  chosen[to] = static_cast<std::int32_t>(from / data.inner % data.size);
                });
  };
  return plan;
}

KernelPlan make_scatter_arg(const KernelRequest& request) {
  ScatterMap map;
  if (std::string fault = parse_scatter(request, 1, 0, map); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  if (request.output(1).dtype != DType::Int32) return KernelPlan::reject("positions must be int32");
  const ScatterReduction reduction = request.attributes().text("reduction") == "min"
                                         ? ScatterReduction::Min
                                         : ScatterReduction::Max;
  const DType dtype = request.output(0).dtype;
  KernelPlan plan;
  const bool known = dispatch_arithmetic(dtype, [&]<class T>(T) {
    plan = plan_scatter_arg<T>(map, reduction, request.has_input(2), axis_view(request),
                               request.spec.inputs.size());
  });
  return known ? plan : KernelPlan::reject(unsupported_dtype(dtype));
}

}  // namespace

void register_scatter_kernels(KernelTable& table) {
  constexpr auto kContiguous = AcceptedLayout::Contiguous;
  table["Scatter"] = {{{"elements", make_scatter}}, kContiguous, {0}, nullptr, {1}};
  table["ScatterReduce"] = {
      {{"rows", make_scatter_reduce_rows, goes_by_rows}, {"elements", make_scatter_reduce}},
      kContiguous,
      {2},
      nullptr,
      {1}};
  table["ScatterArgReduce"] = {{{"elements", make_scatter_arg}}};
}

}  // namespace pando::cpu
