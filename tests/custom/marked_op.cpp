// An op for tests in Python. Its result says with which MARK it was compiled and which names it
// got: x + MARK, and for each name 100 and its length. It fails for negative numbers.
#include <cstdio>
#include <cstring>
#include "pando_op.h"
static int32_t infer(const pando_call_v1*, pando_info_v1* outputs, int32_t*, pando_message_v1*) {
  outputs[0].dtype = PANDO_FLOAT32;
  outputs[0].rank = 0;
  return 0;
}
static int32_t compute(const pando_call_v1* call, void*, pando_message_v1* message) {
  const float x = *(const float*)call->inputs[0].data;
  *(float*)call->outputs[0].data = x + MARK;
  const char* name = call->attributes[2].text;
  for (int64_t i = 0; i < call->attributes[2].count; ++i, name += strlen(name) + 1)
    *(float*)call->outputs[0].data += 100 + strlen(name);
  if (x >= 0) return 0;
  snprintf(message->text, message->capacity, "%g is negative", x);
  return 42;
}
PANDO_OP_LIBRARY(registry, message) {
  static const pando_attribute_v1 kinds[] = {{"kind", PANDO_DTYPE, 1, nullptr},
                                             {"sizes", PANDO_INTEGERS, 1, nullptr},
                                             {"names", PANDO_TEXTS, 1, nullptr}};
  pando_op_v1 op = {};
  (void)message;
  op.abi_version = PANDO_OP_ABI_VERSION;
  op.name = "Marked";
  op.min_inputs = op.max_inputs = op.max_outputs = 1;
  op.attributes = kinds;
  op.num_attributes = 3;
  op.infer = infer;
  op.compute = compute;
  return registry->add(registry->state, &op);
}
