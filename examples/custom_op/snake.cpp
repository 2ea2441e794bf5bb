// The activation "snake", x + sin(a x)^2 / a, as an op of one's own: forward, gradient, in place.
//
// It is compiled as README.md says.
#include <cmath>
#include <cstdio>
#include <initializer_list>

#include "pando_op.h"

namespace {

// The result has the shape and dtype of the input, which is float32.
int32_t infer(const pando_call_v1* call, pando_info_v1* outputs, int32_t*,
              pando_message_v1* message) {
  const pando_tensor_v1& x = call->inputs[0];
  if (x.dtype != PANDO_FLOAT32) {
    std::snprintf(message->text, message->capacity, "wanted a float32 tensor");
    return 1;
  }
  if (call->attributes[0].number == 0) {
    std::snprintf(message->text, message->capacity, "wanted an attribute `a` other than 0");
    return 1;
  }
  outputs[0].dtype = x.dtype;
  outputs[0].rank = x.rank;
  for (int32_t d = 0; d < x.rank; ++d) outputs[0].shape[d] = x.shape[d];
  return 0;
}

// Inputs are C-contiguous, as the op does not ask for other strides; in place, `x` may be `y`.
int32_t compute(const pando_call_v1* call, void*, pando_message_v1*) {
  const auto a = static_cast<float>(call->attributes[0].number);
  const auto* x = static_cast<const float*>(call->inputs[0].data);
  auto* y = static_cast<float*>(call->outputs[0].data);
  int64_t elements = 1;
  for (int32_t d = 0; d < call->inputs[0].rank; ++d) elements *= call->inputs[0].shape[d];
  for (int64_t i = 0; i < elements; ++i) {
    const float sine = std::sin(a * x[i]);
    y[i] = x[i] + sine * sine / a;
  }
  return 0;
}

// dx = g (1 + sin(2 a x)), built of Pando's own ops, which become one kernel.
int32_t gradient(const pando_call_v1* call, const pando_builder_v1* b, pando_message_v1*) {
  const auto op = [b](const char* kind, std::initializer_list<pando_node> inputs) {
    return b->make(b->state, kind, inputs.begin(), static_cast<int32_t>(inputs.size()), nullptr, 0);
  };
  const double a = call->attributes[0].number;
  const pando_node g = b->output_gradient(b->state, 0);
  const pando_node angle =
      op("Mul", {b->input(b->state, 0), b->constant(b->state, 2 * a, PANDO_FLOAT32)});
  const pando_node slope = op("Add", {op("Sin", {angle}), b->constant(b->state, 1, PANDO_FLOAT32)});
  return b->set_input_gradient(b->state, 0, op("Mul", {g, slope})) == 1 ? 0 : 1;
}

}  // namespace

PANDO_OP_DOMAIN("com.acme", 1)

PANDO_OP_LIBRARY(registry, message) {
  static const pando_attribute_v1 attributes[] = {{"a", PANDO_NUMBER, 0, "the frequency"}};
  pando_op_v1 op = {};
  op.abi_version = PANDO_OP_ABI_VERSION;
  op.name = "Snake";
  op.doc = "x + sin(a x)^2 / a of a float32 input.";
  op.min_inputs = op.max_inputs = op.max_outputs = 1;
  op.attributes = attributes;
  op.num_attributes = 1;
  op.infer = infer;
  op.compute = compute;
  op.gradient = gradient;
  if (registry->add(registry->state, &op) != 0) return 1;

  op.name = "SnakeInplace";
  op.doc = "Snake that overwrites its input.";
  op.num_in_place = 1;
  op.gradient = nullptr;
  (void)message;
  return registry->add(registry->state, &op);
}
