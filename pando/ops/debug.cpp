// Ops for looking at values and checking them.
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

std::vector<TensorInfo> infer_print(const Op& op) {
  for (const char* name : {"separator", "open_bracket", "close_bracket"}) {
    const std::string& text = op.attributes.text(name);
    if (text.size() == 1) continue;
    throw ValueError(
        str_cat("Parameter ", name, " must be 1 character exactly. Given '", text, "'"));
  }
  const std::string& format = op.attributes.text("float_format");
  if (format != "auto" && format != "fixed" && format != "scientific" && format != "none") {
    throw ValueError(str_cat("Unknown float_format: ", format,
                             ". Must choose from: auto, fixed, scientific, none"));
  }
  return {input_info(op, 0)};
}

void print_gradient(GradientBuilder& builder, const Op& op) {
  Tensor* gradient = builder.output_gradient(0);
  if (gradient == nullptr) return;
  Attributes attributes = op.attributes;
  attributes.set("title", op.attributes.text("title") + "_gradient");
  attributes.set("print_self", op.attributes.flag("print_gradient"));
  attributes.set("print_gradient", false);
  builder.set_input_gradient(0, builder.make("PrintTensor", {gradient}, std::move(attributes)));
}

std::vector<TensorInfo> infer_check_range(const Op& op) {
  const TensorInfo& info = input_info(op, 0);
  if (info.dtype != DType::Int32 || !info.shape.empty()) wrong_input(op, "wanted an int32 scalar");
  return {info};
}

}  // namespace

void register_debug_ops(Registry& registry) {
  registry.add(
      {.name = "CheckRange",
       .doc = "The value of input 0, an int32 scalar. A run in which it is below attribute "
              "low, or attribute end or more, stops with an error that names attribute "
              "what.",
       .attributes = {integer_attribute("low"), integer_attribute("end"), text_attribute("what")},
       .infer = infer_check_range,
       .has_side_effects = true});
  registry.add(
      {.name = "PrintTensor",
       .doc = "The value of input 0; prints it to standard error with attribute title "
              "every time it runs if attribute print_self is set. The gradient does so "
              "under the title with '_gradient' if attribute print_gradient is set. The "
              "others describe the text: summarise_threshold, edge_items, max_line_width, "
              "digits, float_format (auto, fixed, scientific, none), separator, "
              "open_bracket, close_bracket (one character each).",
       .attributes = {text_attribute("title"), flag_attribute("print_self"),
                      flag_attribute("print_gradient"), integer_attribute("summarise_threshold"),
                      integer_attribute("edge_items"), integer_attribute("max_line_width"),
                      integer_attribute("digits"), text_attribute("float_format"),
                      text_attribute("separator"), text_attribute("open_bracket"),
                      text_attribute("close_bracket")},
       .infer = infer_print,
       .view = identity_view,
       .gradient = print_gradient,
       .has_side_effects = true,
       .differentiable_inputs = {0}});
}

}  // namespace pando
