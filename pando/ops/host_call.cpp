#include "pando/ops/host_call.hpp"

#include <algorithm>
#include <string_view>

#include "pando/ops/rules.hpp"

namespace pando {

Attributes host_call_attributes(const std::string& function, const std::vector<TensorInfo>& outputs,
                                const std::string& gradient) {
  std::string dtypes;
  Ints ranks, sizes;
  for (const TensorInfo& output : outputs) {
    dtypes += str_cat(dtypes.empty() ? "" : ",", output.dtype);
    ranks.push_back(static_cast<std::int64_t>(output.shape.size()));
    sizes.insert(sizes.end(), output.shape.begin(), output.shape.end());
  }
  Attributes attributes = {{"function", function},
                           {"output_dtypes", dtypes},
                           {"output_ranks", ranks},
                           {"output_sizes", sizes}};
  if (!gradient.empty()) attributes.set("gradient", gradient);
  return attributes;
}

namespace {

std::vector<DType> output_dtypes(const Op& op) {
  std::vector<DType> dtypes;
  std::string_view rest = op.attributes.text("output_dtypes");
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    dtypes.push_back(parse_dtype(rest.substr(0, comma)));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return dtypes;
}

std::vector<TensorInfo> infer_host_call(const Op& op) {
  for (int i = 0; i < op.num_inputs(); ++i) {
    if (input_info(op, i).meta_shape.empty()) continue;
    wrong_input(op, "a replica-sharded tensor cannot be given to the host: gather it first");
  }
  const std::vector<DType> dtypes = output_dtypes(op);
  const Ints& ranks = op.attributes.ints("output_ranks");
  const Ints& sizes = op.attributes.ints("output_sizes");
  std::vector<TensorInfo> outputs;
  auto size = sizes.begin();
  for (std::size_t i = 0; i < std::min(dtypes.size(), ranks.size()); ++i) {
    if (ranks[i] < 0 || ranks[i] > sizes.end() - size) break;
    outputs.push_back({dtypes[i], Shape(size, size + ranks[i]), {}});
    size += ranks[i];
    if (!has_sound_size(outputs.back())) refuse_size(outputs.back(), describe(op));
  }
  if (outputs.size() == dtypes.size() && outputs.size() == ranks.size() && size == sizes.end()) {
    return outputs;
  }
  throw ValueError(str_cat(describe(op), ": wanted as many output_ranks as output_dtypes, and as ",
                           "many output_sizes as the ranks together; given ", dtypes.size(),
                           " dtypes, ranks ", shape_text(ranks), ", sizes ", shape_text(sizes)));
}

bool is_real_float(const Tensor* tensor) {
  return is_floating_point(tensor->dtype()) && !is_float8(tensor->dtype());
}

/// Inputs of the gradient function: those of the call, its outputs, and the gradients of those
/// outputs that are floats. It gives the gradients of inputs that are floats.
void host_call_gradient(GradientBuilder& builder, const Op& op) {
  std::vector<Tensor*> gradients;
  bool is_reached = false;
  for (int i = 0; i < op.num_outputs(); ++i) {
    if (!is_real_float(op.output(i))) continue;
    Tensor* gradient = builder.output_gradient(i);
    is_reached = is_reached || gradient != nullptr;
    const TensorInfo& info = op.output(i)->info;
    gradients.push_back(gradient != nullptr ? gradient
                                            : builder.constant(0.0, info.dtype, info.shape));
  }
  std::vector<int> wanted;
  std::vector<TensorInfo> infos;
  bool is_any_wanted = false;
  for (int i = 0; i < op.num_inputs(); ++i) {
    if (!is_real_float(op.input(i))) continue;
    is_any_wanted = is_any_wanted || builder.wants(i);
    wanted.push_back(i);
    infos.push_back(op.input(i)->info);
  }
  if (!is_reached || !is_any_wanted) return;
  if (!op.attributes.has("gradient")) {
    throw NotSupported(str_cat(describe(op), ": the host function '",
                               op.attributes.text("function"),
                               "' has no gradient: give the function that computes it, or detach "
                               "the inputs of the call"));
  }
  std::vector<Tensor*> inputs;
  for (Tensor* input : op.inputs()) inputs.push_back(builder.forward(input));
  for (Tensor* output : op.outputs()) inputs.push_back(builder.forward(output));
  inputs.insert(inputs.end(), gradients.begin(), gradients.end());
  const Op& call =
      builder.op("HostCall", inputs, host_call_attributes(op.attributes.text("gradient"), infos));
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    if (builder.wants(wanted[k])) {
      builder.set_input_gradient(wanted[k], call.output(static_cast<int>(k)));
    }
  }
}

}  // namespace

void register_host_call_ops(Registry& registry) {
  registry.add(
      {.name = "HostCall",
       .doc = "What the host's function called attribute function gives for the inputs. Its "
              "outputs have the dtypes of attribute output_dtypes (names, a comma between two), "
              "and shapes of as many dimensions as attribute output_ranks says, with the sizes of "
              "attribute output_sizes, one output after the other. Attribute gradient: the "
              "function that gets the inputs, the outputs and the gradients of the outputs that "
              "are floats, and gives the gradients of the inputs that are floats.",
       .min_inputs = 0,
       .max_inputs = -1,
       .attributes = {text_attribute("function"), text_attribute("output_dtypes"),
                      ints_attribute("output_ranks"), ints_attribute("output_sizes"),
                      optional(text_attribute("gradient"))},
       .infer = infer_host_call,
       .gradient = host_call_gradient,
       .has_side_effects = true,
       .differentiable_inputs = {0}});
}

}  // namespace pando
