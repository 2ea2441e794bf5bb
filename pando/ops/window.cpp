#include "pando/ops/window.hpp"

#include <algorithm>

#include "pando/ops/channel_layout.hpp"
#include "pando/ops/nn_rules.hpp"

namespace pando {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return a > 0 ? (a + b - 1) / b : -(-a / b);
}

std::int64_t divide_down(std::int64_t a, std::int64_t b) { return -divide_up(-a, b); }

Ints list_or(const Op& op, const char* name, std::size_t length, std::int64_t fallback,
             const char* singular, const char* what) {
  const Ints* given = nullptr;
  if (op.attributes.has(name)) given = &op.attributes.ints(name);
  if (given == nullptr || given->empty()) return Ints(length, fallback);
  check_inputs(op, given->size() == length,
               str_cat("Unexpected number of ", singular, " parameters for ", what, " op: wanted ",
                       length, ", not ", given->size()));
  return *given;
}

/// One spatial dimension.
struct Axis {
  std::int64_t input, kernel, stride, dilation;
  std::int64_t extent() const { return dilation * (kernel - 1) + 1; }
};

/// End padding that makes the plain formula reach `output` windows after `begin` padding.
std::int64_t end_padding(const Axis& axis, std::int64_t output, std::int64_t begin) {
  return (output - 1) * axis.stride + axis.extent() - axis.input - begin;
}

}  // namespace

Ints window_list(const Op& op, const char* name, std::size_t length, std::int64_t fallback,
                 const char* what) {
  return list_or(op, name, length, fallback, name, what);
}

void needs_windows_that_fit(const Op& op) {
  const Shape input = spatial_dimensions(op, op.input(0)->shape());
  const Shape output = spatial_dimensions(op, op.output(0)->shape());
  for (std::size_t i = 0; i < output.size(); ++i) {
    check_inputs(op, output[i] >= 1,
                 str_cat("wanted windows that fit: spatial dimension ", i, " of size ", input[i],
                         " has room for ", output[i]));
  }
}

Shape spatial_dimensions(const Shape& shape) {
  return shape.size() < 2 ? Shape{} : Shape(shape.begin() + 2, shape.end());
}

void check_spatial_rank(const Op& op, const Tensor& t) {
  check_inputs(op, t.shape().size() >= 3 && t.shape().size() <= 5,
               "wanted data of shape (N, C, spatial...) with 1 to 3 spatial dimensions");
}

bool window_is_explicit(const Op& op) {
  for (const char* name : {"strides", "pads", "dilations"}) {
    if (!op.attributes.has(name) || op.attributes.ints(name).empty()) return false;
  }
  return !op.attributes.has("pad_type") && !op.attributes.has("ceil_mode");
}

void set_window(Attributes& attributes, const Window& window) {
  attributes.set("strides", window.strides);
  attributes.set("pads", window.pads);
  attributes.set("dilations", window.dilations);
}

Window resolve_window(const Op& op, const Shape& input, const Shape& kernel, const char* what) {
  const std::size_t rank = input.size();
  Window window{list_or(op, "strides", rank, 1, "stride", what),
                list_or(op, "pads", 2 * rank, 0, "pad", what),
                list_or(op, "dilations", rank, 1, "dilation", what), Shape(rank)};
  const std::string type =
      op.attributes.has("pad_type") ? op.attributes.text("pad_type") : "not_set";
  const bool same = type == "same_upper" || type == "same_lower";
  if (!same && type != "not_set" && type != "valid") {
    throw ValueError(str_cat(describe(op), ": unknown pad_type '", type,
                             "'; wanted not_set, same_upper, same_lower or valid"));
  }
  const bool ceil_mode = op.attributes.flag_or("ceil_mode", false);
  for (std::size_t i = 0; i < rank; ++i) {
    check_inputs(op, window.strides[i] >= 1 && window.dilations[i] >= 1 && kernel[i] >= 1,
                 "wanted strides, dilations and kernel sizes of at least 1");
    const Axis axis{input[i], kernel[i], window.strides[i], window.dilations[i]};
    std::int64_t& begin = window.pads[i];
    std::int64_t& end = window.pads[rank + i];
    std::int64_t& output = window.output[i];
    if (same) {
      output = divide_up(axis.input, axis.stride);
      const std::int64_t total = std::max<std::int64_t>(0, end_padding(axis, output, 0));
      begin = type == "same_upper" ? total / 2 : total - total / 2;
      end = total - begin;
    } else if (type == "valid") {
      output = divide_up(axis.input - (axis.kernel - 1), axis.stride);
      begin = 0;
      end = std::max<std::int64_t>(0, end_padding(axis, output, 0));
    } else {
      const std::int64_t room = axis.input + begin + end - axis.extent();
      output = (ceil_mode ? divide_up(room, axis.stride) : divide_down(room, axis.stride)) + 1;
      end = std::max(end, end_padding(axis, output, begin));
    }
    check_inputs(op, output >= 0,
                 str_cat("the window does not fit spatial dimension ", i, " (kernel ", axis.kernel,
                         ", dilation ", axis.dilation, ", pads ", begin, " and ", end, ")"));
  }
  return window;
}

}  // namespace pando
