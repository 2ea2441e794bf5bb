// Ops that use every part of the interface as it is meant.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <vector>

#include "pando_op.h"

namespace {

int32_t like_first(const pando_call_v1* call, pando_info_v1* outputs, int32_t* num_outputs,
                   pando_message_v1*) {
  for (int32_t i = 0; i < *num_outputs; ++i) {
    outputs[i].dtype = call->inputs[0].dtype;
    outputs[i].rank = call->inputs[0].rank;
    std::memcpy(outputs[i].shape, call->inputs[0].shape,
                sizeof(int64_t) * static_cast<size_t>(call->inputs[0].rank));
  }
  return 0;
}

int64_t elements(const pando_tensor_v1& tensor) {
  int64_t count = 1;
  for (int32_t d = 0; d < tensor.rank; ++d) count *= tensor.shape[d];
  return count;
}

/// y[i, j] = x[i, j] by strides; out 1: the strides themselves.
int32_t strided_infer(const pando_call_v1* call, pando_info_v1* outputs, int32_t* num_outputs,
                      pando_message_v1* message) {
  if (call->inputs[0].rank != 2) {
    std::snprintf(message->text, message->capacity, "wanted a matrix");
    return 2;
  }
  like_first(call, outputs, num_outputs, message);
  outputs[1].dtype = PANDO_INT64;
  outputs[1].rank = 1;
  outputs[1].shape[0] = 2;
  return 0;
}

int32_t strided(const pando_call_v1* call, void*, pando_message_v1*) {
  const pando_tensor_v1& x = call->inputs[0];
  const auto* from = static_cast<const float*>(x.data);
  auto* to = static_cast<float*>(call->outputs[0].data);
  for (int64_t i = 0; i < x.shape[0]; ++i) {
    for (int64_t j = 0; j < x.shape[1]; ++j) *to++ = from[i * x.strides[0] + j * x.strides[1]];
  }
  std::memcpy(call->outputs[1].data, x.strides, 2 * sizeof(int64_t));
  return 0;
}

/// Running sum, through scratch.
int32_t scratch_bytes(const pando_call_v1* call, int64_t* bytes, pando_message_v1*) {
  *bytes = elements(call->inputs[0]) * static_cast<int64_t>(sizeof(float));
  return 0;
}

int32_t running_sum(const pando_call_v1* call, void* scratch, pando_message_v1* message) {
  if (reinterpret_cast<uintptr_t>(scratch) % 64 != 0) {
    std::snprintf(message->text, message->capacity, "scratch is not aligned");
    return 3;
  }
  auto* sums = static_cast<float*>(scratch);
  const auto* x = static_cast<const float*>(call->inputs[0].data);
  const int64_t count = elements(call->inputs[0]);
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) sums[i] = sum += x[i];
  std::memcpy(call->outputs[0].data, sums, sizeof(float) * static_cast<size_t>(count));
  return 0;
}

/// What every type of attribute comes to, as float64; -1 for those that are not given.
int32_t told_infer(const pando_call_v1*, pando_info_v1* outputs, int32_t*, pando_message_v1*) {
  outputs[0].dtype = PANDO_FLOAT64;
  outputs[0].rank = 1;
  outputs[0].shape[0] = 8;
  return 0;
}

int32_t told(const pando_call_v1* call, void*, pando_message_v1*) {
  auto* out = static_cast<double*>(call->outputs[0].data);
  for (int32_t i = 0; i < call->num_attributes; ++i) {
    const pando_value_v1& value = call->attributes[i];
    double& told_value = out[i];
    told_value = -1;
    switch (value.type) {
      case PANDO_FLAG:
      case PANDO_INTEGER:
      case PANDO_DTYPE:
        told_value = static_cast<double>(value.integer);
        break;
      case PANDO_NUMBER:
        told_value = value.number;
        break;
      case PANDO_TEXT:
        told_value =
            static_cast<double>(std::strlen(value.text)) * 1000 + static_cast<double>(value.count);
        break;
      case PANDO_INTEGERS:
        told_value = 0;
        for (int64_t k = 0; k < value.count; ++k)
          told_value += static_cast<double>(value.integers[k]);
        break;
      case PANDO_NUMBERS:
        told_value = 0;
        for (int64_t k = 0; k < value.count; ++k) told_value += value.numbers[k];
        break;
      case PANDO_TEXTS: {
        int64_t letters = 0;
        const char* text = value.text;
        for (int64_t k = 0; k < value.count; ++k, text += std::strlen(text) + 1)
          letters += static_cast<int64_t>(std::strlen(text));
        told_value = static_cast<double>(value.count * 1000 + letters);
        break;
      }
      default:
        break;
    }
  }
  return 0;
}

/// a, b = b, a in place; an optional third input is added to both.
int32_t swap(const pando_call_v1* call, void*, pando_message_v1*) {
  const int64_t count = elements(call->inputs[0]);
  const auto* a = static_cast<const float*>(call->inputs[0].data);
  const auto* b = static_cast<const float*>(call->inputs[1].data);
  const bool has_third = call->num_inputs > 2 && call->inputs[2].dtype != 0;
  const auto* more = has_third ? static_cast<const float*>(call->inputs[2].data) : nullptr;
  auto* first = static_cast<float*>(call->outputs[0].data);
  auto* second = static_cast<float*>(call->outputs[1].data);
  for (int64_t i = 0; i < count; ++i) {
    const float x = a[i], y = b[i], plus = more == nullptr ? 0 : more[i];
    first[i] = y + plus;
    second[i] = x + plus;
  }
  return 0;
}

/// What Pando's ops of these names compute, without broadcasting.
int32_t negate(const pando_call_v1* call, void*, pando_message_v1*) {
  const auto* x = static_cast<const float*>(call->inputs[0].data);
  auto* y = static_cast<float*>(call->outputs[0].data);
  for (int64_t i = 0, n = elements(call->inputs[0]); i < n; ++i) y[i] = -x[i];
  return 0;
}

int32_t add(const pando_call_v1* call, void*, pando_message_v1*) {
  const auto* x = static_cast<const float*>(call->inputs[0].data);
  const auto* y = static_cast<const float*>(call->inputs[1].data);
  auto* sum = static_cast<float*>(call->outputs[0].data);
  for (int64_t i = 0, n = elements(call->inputs[0]); i < n; ++i) sum[i] = x[i] + y[i];
  return 0;
}

/// How often it has run, which is its side effect.
std::atomic<int32_t> runs = 0;

int32_t count_infer(const pando_call_v1*, pando_info_v1* outputs, int32_t*, pando_message_v1*) {
  outputs[0].dtype = PANDO_INT32;
  outputs[0].rank = 0;
  return 0;
}

int32_t count(const pando_call_v1* call, void*, pando_message_v1*) {
  const int32_t now = ++runs;
  std::memcpy(call->outputs[0].data, &now, sizeof now);
  return 0;
}

const pando_attribute_v1 kAttributes[] = {
    {"flag", PANDO_FLAG, 1, "a flag"},      {"integer", PANDO_INTEGER, 1, nullptr},
    {"number", PANDO_NUMBER, 1, ""},        {"text", PANDO_TEXT, 1, "a text"},
    {"dtype", PANDO_DTYPE, 1, nullptr},     {"integers", PANDO_INTEGERS, 1, nullptr},
    {"numbers", PANDO_NUMBERS, 1, nullptr}, {"texts", PANDO_TEXTS, 1, nullptr}};

pando_op_v1 op(const char* name, decltype(pando_op_v1::infer) infer,
               decltype(pando_op_v1::compute) compute) {
  pando_op_v1 result = {};
  result.abi_version = PANDO_OP_ABI_VERSION;
  result.name = name;
  result.doc = name;
  result.min_inputs = result.max_inputs = result.max_outputs = 1;
  result.infer = infer;
  result.compute = compute;
  return result;
}

}  // namespace

PANDO_OP_LIBRARY(registry, message) {
  (void)message;
  std::vector<pando_op_v1> ops;
  ops.push_back(op("StridedCopy", strided_infer, strided));
  ops.back().flags = PANDO_OP_ANY_STRIDES;
  ops.back().max_outputs = 2;
  ops.push_back(op("DenseCopy", strided_infer, strided));
  ops.back().max_outputs = 2;
  ops.push_back(op("RunningSum", like_first, running_sum));
  ops.back().scratch_bytes = scratch_bytes;
  ops.push_back(op("Told", told_infer, told));
  ops.back().min_inputs = ops.back().max_inputs = 0;
  ops.back().attributes = kAttributes;
  ops.back().num_attributes = 8;
  ops.push_back(op("SwapInplace", like_first, swap));
  ops.back().min_inputs = 2;
  ops.back().max_inputs = 3;
  ops.back().max_outputs = ops.back().num_in_place = 2;
  ops.push_back(op("LibraryNeg", like_first, negate));
  for (const char* name : {"LibraryAdd", "LibraryAddInplace"}) {
    ops.push_back(op(name, like_first, add));
    ops.back().min_inputs = ops.back().max_inputs = 2;
  }
  ops.back().num_in_place = 1;
  ops.push_back(op("CountRuns", count_infer, count));
  ops.back().min_inputs = ops.back().max_inputs = 0;
  ops.back().flags = PANDO_OP_SIDE_EFFECTS;
  for (const pando_op_v1& one : ops) {
    if (registry->add(registry->state, &one) != 0) return 1;
  }
  return 0;
}
