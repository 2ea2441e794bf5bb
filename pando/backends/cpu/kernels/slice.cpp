// Kernels that only move elements: DynamicSlice, DynamicUpdate, Concat, PadInto.
#include <algorithm>
#include <cstring>
#include <vector>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/index.hpp"
#include "pando/backends/cpu/kernels/strided_copy.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

void run_parallel(const StridedCopy& copy, const std::byte* from, std::byte* to, int threads) {
  parallel_for(threads, copy.rows(), row_grain(copy.row_bytes(), 1 << 15),
               [&](std::int64_t begin, std::int64_t end) { copy.run(from, to, begin, end); });
}

void copy_bytes(const std::byte* from, std::byte* to, std::int64_t bytes, int threads) {
  parallel_for(threads, bytes, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
  });
}

/// A window of run-time position in a larger tensor. A start outside [0, dim - size] is moved to
/// the nearest end.
struct DynamicWindow {
  std::vector<std::int64_t> limits, steps;  // per sliced axis; steps in bytes of the larger tensor
  DType index_dtype = DType::Int32;

  std::int64_t offset(const std::byte* index) const {
    const IndexReader reader(index, index_dtype);
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < limits.size(); ++i) {
      offset +=
          std::clamp<std::int64_t>(reader[static_cast<std::int64_t>(i)], 0, limits[i]) * steps[i];
    }
    return offset;
  }
};

std::string parse_window(const KernelRequest& request, const OperandDesc& whole,
                         const OperandDesc& part, DynamicWindow& window) {
  const Ints& axes = request.attributes().ints("axes");
  const OperandDesc& index = request.input(1);
  if (part.dtype != whole.dtype || part.shape.size() != whole.shape.size() ||
      !is_integer(index.dtype) ||
      num_elements(index.shape) != static_cast<std::int64_t>(axes.size())) {
    return str_cat("slice ", operand_text(part), " at index ", operand_text(index),
                   " does not fit ", operand_text(whole));
  }
  const Strides strides = contiguous_strides(whole.shape);
  window.index_dtype = index.dtype;
  for (const std::int64_t axis : axes) {
    const auto d = static_cast<std::size_t>(axis);
    window.limits.push_back(whole.shape[d] - part.shape[d]);
    window.steps.push_back(strides[d] * static_cast<std::int64_t>(dtype_bytes(whole.dtype)));
  }
  for (std::size_t d = 0; d < whole.shape.size(); ++d) {
    if (part.shape[d] > whole.shape[d]) return "the slice is larger than the tensor";
  }
  return "";
}

KernelPlan make_dynamic_slice(const KernelRequest& request) {
  const OperandDesc& t = request.input(0);
  const OperandDesc& out = request.output(0);
  DynamicWindow window;
  if (std::string fault = parse_window(request, t, out, window); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  const StridedCopy copy(out.shape, contiguous_strides(t.shape), contiguous_strides(out.shape),
                         dtype_bytes(t.dtype));
  KernelPlan plan;
  plan.run = [window, copy, threads = request.num_threads](std::byte* const* operands, std::byte*) {
    run_parallel(copy, operands[0] + window.offset(operands[1]), operands[2], threads);
  };
  return plan;
}

KernelPlan make_dynamic_update(const KernelRequest& request) {
  const OperandDesc& t = request.input(0);
  const OperandDesc& update = request.input(2);
  DynamicWindow window;
  if (std::string fault = parse_window(request, t, update, window); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  const StridedCopy copy(update.shape, contiguous_strides(update.shape),
                         contiguous_strides(t.shape), dtype_bytes(t.dtype));
  const auto bytes = num_elements(t.shape) * static_cast<std::int64_t>(dtype_bytes(t.dtype));
  KernelPlan plan;
  plan.run = [=, threads = request.num_threads](std::byte* const* operands, std::byte*) {
    if (operands[3] != operands[0]) copy_bytes(operands[0], operands[3], bytes, threads);
    run_parallel(copy, operands[2], operands[3] + window.offset(operands[1]), threads);
  };
  return plan;
}

KernelPlan make_concat(const KernelRequest& request) {
  const OperandDesc& out = request.output(0);
  const auto bytes = static_cast<std::int64_t>(dtype_bytes(out.dtype));
  const std::int64_t axis = normalise_axis(request.attributes().integer("axis"),
                                           static_cast<std::int64_t>(out.shape.size()), "Concat");
  struct Part {
    StridedCopy copy;
    std::int64_t offset;
  };
  std::vector<Part> parts;
  const AxisView whole(out.shape, axis);
  std::int64_t at = 0;
  for (const OperandDesc& input : request.spec.inputs) {
    if (input.dtype != out.dtype || input.shape.size() != out.shape.size()) {
      return KernelPlan::reject(
          str_cat("input ", operand_text(input), " does not fit ", operand_text(out)));
    }
    const AxisView part(input.shape, axis);
    parts.push_back({StridedCopy({part.outer, part.size * part.inner}, {part.size * part.inner, 1},
                                 {whole.size * whole.inner, 1}, static_cast<std::size_t>(bytes)),
                     at * whole.inner * bytes});
    at += part.size;
  }
  if (at != whole.size) return KernelPlan::reject("the inputs do not add up to the result");
  // Threads write whole rows of the result, unless a part is not copied by these rows.
  const std::int64_t grain = row_grain(whole.size * whole.inner * bytes, 1 << 15);
  const bool by_row = std::all_of(parts.begin(), parts.end(), [&](const Part& part) {
    return part.copy.rows() == whole.outer;
  });
  KernelPlan plan;
  plan.run = [=, threads = request.num_threads](std::byte* const* operands, std::byte*) {
    std::byte* result = operands[parts.size()];
    if (by_row) {
      parallel_for(threads, whole.outer, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::size_t i = 0; i < parts.size(); ++i) {
          parts[i].copy.run(operands[i], result + parts[i].offset, begin, end);
        }
      });
      return;
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      run_parallel(parts[i].copy, operands[i], result + parts[i].offset, threads);
    }
  };
  return plan;
}

KernelPlan make_pad_into(const KernelRequest& request) {
  const OperandDesc& in = request.input(0);
  const OperandDesc& out = request.output(0);
  const Ints& starts = request.attributes().ints("starts");
  const Ints& steps = request.attributes().ints("steps");
  const std::size_t rank = out.shape.size();
  if (in.dtype != out.dtype || in.shape.size() != rank || starts.size() != rank ||
      steps.size() != rank) {
    return KernelPlan::reject("input, starts, steps and result differ in rank or dtype");
  }
  const auto bytes = static_cast<std::int64_t>(dtype_bytes(out.dtype));
  Strides strides = contiguous_strides(out.shape);
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t last = starts[d] + (in.shape[d] - 1) * steps[d];
    const bool inside =
        starts[d] >= 0 && starts[d] < out.shape[d] && last >= 0 && last < out.shape[d];
    if (in.shape[d] > 0 && !inside) {
      return KernelPlan::reject(str_cat("start ", starts[d], " and step ", steps[d],
                                        " leave dimension ", d, " of the result"));
    }
    offset += starts[d] * strides[d];
    strides[d] *= steps[d];
  }
  const StridedCopy copy(in.shape, contiguous_strides(in.shape), strides,
                         static_cast<std::size_t>(bytes));
  const std::int64_t total = num_elements(out.shape) * bytes;
  KernelPlan plan;
  plan.run = [=, offset = offset * bytes, threads = request.num_threads](std::byte* const* operands,
                                                                         std::byte*) {
    parallel_for(threads, total, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
      std::memset(operands[1] + begin, 0, static_cast<std::size_t>(end - begin));
    });
    run_parallel(copy, operands[0], operands[1] + offset, threads);
  };
  return plan;
}

}  // namespace

void register_slice_kernels(KernelTable& table) {
  table["DynamicSlice"] = {{{"copy", make_dynamic_slice}}};
  for (const char* kind : {"DynamicUpdate", "DynamicUpdateInplace"}) {
    table[kind] = {{{"copy", make_dynamic_update}}, AcceptedLayout::Contiguous, {0}};
  }
  table["Concat"] = {{{"copy", make_concat}}};
  table["PadInto"] = {{{"copy", make_pad_into}}};
}

}  // namespace pando::cpu
