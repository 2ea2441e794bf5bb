// Matrix products. Only products of matrices with equal batch dimensions stay `MatMul`; vectors,
// broadcast batches, other result dtypes and float8 expand to them.
#include <algorithm>
#include <string_view>

#include "pando/base/band_attributes.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

/// A vector on the left becomes a row, one on the right a column.
Shape promoted(const Shape& shape, bool is_lhs) {
  if (shape.size() != 1) return shape;
  return is_lhs ? Shape{1, shape[0]} : Shape{shape[0], 1};
}

Shape batch_of(const Shape& shape) { return Shape(shape.begin(), shape.end() - 2); }

Shape joined(Shape batch, std::int64_t rows, std::int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

/// The batch of a product whose shapes infer_matmul has accepted.
Shape joint_batch(const Shape& lhs, const Shape& rhs) {
  const auto batch = broadcast_shapes(batch_of(lhs), batch_of(rhs));
  if (!batch) throw InternalError("batch dimensions do not broadcast");
  return *batch;
}

/// The shape of the product of promoted operands.
Shape product_shape(const Op& op, const Shape& lhs, const Shape& rhs) {
  if (lhs.back() != rhs[rhs.size() - 2]) {
    throw Error(str_cat(describe(op), ": contracting dimensions unequal: lhs '",
                        op.input(0)->name(), "' ", attribute_text(Ints(op.input(0)->shape())),
                        ", rhs '", op.input(1)->name(), "' ",
                        attribute_text(Ints(op.input(1)->shape()))));
  }
  const auto batch = broadcast_shapes(batch_of(lhs), batch_of(rhs));
  if (!batch) wrong_input(op, "wanted batch dimensions that broadcast");
  return joined(*batch, lhs[lhs.size() - 2], rhs.back());
}

bool is_scaled(const Op& op) { return op.num_inputs() > 2 && op.input(2) != nullptr; }

void check_dtypes(const Op& op) {
  const DType lhs = input_info(op, 0).dtype;
  const DType rhs = input_info(op, 1).dtype;
  if (is_scaled(op)) {
    if (!is_float8(lhs) || !is_float8(rhs)) {
      wrong_input(op, "wanted float8_143 or float8_152 operands with a log2 scale");
    }
    const TensorInfo& scale = input_info(op, 2);
    if (scale.dtype != DType::Int32 || !scale.shape.empty()) {
      wrong_input(op, "wanted a scalar int32 log2 scale at input 2");
    }
    return;
  }
  if (is_float8(lhs) || is_float8(rhs)) {
    wrong_input(op, "float8 operands need a log2 scale: use matmul_pow2scaled");
  }
}

DType output_dtype(const Op& op) {
  if (is_scaled(op)) return DType::Float16;
  return op.attributes.has("output_type") ? op.attributes.dtype("output_type")
                                          : op.input(0)->dtype();
}

/// Operands of different float dtypes are multiplied in the wider one.
void needs_float_matrices(const Op& op) {
  if (is_scaled(op)) return;
  require_float(op, 0);
  require_float(op, 1);
  const DType dtype = output_dtype(op);
  if (!is_floating_point(dtype) || is_float8(dtype)) {
    wrong_input(op,
                str_cat("wanted output_type float16, bfloat16, float32 or float64, got ", dtype));
  }
}

/// Bands are of the matrices that kernels see.
void check_bands(const Op& op) {
  if (!has_band(op.attributes)) return;
  const Shape &lhs = op.input(0)->shape(), &rhs = op.input(1)->shape();
  if (lhs.size() < 2 || rhs.size() < 2 || batch_of(lhs) != batch_of(rhs) || is_scaled(op)) {
    wrong_input(op, "wanted matrices with equal batch dimensions where there are bands");
  }
  for (const char* name : kBandAttributes) {
    if (op.attributes.has(name) && op.attributes.ints(name).size() != 2) {
      wrong_input(op, str_cat("wanted ", name, " as [lower, upper]"));
    }
  }
}

std::vector<TensorInfo> infer_matmul(const Op& op) {
  for (int i : {0, 1}) {
    if (!input_info(op, i).shape.empty()) continue;
    throw Error(str_cat(describe(op), ": MatMul doesn't support scalar tensor '",
                        op.input(i)->name(), "' as an operand. Use mul"));
  }
  check_dtypes(op);
  check_bands(op);
  const DType dtype = output_dtype(op);
  const Shape& lhs = op.input(0)->shape();
  const Shape& rhs = op.input(1)->shape();
  Shape shape = product_shape(op, promoted(lhs, true), promoted(rhs, false));
  if (rhs.size() == 1) shape.pop_back();
  if (lhs.size() == 1) shape.erase(shape.end() - (rhs.size() == 1 ? 1 : 2));
  return {TensorInfo{dtype, shape, {}}};
}

/// Attributes that the simpler products of an expansion keep.
Attributes kept_attributes(const Op& op) {
  Attributes attributes = op.attributes;
  attributes.erase("output_type");
  return attributes;
}

std::vector<Tensor*> expand_scaled(OpBuilder& builder, const Op& op) {
  Tensor* lhs = builder.cast(op.input(0), DType::Float32);
  Tensor* rhs = builder.cast(op.input(1), DType::Float32);
  Tensor* product = builder.make("MatMul", {lhs, rhs}, kept_attributes(op));
  return {builder.make("Pow2Scale", {product, op.input(2)}, {{"dtype", DType::Float16}})};
}

bool has_one_dtype(const Op& op) {
  const DType dtype = output_dtype(op);
  return op.input(0)->dtype() == dtype && op.input(1)->dtype() == dtype;
}

/// Products of several dtypes are made in float32 (or wider) and rounded once.
std::vector<Tensor*> expand_mixed_dtypes(OpBuilder& builder, const Op& op) {
  const DType target = output_dtype(op);
  const bool wide = target == DType::Float64 || op.input(0)->dtype() == DType::Float64 ||
                    op.input(1)->dtype() == DType::Float64;
  const DType inner = wide ? DType::Float64 : DType::Float32;
  Tensor* product =
      builder.make("MatMul", {builder.cast(op.input(0), inner), builder.cast(op.input(1), inner)},
                   kept_attributes(op));
  return {builder.cast(product, target)};
}

/// One matrix product of all rows when the right-hand side is the same for every batch.
std::vector<Tensor*> expand_shared_rhs(OpBuilder& builder, const Op& op, const Shape& matrix) {
  const Shape& lhs = op.input(0)->shape();
  const std::int64_t rows = num_elements(Shape(lhs.begin(), lhs.end() - 1));
  Tensor* flat = builder.reshape(op.input(0), {rows, lhs.back()});
  Tensor* product =
      builder.make("MatMul", {flat, builder.reshape(op.input(1), matrix)}, kept_attributes(op));
  return {builder.reshape(product, op.output(0)->shape())};
}

std::vector<Tensor*> expand_matmul(OpBuilder& builder, const Op& op) {
  if (is_scaled(op)) return expand_scaled(builder, op);
  if (!has_one_dtype(op)) return expand_mixed_dtypes(builder, op);
  if (has_band(op.attributes)) return {};
  Tensor* lhs = op.input(0);
  Tensor* rhs = op.input(1);
  const Shape lhs_shape = promoted(lhs->shape(), true);
  const Shape rhs_shape = promoted(rhs->shape(), false);
  const Shape rhs_batch = batch_of(rhs_shape);
  if (lhs_shape.size() > 2 && lhs_shape.size() >= rhs_shape.size() &&
      std::all_of(rhs_batch.begin(), rhs_batch.end(), [](auto dim) { return dim == 1; })) {
    return expand_shared_rhs(builder, op, {rhs_shape[rhs_shape.size() - 2], rhs_shape.back()});
  }
  const Shape batch = joint_batch(lhs_shape, rhs_shape);
  Tensor* left =
      builder.broadcast_to(builder.reshape(lhs, lhs_shape),
                           joined(batch, lhs_shape[lhs_shape.size() - 2], lhs_shape.back()));
  Tensor* right =
      builder.broadcast_to(builder.reshape(rhs, rhs_shape),
                           joined(batch, rhs_shape[rhs_shape.size() - 2], rhs_shape.back()));
  if (left == op.input(0) && right == op.input(1)) return {};
  Tensor* product = builder.make("MatMul", {left, right}, kept_attributes(op));
  return {builder.reshape(product, op.output(0)->shape())};
}

// Gradients: inputs g and the other operand.

/// The dtypes of g and the other operand differ when those of the product did.
DType wider_dtype(const Op& op) {
  const DType gradient = op.input(0)->dtype(), other = op.input(1)->dtype();
  return dtype_bytes(gradient) < dtype_bytes(other) ? other : gradient;
}

Tensor* other_operand(OpBuilder& builder, const Op& op, const Shape& promoted_shape) {
  return builder.reshape(builder.cast(op.input(1), wider_dtype(op)), promoted_shape);
}

/// The gradient under the shape that the product of the promoted operands has.
Tensor* promoted_gradient(OpBuilder& builder, const Op& op, const Shape& lhs, const Shape& rhs) {
  const Shape batch = joint_batch(lhs, rhs);
  Tensor* gradient = builder.cast(op.input(0), wider_dtype(op));
  return builder.reshape(gradient, joined(batch, lhs[lhs.size() - 2], rhs.back()));
}

Tensor* summed_to(OpBuilder& builder, Tensor* product, const Shape& promoted_shape,
                  const Shape& shape) {
  return builder.reshape(builder.reduce_to(product, promoted_shape), shape);
}

Tensor* lhs_gradient(OpBuilder& builder, const Op& op) {
  const Shape& shape = op.attributes.ints("shape");
  const Shape lhs = promoted(shape, true);
  const Shape rhs = promoted(op.input(1)->shape(), false);
  Tensor* gradient = promoted_gradient(builder, op, lhs, rhs);
  Tensor* other = transposed(builder, other_operand(builder, op, rhs));
  return summed_to(builder, builder.make("MatMul", {gradient, other}), lhs, shape);
}

Tensor* rhs_gradient(OpBuilder& builder, const Op& op) {
  const Shape& shape = op.attributes.ints("shape");
  const Shape lhs = promoted(op.input(1)->shape(), true);
  const Shape rhs = promoted(shape, false);
  Tensor* gradient = promoted_gradient(builder, op, lhs, rhs);
  Tensor* other = other_operand(builder, op, lhs);
  if (rhs.size() == 2 && lhs.size() > 2) {
    // One product over all batches instead of one per batch and a sum.
    const std::int64_t rows = num_elements(Shape(lhs.begin(), lhs.end() - 1));
    other = builder.reshape(other, {rows, lhs.back()});
    gradient = builder.reshape(gradient, {rows, rhs.back()});
  }
  Tensor* product = builder.make("MatMul", {transposed(builder, other), gradient});
  return summed_to(builder, product, rhs, shape);
}

OpDef gradient_def(std::string name, std::string doc,
                   Tensor* (*build)(OpBuilder& builder, const Op& op)) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .min_inputs = 2,
          .max_inputs = 2,
          .attributes = {ints_attribute("shape"), dtype_attribute("dtype")},
          .infer =
              [](const Op& op) {
                TensorInfo info = infer_shape_attribute(op).front();
                info.dtype = op.attributes.dtype("dtype");
                return std::vector{info};
              },
          .check_execution = needs_floats,
          .expand =
              [build](OpBuilder& builder, const Op& op) {
                return std::vector{builder.cast(build(builder, op), op.attributes.dtype("dtype"))};
              }};
}

void matmul_gradient(GradientBuilder& builder, const Op& op) {
  Tensor* gradient = builder.output_gradient(0);
  if (gradient == nullptr) return;
  if (is_scaled(op))
    throw Error(str_cat(describe(op), " has no gradient: its operands are float8"));
  for (int i : {0, 1}) {
    if (!builder.wants(i)) continue;
    builder.set_input_gradient(
        i, builder.make(i == 0 ? "MatMulLhsGrad" : "MatMulRhsGrad",
                        {gradient, builder.forward(op.input(1 - i))},
                        {{"shape", op.input(i)->shape()}, {"dtype", op.input(i)->dtype()}}));
  }
}

}  // namespace

void register_matmul_ops(Registry& registry) {
  registry.add(
      {.name = "MatMul",
       .doc = "NumPy matmul of inputs 0 and 1. Attribute output_type: dtype of the result "
              "(default: of input 0). Operands and result of several dtypes: multiplied in float32 "
              "(float64 where one is that), rounded once. With float8 operands input 2 is a scalar "
              "int32 "
              "log2 scale and the result float16(product * 2^scale). partials_type and "
              "available_memory_proportion are kept for readers; sums are float32 (float64 "
              "for float64). A kernel for matrices with equal batch dimensions. What the pass "
              "bands knows of those: lhs_band and rhs_band [lower, upper]: elements (i, j) "
              "without -lower <= j - i <= upper are 0; out_band: nobody reads those, and what "
              "they become is not specified.",
       .min_inputs = 2,
       .max_inputs = 3,
       .attributes = {optional(dtype_attribute("output_type")),
                      optional(dtype_attribute("partials_type")),
                      optional(number_attribute("available_memory_proportion")),
                      optional(ints_attribute("lhs_band")), optional(ints_attribute("rhs_band")),
                      optional(ints_attribute("out_band"))},
       .infer = infer_matmul,
       .check_execution = needs_float_matrices,
       .expand = expand_matmul,
       .gradient = matmul_gradient,
       .is_repeated_to_fit = true,
       .log2_scale_input = 2,
       .differentiable_inputs = {0, 1}});
  registry.add(gradient_def("MatMulLhsGrad",
                            "g rhs^T for inputs g, rhs, summed to attribute shape, in attribute "
                            "dtype.",
                            lhs_gradient));
  registry.add(gradient_def("MatMulRhsGrad",
                            "lhs^T g for inputs g, lhs, summed to attribute shape, in attribute "
                            "dtype.",
                            rhs_gradient));
}

}  // namespace pando
