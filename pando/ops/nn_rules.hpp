// Checks and small builders shared by the neural-network op families.
#pragma once

#include <string>
#include <vector>

#include "pando/base/error.hpp"
#include "pando/ir/graph.hpp"
#include "pando/ir/op_def.hpp"

namespace pando {

/// Input `index`, which must be connected; `role` names it in the error.
const Tensor& needed_input(const Op& op, int index, const char* role);

/// Throws the error of wrong_input unless `condition` holds.
inline void check_inputs(const Op& op, bool condition, const std::string& wanted) {
  if (!condition) wrong_input(op, wanted);
}

/// Input `index`, called `role`, is connected and has a value for each channel.
void check_channels(const Op& op, int index, const char* role, std::int64_t channels);

/// Checks that a tensor has a float dtype with arithmetic (float16, bfloat16, float32 or float64).
void check_float(const Op& op, const Tensor& t, const char* role);
void check_integer(const Op& op, const Tensor& t, const char* role);

/// Attribute `name`, which must be in [0, rank): kernels read it as it is, so builders normalise
/// negative axes.
std::int64_t axis_attribute(const Op& op, std::int64_t rank, const char* name = "axis");

/// `op`'s attributes restricted to `names` (those present).
Attributes pick_attributes(const Op& op, const std::vector<std::string>& names);

/// Result info of shape `shape` without a meta shape.
inline TensorInfo plain_info(DType dtype, Shape shape) { return {dtype, std::move(shape), {}}; }

/// `shape` with `axis` replaced by the dimensions of `inner`.
Shape splice_shape(const Shape& shape, std::int64_t axis, const Shape& inner);
/// Shape of rank `rank` that is `size` at `axis` and 1 elsewhere.
Shape axis_shape(std::int64_t rank, std::int64_t axis, std::int64_t size);

/// The dimensions of `first`, then those of `second`.
Shape join_shapes(Shape first, const Shape& second);

/// A zero tensor of `shape` (a broadcast scalar constant).
Tensor* zeros(OpBuilder& builder, DType dtype, const Shape& shape);

/// For ops that write input 0 and return it.
InputSet modifies_first(const Op& op);
int aliases_first(const Op& op, int output);

/// Number `name` when present, else the value of input `index` (loaded) in the lane of `like`.
/// One of the two must exist; `fallback` is used when neither does.
ScalarValue number_or_input(ScalarEmitter& emitter, const Op& op, const char* name,
                            std::span<const ScalarValue> inputs, int index, double fallback,
                            LaneType lane);

}  // namespace pando
