// The gradient of a loop whose number of iterations is known when it ends.
#pragma once

#include "pando/transforms/autodiff.hpp"

namespace pando {

/// Whether a tensor of this type can have a gradient.
bool has_gradient_dtype(const Tensor* tensor);

/// Those of `tensors` that can have one.
std::vector<Tensor*> with_gradient_dtype(const std::vector<Tensor*>& tensors);

/// The gradient of `loop`, a While, of whose body `body` is the gradient graph. The loop keeps what
/// the gradient needs of the values that it carries (attribute history); the gradient is another
/// While, which goes through the iterations backwards. Throws Error if the loop has no
/// max_iterations.
void differentiate_loop(GradientBuilder& builder, Op& loop, const GradGraphInfo& body);

}  // namespace pando
