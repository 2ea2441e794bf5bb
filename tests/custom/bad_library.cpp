// Libraries that must be refused when they are loaded: what is wrong follows from the definition
// that this is compiled with. FAULT_NONE: nothing is.
#include <cstdio>
#include <stdexcept>

#include "pando_op.h"

#if defined(FAULT_NO_SYMBOL)

PANDO_OP_C int32_t something_else(void);
PANDO_OP_C int32_t something_else(void) { return 3; }

#elif defined(FAULT_NO_REGISTRATION)

PANDO_OP_C uint32_t pando_op_abi_version(void);
PANDO_OP_C uint32_t pando_op_abi_version(void) { return PANDO_OP_ABI_VERSION; }

#elif defined(FAULT_WRONG_VERSION)

// Nothing but the version may be asked of a library of another version.
PANDO_OP_C uint32_t pando_op_abi_version(void);
PANDO_OP_C uint32_t pando_op_abi_version(void) { return 99; }
PANDO_OP_C int32_t pando_register_ops_v1(const pando_registry_v1*, pando_message_v1*);
PANDO_OP_C int32_t pando_register_ops_v1(const pando_registry_v1*, pando_message_v1*) {
  __builtin_trap();
}

#else

namespace {

int32_t infer(const pando_call_v1*, pando_info_v1*, int32_t*, pando_message_v1*) { return 0; }
int32_t compute(const pando_call_v1*, void*, pando_message_v1*) { return 0; }
[[maybe_unused]] int32_t gradient(const pando_call_v1*, const pando_builder_v1*,
                                  pando_message_v1*) {
  return 0;
}

[[maybe_unused]] pando_op_v1 sound_op(const char* name) {
  pando_op_v1 op = {};
  op.abi_version = PANDO_OP_ABI_VERSION;
  op.name = name;
  op.min_inputs = op.max_inputs = op.max_outputs = 1;
  op.infer = infer;
  op.compute = compute;
  return op;
}

[[maybe_unused]] const pando_attribute_v1 kTwice[] = {{"a", PANDO_NUMBER, 0, nullptr},
                                                      {"a", PANDO_NUMBER, 0, nullptr}};
[[maybe_unused]] const pando_attribute_v1 kTyped[] = {{"a", 55, 0, nullptr}};
[[maybe_unused]] const pando_attribute_v1 kNamed[] = {{"library_hash", PANDO_TEXT, 0, nullptr}};

[[maybe_unused]] pando_op_v1 bad_op() {
  pando_op_v1 op = sound_op("BadOp");
#if defined(FAULT_TWO_OF_ONE_NAME)
  op.name = "SoundOp";
#elif defined(FAULT_NAME_OF_PANDO)
  op.name = "MatMul";
#elif defined(FAULT_NAME_OF_ANOTHER)
  op.name = "Snake";
#elif defined(FAULT_OP_VERSION)
  op.abi_version = 7;
#elif defined(FAULT_NO_NAME)
  op.name = nullptr;
#elif defined(FAULT_BAD_NAME)
  op.name = "output";
#elif defined(FAULT_NO_RULE)
  op.infer = nullptr;
#elif defined(FAULT_NO_COMPUTE)
  op.compute = nullptr;
#elif defined(FAULT_INPUT_COUNTS)
  op.min_inputs = 3;
#elif defined(FAULT_OUTPUT_COUNTS)
  op.max_outputs = 1000000;
#elif defined(FAULT_IN_PLACE_COUNT)
  op.num_in_place = 2;
#elif defined(FAULT_IN_PLACE_GRADIENT)
  op.num_in_place = 1;
  op.gradient = gradient;
#elif defined(FAULT_FLAGS)
  op.flags = 1u << 30;
#elif defined(FAULT_ATTRIBUTES_NULL)
  op.num_attributes = 2;
#elif defined(FAULT_ATTRIBUTE_TYPE)
  op.attributes = kTyped;
  op.num_attributes = 1;
#elif defined(FAULT_ATTRIBUTE_NAME)
  op.attributes = kNamed;
  op.num_attributes = 1;
#elif defined(FAULT_ATTRIBUTE_TWICE)
  op.attributes = kTwice;
  op.num_attributes = 2;
#endif
  return op;
}

}  // namespace

#if defined(FAULT_NO_DOMAIN)
PANDO_OP_DOMAIN("", 1)
#elif defined(FAULT_DOMAIN_VERSION)
PANDO_OP_DOMAIN("com.\x01", 0)
#endif

PANDO_OP_LIBRARY(registry, message) {
#if defined(FAULT_NO_OPS)
  (void)message;
  return registry == nullptr ? 1 : 0;
#else
  // A library that is refused leaves nothing behind, not even its sound ops.
#if defined(FAULT_NONE)
  const pando_op_v1 sound = sound_op("SoundOfALoadedLibrary");
#else
  const pando_op_v1 sound = sound_op("SoundOp");
#endif
  registry->add(registry->state, &sound);
#if defined(FAULT_REGISTRATION_FAILS)
  std::snprintf(message->text, message->capacity, "no licence \xff for this machine");
  return 5;
#elif defined(FAULT_REGISTRATION_THROWS)
  throw std::runtime_error(message == nullptr ? "" : "thrown by the registration");
#elif defined(FAULT_NONE)
  return message == nullptr ? 1 : 0;
#elif defined(FAULT_NULL_OP)
  (void)message;
  return registry->add(registry->state, nullptr);
#else
  (void)message;
  const pando_op_v1 bad = bad_op();
  // What add returned is not looked at: Pando must know by itself.
  registry->add(registry->state, &bad);
  return 0;
#endif
#endif
}

#endif
