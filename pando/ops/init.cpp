// Ops that make tensors from nothing.
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

void check_shape(const Op& op) {
  for (std::int64_t dim : op.attributes.ints("shape")) {
    if (dim >= 0) continue;
    wrong_input(op, str_cat("wanted dimensions of 0 or more, got ",
                            shape_text(op.attributes.ints("shape"))));
  }
}

std::vector<TensorInfo> infer_init(const Op& op) {
  check_shape(op);
  const std::string& type = op.attributes.text("init_type");
  if (type != "zero" && type != "undef") {
    throw ValueError(str_cat("Unknown init_type: ", type, ". Must choose from: zero, undef"));
  }
  TensorInfo info{op.attributes.dtype("dtype"), op.attributes.ints("shape"), {}};
  if (op.attributes.has("meta_shape")) info.meta_shape = op.attributes.ints("meta_shape");
  return {info};
}

std::vector<Tensor*> expand_init(OpBuilder& builder, const Op& op) {
  if (op.attributes.text("init_type") == "undef") return {};
  return {builder.make("Fill", {},
                       {{"shape", op.attributes.ints("shape")},
                        {"dtype", op.attributes.dtype("dtype")},
                        {"value", 0.0}})};
}

}  // namespace

void register_init_ops(Registry& registry) {
  registry.add({.name = "Init",
                .doc = "A new tensor of attributes shape, dtype and (optional) meta_shape. "
                       "Attribute init_type: zero, or undef for unspecified contents.",
                .min_inputs = 0,
                .max_inputs = 0,
                .attributes = {ints_attribute("shape"), dtype_attribute("dtype"),
                               text_attribute("init_type"), optional(ints_attribute("meta_shape"))},
                .infer = infer_init,
                .expand = expand_init});
  registry.add(
      {.name = "Fill",
       .doc = "A new tensor of attributes shape and dtype with every element equal to "
              "attribute value. A kernel.",
       .min_inputs = 0,
       .max_inputs = 0,
       .attributes = {ints_attribute("shape"), dtype_attribute("dtype"), number_attribute("value")},
       .infer = [](const Op& op) {
         check_shape(op);
         return std::vector{
             TensorInfo{op.attributes.dtype("dtype"), op.attributes.ints("shape"), {}}};
       }});
}

}  // namespace pando
