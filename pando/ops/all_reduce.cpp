// Reductions over the tensors of one replica, on its virtual devices.
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

/// What is reduced: `form` is one of these words.
constexpr const char* kPlain = "plain";                         // values and gradients
constexpr const char* kIdenticalInputs = "identical_inputs";    // gradients only
constexpr const char* kIdenticalGradients = "identical_grads";  // values only

std::vector<TensorInfo> infer(const Op& op) {
  if (reduction_of(op) == Reduction::Local) {
    throw ValueError(str_cat(describe(op), ": 'local' reduces nothing"));
  }
  const std::string& form = op.attributes.text("form");
  if (form != kPlain && form != kIdenticalInputs && form != kIdenticalGradients) {
    throw InternalError(str_cat(describe(op), ": there is no form '", form, "'"));
  }
  if (op.attributes.ints("devices").size() != static_cast<std::size_t>(op.num_inputs())) {
    throw ValueError(str_cat(describe(op), ": wanted one device for each of the ", op.num_inputs(),
                             " inputs; given ", shape_text(op.attributes.ints("devices"))));
  }
  const std::vector<TensorInfo> first = infer_all_same(op);
  return {static_cast<std::size_t>(op.num_inputs()), first[0]};
}

Tensor* folded(OpBuilder& builder, const char* kind, const std::vector<Tensor*>& values) {
  Tensor* result = values[0];
  for (std::size_t i = 1; i < values.size(); ++i) result = builder.make(kind, {result, values[i]});
  return result;
}

/// 1 where all (any) values are not 0, else 0.
Tensor* logical(OpBuilder& builder, const char* kind, std::vector<Tensor*> values) {
  const DType dtype = values[0]->dtype();
  for (Tensor*& value : values) value = builder.cast(value, DType::Bool);
  return builder.cast(folded(builder, kind, values), dtype);
}

Tensor* reduced(OpBuilder& builder, Reduction how, const std::vector<Tensor*>& values) {
  switch (how) {
    case Reduction::Add:
      return builder.make("Sum", values);
    case Reduction::Mean: {
      const auto count = static_cast<double>(values.size());
      return builder.make(
          "Div", {builder.make("Sum", values), builder.constant(count, values[0]->dtype())});
    }
    case Reduction::Mul:
      return folded(builder, "Mul", values);
    case Reduction::Max:
      return builder.make("Max", values);
    case Reduction::Min: {
      std::vector<Tensor*> negated = values;
      for (Tensor*& value : negated) value = builder.make("Neg", {value});
      return builder.make("Neg", {builder.make("Max", negated)});
    }
    case Reduction::SquareAdd: {
      std::vector<Tensor*> squares = values;
      for (Tensor*& value : squares) value = builder.make("Mul", {value, value});
      return builder.make("Sum", squares);
    }
    case Reduction::And:
      return logical(builder, "And", values);
    case Reduction::Or:
      return logical(builder, "Or", values);
    case Reduction::Local:
      break;
  }
  throw InternalError("a local reduction reduces nothing");
}

/// Each output gets a value of its own: one may be written in place.
std::vector<Tensor*> expanded(OpBuilder& builder, const Op& op, bool reduces) {
  std::vector<Tensor*> results = op.inputs();
  if (reduces) {
    results.assign(results.size(), reduced(builder, reduction_of(op), op.inputs()));
  }
  for (Tensor*& result : results) result = builder.make("Identity", {result});
  return results;
}

void gradient(GradientBuilder& builder, const Op& op) {
  if (op.attributes.text("op") != reduction_word(Reduction::Add)) {
    throw Error(str_cat(describe(op), ": only the reduction 'add' has a gradient, but one of '",
                        op.attributes.text("op"), "' is needed through it"));
  }
  std::vector<Tensor*> gradients;
  for (int i = 0; i < op.num_outputs(); ++i) {
    Tensor* given = builder.output_gradient(i);
    const TensorInfo& info = op.output(i)->info;
    gradients.push_back(given != nullptr ? given : broadcast_constant(builder, 0.0, info));
  }
  const Op& result = builder.op("AllReduceGrad", gradients, op.attributes);
  for (int i = 0; i < op.num_inputs(); ++i) {
    if (builder.wants(i)) builder.set_input_gradient(i, result.output(i));
  }
}

}  // namespace

void register_all_reduce_ops(Registry& registry) {
  OpDef all_reduce{
      .name = "AllReduce",
      .doc =
          "Output i, on virtual device devices[i]: the reduction (attribute op) of all inputs. "
          "Attribute form: 'plain'; 'identical_inputs': the inputs are equal and stay as they "
          "are, their gradients are reduced; 'identical_grads': the gradients are equal and "
          "stay as they are.",
      .max_inputs = -1,
      .attributes = {text_attribute("op"), ints_attribute("devices"), text_attribute("form")},
      .infer = infer,
      .check_execution = needs_arithmetic,
      .expand =
          [](OpBuilder& builder, const Op& op) {
            return expanded(builder, op, op.attributes.text("form") != kIdenticalInputs);
          },
      .has_tensor_devices = true};
  OpDef grad = all_reduce;
  grad.name = "AllReduceGrad";
  grad.doc = "The gradients of the inputs of an AllReduce of the same attributes.";
  grad.expand = [](OpBuilder& builder, const Op& op) {
    return expanded(builder, op, op.attributes.text("form") != kIdenticalGradients);
  };
  registry.add(with_gradient(std::move(all_reduce), gradient));
  registry.add(std::move(grad));
}

}  // namespace pando
