// Scatter, ScatterReduce and ScatterArgReduce. Elements are written in C order of the indices by
// one thread, so that repeated indices have one result.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/index.hpp"
#include "pando/backends/cpu/kernels/strided_copy.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

/// Where position i of the indices goes in the output.
struct ScatterMap {
  StridedDims dims;  // shape of the indices, strides of the output with 0 along the axis
  std::int64_t step = 1, size = 0, count = 0, out_count = 0;
  DType index_dtype = DType::Int32;
};

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
  map.dims = {indices.shape, contiguous_strides(out)};
  map.step = map.dims.strides[axis];
  map.size = out[axis];
  map.dims.strides[axis] = 0;
  map.count = num_elements(indices.shape);
  map.out_count = num_elements(out);
  map.index_dtype = indices.dtype;
  return "";
}

/// Calls body(position, output element) for every index in range.
template <class Body>
void for_targets(const ScatterMap& map, const IndexReader& indices, const Body& body) {
  for (std::int64_t i = 0; i < map.count; ++i) {
    const std::int64_t at = indices[i];
    if (at < 0 || at >= map.size) continue;
    body(i, strided_offset(map.dims, i) + at * map.step);
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

enum class Reduce { Sum, Product, Min, Max, None };

/// Integers wrap.
template <class A>
A product_of(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    return static_cast<A>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    return a * b;
  }
}

template <class A>
A reduced(Reduce reduce, A current, A value) {
  switch (reduce) {
    case Reduce::Sum:
      return static_cast<A>(current + value);
    case Reduce::Product:
      return product_of(current, value);
    case Reduce::Min:
      return value < current || value != value ? value : current;
    case Reduce::Max:
      return current < value || value != value ? value : current;
    default:
      return value;
  }
}

template <class T>
KernelPlan plan_scatter_reduce(const ScatterMap& map, Reduce reduce, bool has_initial,
                               std::size_t num_inputs) {
  using Sum = Compute<T>;
  // Without initial values the first value of an element replaces its zero.
  const bool marks =
      !has_initial && (reduce == Reduce::Product || reduce == Reduce::Min || reduce == Reduce::Max);
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
                  sums[to] = first ? value : reduced(reduce, sums[to], value);
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
  Reduce reduce = Reduce::None;
  if (name == "sum") {
    reduce = Reduce::Sum;
  } else if (name == "prod") {
    reduce = Reduce::Product;
  } else if (name == "min") {
    reduce = Reduce::Min;
  } else if (name == "max") {
    reduce = Reduce::Max;
  } else if (name != "none") {
    return KernelPlan::reject(str_cat("unknown reduction '", name, "'"));
  }
  const bool has_initial = request.has_input(2);
  const DType dtype = request.output(0).dtype;
  if (has_initial &&
      !(request.input(2).shape == request.output(0).shape && request.input(2).dtype == dtype)) {
    return KernelPlan::reject("initial values differ from the result in shape or dtype");
  }
  KernelPlan plan;
  const bool known = dispatch_arithmetic(dtype, [&]<class T>(T) {
    plan = plan_scatter_reduce<T>(map, reduce, has_initial, request.spec.inputs.size());
  });
  return known ? plan : KernelPlan::reject(unsupported_dtype(dtype));
}

/// Whether `value` replaces `current`; NaN replaces all but NaN.
template <class A>
bool beats(Reduce reduce, A value, A current) {
  if (value != value) return current == current;
  return reduce == Reduce::Min ? value < current : current < value;
}

template <class T>
KernelPlan plan_scatter_arg(const ScatterMap& map, Reduce reduce, bool has_initial,
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
                  if (!is_first && !beats(reduce, value, static_cast<Value>(out[to]))) return;
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
  const Reduce reduce = request.attributes().text("reduction") == "min" ? Reduce::Min : Reduce::Max;
  const DType dtype = request.output(0).dtype;
  KernelPlan plan;
  const bool known = dispatch_arithmetic(dtype, [&]<class T>(T) {
    plan = plan_scatter_arg<T>(map, reduce, request.has_input(2), axis_view(request),
                               request.spec.inputs.size());
  });
  return known ? plan : KernelPlan::reject(unsupported_dtype(dtype));
}

}  // namespace

void register_scatter_kernels(KernelTable& table) {
  table["Scatter"] = {{{"elements", make_scatter}}, AcceptedLayout::Contiguous, {0}};
  table["ScatterReduce"] = {{{"elements", make_scatter_reduce}}, AcceptedLayout::Contiguous, {2}};
  table["ScatterArgReduce"] = {{{"elements", make_scatter_arg}}};
}

}  // namespace pando::cpu
