#include "pando/ops/rules.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace pando {
namespace {

AttributeSpec spec(std::string name, AttributeType type) { return {std::move(name), type, true}; }

/// Sharded tensors: the meta shape of whichever input has one.
SharedShape merge_meta_shapes(const Op& op, const SharedShape& a, const SharedShape& b) {
  if (a.empty() || a == b) return b;
  if (b.empty()) return a;
  wrong_input(op, str_cat("wanted replica-sharded inputs of one meta shape, got ", shape_text(a),
                          " and ", shape_text(b)));
}

std::string brackets(const Shape& shape) { return attribute_text(Ints(shape)); }

[[noreturn]] void wrong_index(const Op& op, int index, const std::string& wanted) {
  wrong_input(op, str_cat("wanted ", wanted, " at input ", index));
}

}  // namespace

AttributeSpec flag_attribute(std::string name) {
  return spec(std::move(name), AttributeType::Flag);
}
AttributeSpec integer_attribute(std::string name) {
  return spec(std::move(name), AttributeType::Integer);
}
AttributeSpec number_attribute(std::string name) {
  return spec(std::move(name), AttributeType::Number);
}
AttributeSpec text_attribute(std::string name) {
  return spec(std::move(name), AttributeType::Text);
}
AttributeSpec dtype_attribute(std::string name) {
  return spec(std::move(name), AttributeType::DTypeName);
}
AttributeSpec ints_attribute(std::string name) {
  return spec(std::move(name), AttributeType::IntList);
}
AttributeSpec optional(AttributeSpec attribute) {
  attribute.required = false;
  return attribute;
}

const TensorInfo& input_info(const Op& op, int index) {
  const Tensor* tensor = op.input(index);
  if (tensor == nullptr) wrong_index(op, index, "a tensor");
  return tensor->info;
}

void require_same_dtype(const Op& op, int first, int second) {
  const TensorInfo& a = input_info(op, first);
  const TensorInfo& b = input_info(op, second);
  if (a.dtype == b.dtype) return;
  throw Error(str_cat("np broadcasting failed on ", describe(op), ", incompatible types ", a.dtype,
                      " and ", b.dtype, " (shapes ", brackets(a.shape), " and ", brackets(b.shape),
                      "): '", op.input(first)->name(), "' and '", op.input(second)->name(),
                      "'. Cast one of them"));
}

void require_same_shape(const Op& op, int first, int second) {
  if (input_info(op, first).shape == input_info(op, second).shape) return;
  wrong_input(op, str_cat("wanted equal shapes at inputs ", first, " and ", second));
}

void require_arithmetic(const Op& op, int index) {
  const DType dtype = input_info(op, index).dtype;
  if (!is_float8(dtype) && !traits(dtype).is_complex) return;
  wrong_index(op, index, "bool, an integer dtype, float16, bfloat16, float32 or float64");
}

void require_number(const Op& op, int index) {
  require_arithmetic(op, index);
  if (input_info(op, index).dtype != DType::Bool) return;
  wrong_index(op, index, "an integer dtype, float16, bfloat16, float32 or float64");
}

void require_float(const Op& op, int index) {
  const DType dtype = input_info(op, index).dtype;
  if (is_floating_point(dtype) && !is_float8(dtype)) return;
  wrong_index(op, index, "float16, bfloat16, float32 or float64");
}

void require_integer(const Op& op, int index) {
  if (!is_integer(input_info(op, index).dtype)) wrong_index(op, index, "an integer dtype");
}

void require_bool(const Op& op, int index) {
  if (input_info(op, index).dtype != DType::Bool) wrong_index(op, index, "bool");
}

void require_one_element(const Op& op, int index) {
  if (input_info(op, index).num_elements() != 1) wrong_index(op, index, "exactly one element");
}

void require_rank(const Op& op, int index, std::int64_t rank) {
  if (static_cast<std::int64_t>(input_info(op, index).shape.size()) == rank) return;
  wrong_index(op, index, str_cat("a tensor of rank ", rank));
}

void require_rank_at_least(const Op& op, int index, std::int64_t rank) {
  if (static_cast<std::int64_t>(input_info(op, index).shape.size()) >= rank) return;
  wrong_index(op, index, str_cat("a tensor of rank ", rank, " or more"));
}

void require_shape(const Op& op, int index, const Shape& shape) {
  if (input_info(op, index).shape == shape) return;
  wrong_index(op, index, str_cat("shape ", shape_text(shape)));
}

void require_axis(const Op& op, int index, std::int64_t axis) {
  const auto rank = static_cast<std::int64_t>(input_info(op, index).shape.size());
  if (axis >= 0 && axis < rank) return;
  wrong_input(op, str_cat("axis ", axis, " is out of range for rank ", rank));
}

TensorInfo broadcast_info(const Op& op, const std::vector<int>& inputs) {
  TensorInfo result = input_info(op, inputs.front());
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    const TensorInfo& next = input_info(op, inputs[i]);
    const auto shape = broadcast_shapes(result.shape, next.shape);
    if (!shape) {
      throw Error(str_cat("np broadcasting failed on 'Op ", describe(op), "', frames ",
                          brackets(result.shape), " and ", brackets(next.shape),
                          " are not aligned"));
    }
    if (*shape != result.shape) {
      result.shape = *shape == next.shape ? next.shape : SharedShape(*shape);
    }
    result.meta_shape = merge_meta_shapes(op, result.meta_shape, next.meta_shape);
  }
  return result;
}

namespace {

template <class Check>
void check_connected(const Op& op, Check check) {
  for (int i = 0; i < op.num_inputs(); ++i) {
    if (op.input(i) != nullptr) check(op, i);
  }
}

std::vector<int> connected_inputs(const Op& op) {
  std::vector<int> connected;
  check_connected(op, [&](const Op&, int i) { connected.push_back(i); });
  return connected;
}

}  // namespace

void needs_arithmetic(const Op& op) { check_connected(op, require_arithmetic); }
void needs_numbers(const Op& op) { check_connected(op, require_number); }
void needs_floats(const Op& op) { check_connected(op, require_float); }
void needs_bools(const Op& op) { check_connected(op, require_bool); }

void needs_same_dtypes(const Op& op) {
  needs_arithmetic(op);
  check_connected(op, [](const Op& each, int i) { require_same_dtype(each, 0, i); });
}

std::vector<TensorInfo> infer_same_as_input(const Op& op) { return {input_info(op, 0)}; }

std::vector<TensorInfo> infer_all_same(const Op& op) {
  TensorInfo info = input_info(op, 0);
  for (int i = 1; i < op.num_inputs(); ++i) {
    if (op.input(i) == nullptr) continue;
    require_same_dtype(op, 0, i);
    require_same_shape(op, 0, i);
    info.meta_shape = merge_meta_shapes(op, info.meta_shape, op.input(i)->info.meta_shape);
  }
  return {info};
}

std::vector<TensorInfo> infer_broadcast(const Op& op) {
  const std::vector<int> connected = connected_inputs(op);
  for (int i : connected) require_same_dtype(op, 0, i);
  return {broadcast_info(op, connected)};
}

std::vector<TensorInfo> infer_broadcast_to_bool(const Op& op) {
  TensorInfo info = broadcast_info(op, connected_inputs(op));
  info.dtype = DType::Bool;
  return {info};
}

TensorInfo with_shape(const TensorInfo& info, Shape shape) {
  if (shape == info.shape) return info;
  return {info.dtype, std::move(shape), {}};
}

std::vector<TensorInfo> infer_shape_attribute(const Op& op) {
  return {with_shape(input_info(op, 0), op.attributes.ints("shape"))};
}

std::vector<TensorInfo> infer_dtype_attribute(const Op& op) {
  TensorInfo info = input_info(op, 0);
  info.dtype = op.attributes.dtype("dtype");
  return {info};
}

GradientRule unary_gradient(std::string kind, Saved saved,
                            std::vector<std::string> copied_attributes) {
  return [kind = std::move(kind), saved, names = std::move(copied_attributes)](
             GradientBuilder& builder, const Op& op) {
    Tensor* gradient = builder.output_gradient(0);
    if (gradient == nullptr) return;
    std::vector<Tensor*> inputs = {gradient};
    if (saved == Saved::Input) inputs.push_back(builder.forward(op.input(0)));
    if (saved == Saved::Output) inputs.push_back(builder.forward(op.output(0)));
    Attributes attributes;
    for (const std::string& name : names) {
      if (const AttributeValue* value = op.attributes.find(name)) attributes.set(name, *value);
    }
    builder.set_input_gradient(0, builder.make(kind, inputs, std::move(attributes)));
  };
}

std::optional<View> identity_view(const Op&, int, const View& input) { return input; }

OpDef unary_def(std::string name, std::string doc, std::function<Scalar(Scalar)> formula) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .infer = infer_same_as_input,
          .check_execution = needs_arithmetic,
          .scalar_body = pointwise_unary(std::move(formula))};
}

OpDef float_unary_def(std::string name, std::string doc, std::function<Scalar(Scalar)> formula) {
  OpDef def = unary_def(std::move(name), std::move(doc), std::move(formula));
  def.check_execution = needs_floats;
  return def;
}

OpDef same_shape_def(std::string name, std::string doc, int num_inputs, ScalarFormula formula) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .min_inputs = num_inputs,
          .max_inputs = num_inputs,
          .infer = infer_all_same,
          .check_execution = needs_arithmetic,
          .scalar_body = pointwise(std::move(formula))};
}

OpDef float_same_shape_def(std::string name, std::string doc, int num_inputs,
                           ScalarFormula formula) {
  OpDef def = same_shape_def(std::move(name), std::move(doc), num_inputs, std::move(formula));
  def.check_execution = needs_floats;
  return def;
}

OpDef with_gradient(OpDef def, GradientRule gradient, std::vector<int> differentiable) {
  def.gradient = std::move(gradient);
  def.differentiable_inputs = std::move(differentiable);
  return def;
}

OpDef in_place(OpDef def, std::string name, std::string doc) {
  def.name = std::move(name);
  def.doc = std::move(doc);
  def.gradient = {};
  def.gradient_is_error = false;
  def.differentiable_inputs.clear();
  def.modified_inputs = [](const Op&) { return InputSet{0}; };
  def.output_alias = [](const Op&, int) { return 0; };
  def.infer = [infer = std::move(def.infer)](const Op& op) {
    std::vector<TensorInfo> infos = infer(op);
    const TensorInfo& target = op.input(0)->info;
    if (infos[0].shape != target.shape || infos[0].dtype != target.dtype) {
      wrong_input(op, str_cat("the result ", info_text(infos[0]),
                              " does not fit the tensor to write in place"));
    }
    return infos;
  };
  return def;
}

OpDef view_in_place(OpDef def, std::string name, std::string doc) {
  def.name = std::move(name);
  def.doc = std::move(doc);
  def.gradient = {};
  def.differentiable_inputs.clear();
  def.output_alias = [](const Op&, int) { return 0; };
  return def;
}

Tensor* fresh(OpBuilder& builder, const Op& op, Tensor* t) {
  const auto& inputs = op.inputs();
  const bool is_input = std::find(inputs.begin(), inputs.end(), t) != inputs.end();
  return is_input ? builder.make("Identity", {t}) : t;
}

Tensor* transposed(OpBuilder& builder, Tensor* t) {
  Ints permutation(t->shape().size());
  std::iota(permutation.begin(), permutation.end(), std::int64_t{0});
  std::swap(permutation.back(), permutation[permutation.size() - 2]);
  return builder.make("Transpose", {t}, {{"permutation", permutation}});
}

Tensor* broadcast_constant(OpBuilder& builder, double value, const TensorInfo& info) {
  return builder.broadcast_to(builder.constant(value, info.dtype), info.shape);
}

Reduction reduction_of(const Op& op) {
  const std::string& word = op.attributes.text("op");
  const std::optional<Reduction> known = reduction_of(word);
  if (known) return *known;
  std::string words;
  for (std::string_view each : kReductionWords) words += str_cat(words.empty() ? "" : ", ", each);
  throw ValueError(
      str_cat(describe(op), ": wanted a reduction of ", words, "; given '", word, "'"));
}

}  // namespace pando
