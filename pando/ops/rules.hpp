// What op definitions share: checks, inference rules and short forms for common records.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pando/base/error.hpp"
#include "pando/base/reduction.hpp"
#include "pando/ir/graph.hpp"
#include "pando/ir/op_def.hpp"
#include "pando/ops/ops.hpp"
#include "pando/ops/scalar_math.hpp"

namespace pando {

using InferRule = std::function<std::vector<TensorInfo>(const Op&)>;
using GradientRule = std::function<void(GradientBuilder&, const Op&)>;
using ExecutionRule = std::function<void(const Op&)>;
using ExpandRule = std::function<std::vector<Tensor*>(OpBuilder&, const Op&)>;

// Attribute schemas: `{flag_attribute("keepdims"), ...}`.
AttributeSpec flag_attribute(std::string name);
AttributeSpec integer_attribute(std::string name);
AttributeSpec number_attribute(std::string name);
AttributeSpec text_attribute(std::string name);
AttributeSpec dtype_attribute(std::string name);
AttributeSpec ints_attribute(std::string name);
AttributeSpec optional(AttributeSpec spec);

// Checks. All throw Error through wrong_input and name the op and its inputs.
/// The info of input `index`, which must be connected.
const TensorInfo& input_info(const Op& op, int index);
/// Equal dtypes: there is no promotion.
void require_same_dtype(const Op& op, int first, int second);
void require_same_shape(const Op& op, int first, int second);
/// Not float8 and not complex: those take no part in arithmetic.
void require_arithmetic(const Op& op, int index);
/// As require_arithmetic, and not bool.
void require_number(const Op& op, int index);
/// float16, bfloat16, float32 or float64.
void require_float(const Op& op, int index);
/// An integer dtype (bool is none).
void require_integer(const Op& op, int index);
void require_bool(const Op& op, int index);
/// Exactly one element, any rank.
void require_one_element(const Op& op, int index);
void require_rank(const Op& op, int index, std::int64_t rank);
void require_rank_at_least(const Op& op, int index, std::int64_t rank);
void require_shape(const Op& op, int index, const Shape& shape);
/// 0 <= axis < rank of input `index`.
void require_axis(const Op& op, int index, std::int64_t axis);

// Execution rules.
/// All connected inputs take part in arithmetic.
void needs_arithmetic(const Op& op);
/// All connected inputs are numbers.
void needs_numbers(const Op& op);
/// All connected inputs are float16, bfloat16, float32 or float64.
void needs_floats(const Op& op);
/// All connected inputs are bool.
void needs_bools(const Op& op);
/// All connected inputs are of one dtype, which takes part in arithmetic.
void needs_same_dtypes(const Op& op);

// Inference rules. They look at dtypes only where building a graph has to.
/// Shape, dtype and meta shape of input 0.
std::vector<TensorInfo> infer_same_as_input(const Op& op);
/// All connected inputs have the dtype and shape of input 0, and so has the output.
std::vector<TensorInfo> infer_all_same(const Op& op);
/// NumPy broadcasting of all connected inputs; their dtypes are equal.
std::vector<TensorInfo> infer_broadcast(const Op& op);
/// NumPy broadcasting with a bool result, whatever the dtypes.
std::vector<TensorInfo> infer_broadcast_to_bool(const Op& op);
/// dtype of input 0, shape from attribute "shape".
std::vector<TensorInfo> infer_shape_attribute(const Op& op);
/// `info` under another shape, which is that of no shard: without its meta shape.
TensorInfo with_shape(const TensorInfo& info, Shape shape);
/// Info of input 0 with the dtype of attribute "dtype".
std::vector<TensorInfo> infer_dtype_attribute(const Op& op);
/// Broadcast shape and meta shape of the listed inputs; dtype of the first. Does not compare
/// dtypes. Throws Error when shapes do not align or two meta shapes differ.
TensorInfo broadcast_info(const Op& op, const std::vector<int>& inputs);

// Gradient rules.
/// Which forward value a gradient op reads besides the gradient.
enum class Saved : std::uint8_t { Nothing, Input, Output };
/// Gradient of input 0 is `kind`(g[, forward value]) with the named attributes copied.
GradientRule unary_gradient(std::string kind, Saved saved,
                            std::vector<std::string> copied_attributes = {});

/// View and record helpers.
/// The view rule of ops whose output is input 0 unchanged.
std::optional<View> identity_view(const Op& op, int output, const View& input);

/// The record of a pointwise op with one input and one output of the same info, for all dtypes that
/// take part in arithmetic.
OpDef unary_def(std::string name, std::string doc, std::function<Scalar(Scalar)> formula);
/// The same for float16, bfloat16, float32 and float64 only.
OpDef float_unary_def(std::string name, std::string doc, std::function<Scalar(Scalar)> formula);
/// The record of a pointwise op whose 1 .. n inputs and output all have one info (gradient ops).
OpDef same_shape_def(std::string name, std::string doc, int num_inputs, ScalarFormula formula);
/// The same for float16, bfloat16, float32 and float64 only.
OpDef float_same_shape_def(std::string name, std::string doc, int num_inputs,
                           ScalarFormula formula);
/// `def` with a gradient of input 0.
OpDef with_gradient(OpDef def, GradientRule gradient, std::vector<int> differentiable = {0});
/// The in-place form of a pointwise op or view: writes input 0, whose shape and dtype the result
/// must have. It has no gradient.
OpDef in_place(OpDef def, std::string name, std::string doc);
/// The in-place form of a view op: the output is a window on the storage of input 0.
OpDef view_in_place(OpDef def, std::string name, std::string doc);

/// The replacement that an expansion gives for an output: `t`, or a view of it when `t` is an input
/// of `op`. In-place ops on the output or the input must not meet each other.
Tensor* fresh(OpBuilder& builder, const Op& op, Tensor* t);

/// What the attribute `op` of a collective names. Throws Error with the words that there are.
Reduction reduction_of(const Op& op);

/// The number of axes.
inline std::int64_t rank_of(const Tensor& t) { return static_cast<std::int64_t>(t.shape().size()); }

/// `t` (..., m, n) as (..., n, m).
Tensor* transposed(OpBuilder& builder, Tensor* t);

/// `t` filled with one value, as a stride-0 view of a scalar constant.
Tensor* broadcast_constant(OpBuilder& builder, double value, const TensorInfo& info);

}  // namespace pando
