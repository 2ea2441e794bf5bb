// Sliding windows: the arithmetic of sizes and padding that convolutions and pools share.
#pragma once

#include "pando/ir/op_def.hpp"

namespace pando {

/// Strides, pads (begins, then ends) and dilations with every default filled in, and the resulting
/// spatial output size.
struct Window {
  Ints strides;
  Ints pads;
  Ints dilations;
  Shape output;
};

/// Reads the attributes strides, pads, dilations (empty or absent: 1, 0, 1), pad_type (default
/// `not_set`) and ceil_mode of `op`, an op called `what` in errors, for spatial sizes `input` and
/// `kernel`. Explicit pads are computed so that the plain formula
/// floor((D + p0 + p1 - 1 - d * (K - 1)) / s) + 1 gives `output`.
Window resolve_window(const Op& op, const Shape& input, const Shape& kernel, const char* what);

/// Attribute `name` of `op`, an op called `what` in errors: `length` values, `fallback` each when
/// it is absent or empty.
Ints window_list(const Op& op, const char* name, std::size_t length, std::int64_t fallback,
                 const char* what);

/// For ops whose output 0 has spatial dimensions: at least one window fits each of them.
void needs_windows_that_fit(const Op& op);

/// The dimensions after the first two.
Shape spatial_dimensions(const Shape& shape);
/// Checks 1 to 3 spatial dimensions.
void check_spatial_rank(const Op& op, const Tensor& t);

/// Whether `op` already has explicit strides, pads and dilations and nothing else to resolve.
bool window_is_explicit(const Op& op);
/// Sets strides, pads and dilations.
void set_window(Attributes& attributes, const Window& window);

}  // namespace pando
