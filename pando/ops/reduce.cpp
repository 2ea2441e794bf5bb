// Reductions and their gradients. All have attributes "axes" (sorted, not negative) and, in the
// forward direction, "keepdims".
#include <algorithm>
#include <numeric>

#include "pando/ops/joins.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

bool is_reduced(const Ints& axes, std::size_t dim) {
  return std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(dim)) != axes.end();
}

/// `shape` with the reduced dimensions set to 1.
Shape kept_shape(Shape shape, const Ints& axes) {
  for (std::int64_t axis : axes) shape[static_cast<std::size_t>(axis)] = 1;
  return shape;
}

Shape reduced_shape(const Shape& shape, const Ints& axes, bool keepdims) {
  if (keepdims) return kept_shape(shape, axes);
  Shape result;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!is_reduced(axes, d)) result.push_back(shape[d]);
  }
  return result;
}

std::int64_t reduced_count(const Shape& shape, const Ints& axes) {
  std::int64_t count = 1;
  for (std::int64_t axis : axes) count *= shape[static_cast<std::size_t>(axis)];
  return count;
}

const Ints& axes_of(const Op& op) { return op.attributes.ints("axes"); }

void check_axes(const Op& op, const Shape& shape) {
  const Ints& axes = axes_of(op);
  std::int64_t previous = -1;
  for (std::int64_t axis : axes) {
    if (axis <= previous || axis >= static_cast<std::int64_t>(shape.size())) {
      wrong_input(op, str_cat("wanted distinct axes of a tensor of rank ", shape.size(), ", got ",
                              attribute_text(axes)));
    }
    previous = axis;
  }
}

std::vector<TensorInfo> infer_reduction(const Op& op) {
  TensorInfo info = input_info(op, 0);
  check_axes(op, info.shape);
  info.shape = reduced_shape(info.shape, axes_of(op), op.attributes.flag("keepdims"));
  if (!axes_of(op).empty()) info.meta_shape = {};
  return {info};
}

const std::vector<AttributeSpec>& reduction_attributes() {
  static const std::vector<AttributeSpec> attributes = {ints_attribute("axes"),
                                                        flag_attribute("keepdims")};
  return attributes;
}

/// ReduceX(t) over the axes of `op`.
Tensor* reduce(OpBuilder& builder, const Op& op, std::string_view kind, Tensor* t, bool keepdims) {
  return builder.make(kind, {t}, {{"axes", axes_of(op)}, {"keepdims", keepdims}});
}

Tensor* like_output(OpBuilder& builder, const Op& op, Tensor* t) {
  return builder.reshape(t, op.output(0)->shape());
}

/// Forward rules that share their gradient's form: kind + "Grad"(g, saved...) with attributes axes
/// and shape.
GradientRule reduction_gradient(std::string kind, bool input, bool output) {
  return [kind = std::move(kind), input, output](GradientBuilder& builder, const Op& op) {
    Tensor* gradient = builder.output_gradient(0);
    if (gradient == nullptr) return;
    std::vector<Tensor*> inputs = {gradient};
    if (input) inputs.push_back(builder.forward(op.input(0)));
    if (output) inputs.push_back(builder.forward(op.output(0)));
    builder.set_input_gradient(
        0, builder.make(kind + "Grad", inputs,
                        {{"axes", axes_of(op)}, {"shape", op.input(0)->shape()}}));
  };
}

OpDef gradient_def(std::string name, std::string doc, int num_inputs,
                   std::function<Tensor*(OpBuilder&, const Op&)> build) {
  return {.name = std::move(name),
          .doc = std::move(doc) +
                 " Attributes axes and shape (of x): g and out broadcast over the axes.",
          .min_inputs = num_inputs,
          .max_inputs = num_inputs,
          .attributes = {ints_attribute("axes"), ints_attribute("shape")},
          .infer =
              [](const Op& op) {
                check_axes(op, op.attributes.ints("shape"));
                return infer_shape_attribute(op);
              },
          .check_execution = needs_arithmetic,
          .expand =
              [build = std::move(build)](OpBuilder& builder, const Op& op) {
                return std::vector{fresh(builder, op, build(builder, op))};
              }};
}

/// Input `index` (a reduced value) with the reduced dimensions as 1, which broadcasts against x.
Tensor* kept(OpBuilder& builder, const Op& op, int index) {
  return builder.reshape(op.input(index), kept_shape(op.attributes.ints("shape"), axes_of(op)));
}

Tensor* spread(OpBuilder& builder, const Op& op, Tensor* t) {
  return builder.broadcast_to(t, op.attributes.ints("shape"));
}

// Sum, Max, Min, Prod: kernels.

/// Nothing is combined when the reduced axes have one element together.
std::vector<Tensor*> expand_trivial(OpBuilder& builder, const Op& op) {
  if (reduced_count(op.input(0)->shape(), axes_of(op)) != 1) return {};
  return {fresh(builder, op, like_output(builder, op, op.input(0)))};
}

OpDef kernel_reduction(std::string name, std::string doc, GradientRule gradient) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .attributes = reduction_attributes(),
          .infer = infer_reduction,
          .check_execution = needs_numbers,
          .expand = expand_trivial,
          .gradient = std::move(gradient),
          .differentiable_inputs = {0}};
}

/// g at every element equal to the extreme value.
Tensor* extreme_gradient(OpBuilder& builder, const Op& op) {
  Tensor* is_extreme = builder.make("Equal", {op.input(1), kept(builder, op, 2)});
  return builder.make(
      "Where", {is_extreme, kept(builder, op, 0), builder.constant(0.0, op.input(0)->dtype())});
}

/// The axes that are not reduced, then those that are.
Ints reduced_last(std::size_t rank, const Ints& axes) {
  Ints permutation;
  for (std::size_t d = 0; d < rank; ++d) {
    if (!is_reduced(axes, d)) permutation.push_back(static_cast<std::int64_t>(d));
  }
  permutation.insert(permutation.end(), axes.begin(), axes.end());
  return permutation;
}

/// `t` of attribute "shape" as a matrix (kept elements, reduced elements).
Tensor* to_rows(OpBuilder& builder, const Op& op, Tensor* t) {
  const Ints permutation = reduced_last(t->shape().size(), axes_of(op));
  const std::int64_t columns = reduced_count(t->shape(), axes_of(op));
  const std::int64_t rows = reduced_count(
      t->shape(), Ints(permutation.begin(),
                       permutation.end() - static_cast<std::ptrdiff_t>(axes_of(op).size())));
  return builder.reshape(builder.make("Transpose", {t}, {{"permutation", permutation}}),
                         {rows, columns});
}

/// The inverse of to_rows.
Tensor* from_rows(OpBuilder& builder, const Op& op, Tensor* rows) {
  const Shape& shape = op.attributes.ints("shape");
  const Ints permutation = reduced_last(shape.size(), axes_of(op));
  Shape permuted;
  Ints inverse(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    permuted.push_back(shape[static_cast<std::size_t>(permutation[i])]);
    inverse[static_cast<std::size_t>(permutation[i])] = static_cast<std::int64_t>(i);
  }
  return builder.make("Transpose", {builder.reshape(rows, permuted)}, {{"permutation", inverse}});
}

/// Products of the elements before (or, reversed, after) each column of `rows`: a scan in
/// log2(columns) steps.
Tensor* exclusive_product(OpBuilder& builder, Tensor* rows, bool reversed) {
  const std::int64_t columns = rows->shape()[1];
  const auto shifted = [&](Tensor* t, std::int64_t by) {
    Shape edge = t->shape();
    edge[1] = by;
    Tensor* ones = broadcast_constant(builder, 1.0, {t->dtype(), std::move(edge), {}});
    Tensor* rest = slice_axis(builder, t, 1, reversed ? by : 0, columns - by);
    return builder.make("Concat", reversed ? std::vector{rest, ones} : std::vector{ones, rest},
                        {{"axis", std::int64_t{1}}});
  };
  Tensor* product = shifted(rows, 1);
  for (std::int64_t by = 1; by < columns; by *= 2) {
    product = builder.make("Mul", {product, shifted(product, by)});
  }
  return product;
}

Tensor* product_gradient(OpBuilder& builder, const Op& op) {
  if (reduced_count(op.attributes.ints("shape"), axes_of(op)) <= 1) {
    return spread(builder, op, kept(builder, op, 0));
  }
  Tensor* rows = to_rows(builder, op, op.input(1));
  Tensor* others = builder.make(
      "Mul", {exclusive_product(builder, rows, false), exclusive_product(builder, rows, true)});
  return builder.make("Mul", {from_rows(builder, op, others), kept(builder, op, 0)});
}

void add_kernels(Registry& registry) {
  registry.add(kernel_reduction("ReduceSum", "Sum of input 0 over attribute axes. A kernel.",
                                reduction_gradient("ReduceSum", false, false)));
  registry.add(gradient_def("ReduceSumGrad", "Input g.", 1, [](OpBuilder& builder, const Op& op) {
    return spread(builder, op, kept(builder, op, 0));
  }));
  registry.add(kernel_reduction("ReduceMax", "Maximum of input 0 over attribute axes. A kernel.",
                                reduction_gradient("ReduceMax", true, true)));
  registry.add(gradient_def("ReduceMaxGrad", "For inputs g, x, out: g where x equals out, else 0.",
                            3, extreme_gradient));
  registry.add(kernel_reduction("ReduceMin", "Minimum of input 0 over attribute axes. A kernel.",
                                reduction_gradient("ReduceMin", true, true)));
  registry.add(gradient_def("ReduceMinGrad", "For inputs g, x, out: g where x equals out, else 0.",
                            3, extreme_gradient));
  registry.add(kernel_reduction("ReduceProd", "Product of input 0 over attribute axes. A kernel.",
                                reduction_gradient("ReduceProd", true, false)));
  registry.add(gradient_def("ReduceProdGrad",
                            "For inputs g, x: g times the product of the other elements of x, "
                            "without a division.",
                            2, product_gradient));
}

// Composites

OpDef composite(std::string name, std::string doc, ExecutionRule check_execution,
                std::function<Tensor*(OpBuilder&, const Op&)> build, GradientRule gradient) {
  return {
      .name = std::move(name),
      .doc = std::move(doc),
      .attributes = reduction_attributes(),
      .infer = infer_reduction,
      .check_execution = std::move(check_execution),
      .expand = [build = std::move(build)](
                    OpBuilder& builder, const Op& op) { return std::vector{build(builder, op)}; },
      .gradient = std::move(gradient),
      .differentiable_inputs = {0}};
}

Tensor* sum_like_output(OpBuilder& builder, const Op& op, Tensor* t) {
  return reduce(builder, op, "ReduceSum", t, op.attributes.flag("keepdims"));
}

Tensor* square(OpBuilder& builder, Tensor* t) { return builder.make("Mul", {t, t}); }

/// The dtype in which sums of `dtype` and their counts fit.
DType summing_dtype(DType dtype) {
  if (is_half_precision(dtype)) return DType::Float32;
  return is_integer(dtype) && dtype_bytes(dtype) < 4 ? DType::Int32 : dtype;
}

Tensor* log_sum_exp(OpBuilder& builder, const Op& op) {
  const DType dtype = summing_dtype(op.input(0)->dtype());
  Tensor* x = builder.cast(op.input(0), dtype);
  Tensor* maximum = reduce(builder, op, "ReduceMax", x, true);
  // Rows whose maximum is infinite are not shifted: inf - inf is NaN.
  Tensor* shift = builder.make(
      "Where", {builder.make("IsInf", {maximum}), builder.constant(0.0, dtype), maximum});
  Tensor* shifted = builder.make("Sub", {x, shift});
  Tensor* sum = reduce(builder, op, "ReduceSum", builder.make("Exp", {shifted}), true);
  Tensor* result = builder.make("Add", {builder.make("Log", {sum}), shift});
  return like_output(builder, op, builder.cast(result, op.input(0)->dtype()));
}

/// `t` divided by `count` in its own dtype, then converted to `dtype`.
Tensor* divided(OpBuilder& builder, Tensor* t, std::int64_t count, DType dtype) {
  Tensor* divisor = builder.constant(static_cast<double>(count), t->dtype());
  return builder.cast(builder.make("Div", {t, divisor}), dtype);
}

void add_means(Registry& registry) {
  registry.add(composite(
      "ReduceMean",
      "Sum of input 0 over attribute axes, then divided by their size n. float16 and bfloat16: "
      "both in "
      "float32, rounded once at the end; integers of less than 32 bits: both in int32.",
      needs_numbers,
      [](OpBuilder& builder, const Op& op) {
        const DType dtype = op.input(0)->dtype();
        Tensor* wide = builder.cast(op.input(0), summing_dtype(dtype));
        Tensor* sum = sum_like_output(builder, op, wide);
        return divided(builder, sum, reduced_count(op.input(0)->shape(), axes_of(op)), dtype);
      },
      reduction_gradient("ReduceMean", false, false)));
  registry.add(gradient_def(
      "ReduceMeanGrad",
      "Input g / n, n the size of the axes. float16 and bfloat16: divided in float32.", 1,
      [](OpBuilder& builder, const Op& op) {
        const DType dtype = op.input(0)->dtype();
        Tensor* wide = builder.cast(kept(builder, op, 0), summing_dtype(dtype));
        const std::int64_t count = reduced_count(op.attributes.ints("shape"), axes_of(op));
        return spread(builder, op, divided(builder, wide, count, dtype));
      }));
}

void add_norms(Registry& registry) {
  registry.add(composite(
      "ReduceL1", "Sum of |x| of input 0 over attribute axes.", needs_numbers,
      [](OpBuilder& builder, const Op& op) {
        return sum_like_output(builder, op, builder.make("Abs", {op.input(0)}));
      },
      reduction_gradient("ReduceL1", true, false)));
  registry.add(gradient_def(
      "ReduceL1Grad", "g sign(x) for inputs g, x.", 2, [](OpBuilder& builder, const Op& op) {
        return builder.make("Mul", {kept(builder, op, 0), builder.make("Sign", {op.input(1)})});
      }));
  registry.add(composite(
      "ReduceL2",
      "Square root of the sum of x^2 of input 0 over attribute axes. float16 and bfloat16: in "
      "float32, rounded once at the end.",
      needs_floats,
      [](OpBuilder& builder, const Op& op) {
        const DType dtype = op.input(0)->dtype();
        Tensor* wide = builder.cast(op.input(0), summing_dtype(dtype));
        Tensor* sum = sum_like_output(builder, op, square(builder, wide));
        return builder.cast(builder.make("Sqrt", {sum}), dtype);
      },
      reduction_gradient("ReduceL2", true, true)));
  registry.add(
      gradient_def("ReduceL2Grad", "g x / out for inputs g, x, out; NaN where out is 0.", 3,
                   [](OpBuilder& builder, const Op& op) {
                     Tensor* direction = builder.make("Div", {op.input(1), kept(builder, op, 2)});
                     return builder.make("Mul", {kept(builder, op, 0), direction});
                   }));
  registry.add(composite(
      "ReduceSumSquare", "Sum of x^2 of input 0 over attribute axes.", needs_numbers,
      [](OpBuilder& builder, const Op& op) {
        return sum_like_output(builder, op, square(builder, op.input(0)));
      },
      reduction_gradient("ReduceSumSquare", true, false)));
  registry.add(gradient_def("ReduceSumSquareGrad", "2 g x for inputs g, x.", 2,
                            [](OpBuilder& builder, const Op& op) {
                              Tensor* two = builder.constant(2.0, op.input(0)->dtype());
                              Tensor* twice = builder.make("Mul", {kept(builder, op, 0), two});
                              return builder.make("Mul", {twice, op.input(1)});
                            }));
}

void add_logarithms(Registry& registry) {
  registry.add(composite(
      "ReduceLogSum",
      "ln of the sum of input 0 over attribute axes. float16 and bfloat16: in float32, rounded "
      "once "
      "at the end.",
      needs_floats,
      [](OpBuilder& builder, const Op& op) {
        const DType dtype = op.input(0)->dtype();
        Tensor* wide = builder.cast(op.input(0), summing_dtype(dtype));
        return builder.cast(builder.make("Log", {sum_like_output(builder, op, wide)}), dtype);
      },
      reduction_gradient("ReduceLogSum", true, false)));
  registry.add(gradient_def(
      "ReduceLogSumGrad",
      "g / (sum of x) for inputs g, x. float16 and bfloat16: the sum and its share in float32.", 2,
      [](OpBuilder& builder, const Op& op) {
        const DType dtype = op.input(1)->dtype();
        Tensor* wide = builder.cast(op.input(1), summing_dtype(dtype));
        Tensor* sum = reduce(builder, op, "ReduceSum", wide, true);
        Tensor* gradient = builder.cast(kept(builder, op, 0), summing_dtype(dtype));
        return spread(builder, op, builder.cast(builder.make("Div", {gradient, sum}), dtype));
      }));
  registry.add(composite("ReduceLogSumExp",
                         "m + ln of the sum of e^(x - m) over attribute axes, m the maximum; 0 "
                         "where that is infinite. "
                         "float16 and bfloat16: in float32, rounded once at the end.",
                         needs_floats, log_sum_exp,
                         reduction_gradient("ReduceLogSumExp", true, true)));
  registry.add(gradient_def(
      "ReduceLogSumExpGrad", "g e^(x - out) for inputs g, x, out.", 3,
      [](OpBuilder& builder, const Op& op) {
        Tensor* shifted = builder.make("Sub", {op.input(1), kept(builder, op, 2)});
        return builder.make("Mul", {kept(builder, op, 0), builder.make("Exp", {shifted})});
      }));
}

// Median

std::vector<TensorInfo> infer_median(const Op& op) {
  TensorInfo values = infer_reduction(op).front();
  if (reduced_count(op.input(0)->shape(), axes_of(op)) == 0) {
    wrong_input(op, "wanted at least one element to take the median of");
  }
  TensorInfo indices = values;
  indices.dtype = DType::Int32;
  return {values, indices};
}

void median_gradient(GradientBuilder& builder, const Op& op) {
  Tensor* gradient = builder.output_gradient(0);
  if (gradient == nullptr) return;
  builder.set_input_gradient(
      0, builder.make("ReduceMedianGrad", {gradient, builder.forward(op.output(1))},
                      {{"axes", axes_of(op)}, {"shape", op.input(0)->shape()}}));
}

/// g where the position among the reduced elements is the selected one.
Tensor* scatter_to_median(OpBuilder& builder, const Op& op) {
  const Shape& shape = op.attributes.ints("shape");
  const std::int64_t columns = reduced_count(shape, axes_of(op));
  const std::int64_t rows = op.input(0)->info.num_elements();
  std::vector<std::int32_t> positions(static_cast<std::size_t>(columns));
  std::iota(positions.begin(), positions.end(), 0);
  Tensor* position = builder.constant(TensorInfo{DType::Int32, {1, columns}, {}}, positions.data());
  Tensor* selected = builder.make("Equal", {position, builder.reshape(op.input(1), {rows, 1})});
  Tensor* scattered = builder.make("Where", {selected, builder.reshape(op.input(0), {rows, 1}),
                                             builder.constant(0.0, op.input(0)->dtype())});
  return from_rows(builder, op, scattered);
}

void add_median(Registry& registry) {
  registry.add({.name = "ReduceMedian",
                .doc = "Lower median of input 0 over attribute axes: element (n - 1) / 2 of the n "
                       "reduced elements in ascending order. Output 1: its position (int32) among "
                       "them in C order; the lowest of equals. A kernel.",
                .attributes = reduction_attributes(),
                .infer = infer_median,
                .check_execution = needs_arithmetic,
                .gradient = median_gradient,
                .differentiable_inputs = {0}});
  registry.add(gradient_def("ReduceMedianGrad",
                            "For inputs g, position: g at the selected element, else 0.", 2,
                            scatter_to_median));
}

}  // namespace

void register_reduce_ops(Registry& registry) {
  add_kernels(registry);
  add_means(registry);
  add_norms(registry);
  add_logarithms(registry);
  add_median(registry);
}

}  // namespace pando
