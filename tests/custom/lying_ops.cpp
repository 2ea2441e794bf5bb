// Ops that are registered as they should, and break their promises later.
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "pando_op.h"

namespace {

int32_t scalar(pando_info_v1& output) {
  output.dtype = PANDO_FLOAT32;
  output.rank = 0;
  return 0;
}

using Call = const pando_call_v1*;
using Infos = pando_info_v1*;
using Message = pando_message_v1*;

int32_t sound(Call, Infos outputs, int32_t*, Message) { return scalar(outputs[0]); }
int32_t nothing(Call, Infos, int32_t*, Message) { return 0; }
int32_t fails(Call, Infos, int32_t*, Message message) {
  std::memset(message->text, 'x', message->capacity);  // without an end
  return -4;
}
int32_t throws(Call, Infos, int32_t*, Message) { throw std::runtime_error("thrown by a rule"); }
int32_t negative(Call, Infos outputs, int32_t*, Message) {
  scalar(outputs[0]);
  outputs[0].rank = 2;
  outputs[0].shape[0] = 3;
  outputs[0].shape[1] = -1;
  return 0;
}
int32_t huge(Call, Infos outputs, int32_t*, Message) {
  scalar(outputs[0]);
  outputs[0].rank = 2;
  outputs[0].shape[0] = outputs[0].shape[1] = INT64_MAX / 2;
  return 0;
}
int32_t rank(Call, Infos outputs, int32_t*, Message) {
  scalar(outputs[0]);
  outputs[0].rank = 33;
  return 0;
}
int32_t no_rank(Call, Infos outputs, int32_t*, Message) {
  scalar(outputs[0]);
  outputs[0].rank = -1;
  return 0;
}
int32_t dtype(Call, Infos outputs, int32_t*, Message) {
  scalar(outputs[0]);
  outputs[0].dtype = 1234;
  return 0;
}
int32_t more(Call, Infos outputs, int32_t* count, Message) {
  *count = 2;
  return scalar(outputs[0]);
}
int32_t fewer(Call, Infos, int32_t* count, Message) {
  *count = 0;
  return 0;
}
int32_t below_none(Call, Infos, int32_t* count, Message) {
  *count = -3;
  return 0;
}

int32_t computes(Call call, void*, Message) {
  *static_cast<float*>(call->outputs[0].data) = 1;
  return 0;
}
/// Fails where its input is negative.
int32_t compute_fails(Call call, void*, Message message) {
  const float x = *static_cast<const float*>(call->inputs[0].data);
  *static_cast<float*>(call->outputs[0].data) = x + 1;
  if (x >= 0) return 0;
  std::snprintf(message->text, message->capacity, "cannot take %g \xc3\x28",
                static_cast<double>(x));
  return 7;
}
int32_t compute_throws(Call, void*, Message) {
  throw 3;  // NOLINT(bugprone-std-exception-baseclass): it need not be an exception of C++'s own
}

int32_t negative_scratch(Call, int64_t* bytes, Message) {
  *bytes = -1;
  return 0;
}
int32_t scratch_fails(Call, int64_t*, Message) { return 12; }

using Builder = const pando_builder_v1*;

pando_node gradient_of(Builder b) { return b->output_gradient(b->state, 0); }

int32_t gradient_shape(Call, Builder b, Message) {
  const int64_t shape[] = {1, 1};
  const pando_value_v1 attribute = pando_integers_value("shape", shape, 2);
  const pando_node g = gradient_of(b);
  b->set_input_gradient(b->state, 0, b->make(b->state, "Reshape", &g, 1, &attribute, 1));
  return 0;
}
int32_t gradient_node(Call, Builder b, Message) {
  b->set_input_gradient(b->state, 0, 777);
  return 0;
}
int32_t gradient_input(Call, Builder b, Message) {
  b->set_input_gradient(b->state, 3, gradient_of(b));
  return 0;
}
int32_t gradient_output(Call, Builder b, Message) {
  b->output_gradient(b->state, 5);
  return 0;
}
int32_t gradient_kind(Call, Builder b, Message) {
  const pando_node g = gradient_of(b);
  b->make(b->state, "NoSuchOp", &g, 1, nullptr, 0);
  return 0;
}
int32_t gradient_null(Call, Builder b, Message) {
  b->make(b->state, nullptr, nullptr, 4, nullptr, -2);
  return 0;
}
int32_t gradient_attribute(Call, Builder b, Message) {
  const pando_node g = gradient_of(b);
  const pando_value_v1 attribute = pando_integer_value("no_such_attribute", 3);
  b->make(b->state, "Neg", &g, 1, &attribute, 1);
  return 0;
}
int32_t gradient_in_place(Call, Builder b, Message) {
  const pando_node nodes[] = {gradient_of(b), gradient_of(b)};
  b->make(b->state, "AddLhsInplace", nodes, 2, nullptr, 0);
  return 0;
}
int32_t gradient_fails(Call, Builder, Message message) {
  std::snprintf(message->text, message->capacity, "no gradient today");
  return 9;
}

pando_op_v1 op(const char* name) {
  pando_op_v1 result = {};
  result.abi_version = PANDO_OP_ABI_VERSION;
  result.name = name;
  result.min_inputs = result.max_inputs = result.max_outputs = 1;
  result.infer = sound;
  result.compute = computes;
  return result;
}

}  // namespace

PANDO_OP_LIBRARY(registry, message) {
  (void)message;
  std::vector<pando_op_v1> ops;
  const auto add = [&](const char* name) -> pando_op_v1& { return ops.emplace_back(op(name)); };
  add("LieNothing").infer = nothing;
  add("LieFails").infer = fails;
  add("LieThrows").infer = throws;
  add("LieNegative").infer = negative;
  add("LieHuge").infer = huge;
  add("LieRank").infer = rank;
  add("LieNoRank").infer = no_rank;
  add("LieDtype").infer = dtype;
  add("LieMore").infer = more;
  add("LieFewer").infer = fewer;
  add("LieBelowNone").infer = below_none;
  add("LieInPlace").num_in_place = 1;
  add("ComputeFails").compute = compute_fails;
  add("ComputeThrows").compute = compute_throws;
  add("NegativeScratch").scratch_bytes = negative_scratch;
  add("ScratchFails").scratch_bytes = scratch_fails;
  add("GradientShape").gradient = gradient_shape;
  add("GradientNode").gradient = gradient_node;
  add("GradientInput").gradient = gradient_input;
  add("GradientOutput").gradient = gradient_output;
  add("GradientKind").gradient = gradient_kind;
  add("GradientNull").gradient = gradient_null;
  add("GradientAttribute").gradient = gradient_attribute;
  add("GradientInPlace").gradient = gradient_in_place;
  add("GradientFails").gradient = gradient_fails;
  for (const pando_op_v1& one : ops) {
    if (registry->add(registry->state, &one) != 0) return 1;
  }
  return 0;
}
