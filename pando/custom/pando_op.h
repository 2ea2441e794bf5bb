/* The C interface between Pando and libraries of users' own ops, version 1.
 *
 * A library is a shared object that includes this header, links nothing of Pando and has one
 * PANDO_OP_LIBRARY. `pando.load_library(path)` in Python, `pando::load_library(path)` in C++ and
 * `pando COMMAND --library PATH ...` load it; docs/guide/own-ops.md shows how to write one.
 *
 * Rules for every callback:
 *   - It may be called from several threads at the same time, for different calls of one op:
 *     replicas, virtual devices and sessions run on threads of their own.
 *   - It returns 0 for success. Any other number is an error; the text written to `message` is then
 *     shown to the user with the op's name, the number and the user's line. The process goes on.
 *   - What it is given by pointer is Pando's and good until it returns.
 *   - No C++ exception should leave it; one that does becomes an error like a number other than 0.
 *
 * Counts, sizes and strides are in elements; bytes are called bytes. */
#ifndef PANDO_OP_H
#define PANDO_OP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PANDO_OP_ABI_VERSION 1

/* Most dimensions of a tensor, inputs, outputs and attributes of an op. */
#define PANDO_OP_MAX_RANK 32
#define PANDO_OP_MAX_INPUTS 1024
#define PANDO_OP_MAX_OUTPUTS 64
#define PANDO_OP_MAX_ATTRIBUTES 256

/* Element types; 0 is none of them. */
enum {
  PANDO_BOOL = 1,
  PANDO_INT8 = 2,
  PANDO_INT16 = 3,
  PANDO_INT32 = 4,
  PANDO_INT64 = 5,
  PANDO_UINT8 = 6,
  PANDO_UINT16 = 7,
  PANDO_UINT32 = 8,
  PANDO_UINT64 = 9,
  PANDO_FLOAT8_143 = 10,
  PANDO_FLOAT8_152 = 11,
  PANDO_FLOAT16 = 12,
  PANDO_FLOAT32 = 13,
  PANDO_FLOAT64 = 14,
  PANDO_COMPLEX64 = 15,
  PANDO_COMPLEX128 = 16,
  PANDO_BFLOAT16 = 17
};

/* Types of attributes; 0: an optional attribute that is not given. */
enum {
  PANDO_FLAG = 1,     /* integer: 0 or 1 */
  PANDO_INTEGER = 2,  /* integer */
  PANDO_NUMBER = 3,   /* number */
  PANDO_TEXT = 4,     /* text, ends with a zero; count, its bytes before that */
  PANDO_DTYPE = 5,    /* integer: an element type */
  PANDO_INTEGERS = 6, /* integers, count */
  PANDO_NUMBERS = 7,  /* numbers, count */
  PANDO_TEXTS = 8     /* text, count: that many texts one behind the other, each ends with a zero */
};

/* What an op promises or asks for: pando_op_v1.flags. */
enum {
  /* Inputs may have any strides. Else every input is C-contiguous, copied if need be. */
  PANDO_OP_ANY_STRIDES = 1,
  /* Runs although nobody uses its outputs, and is never merged with an equal op. */
  PANDO_OP_SIDE_EFFECTS = 2
};

/* Room for the text of an error, ended with a zero: write it with snprintf. */
typedef struct pando_message_v1 {
  char* text;
  size_t capacity;
} pando_message_v1;

/* The value of an attribute; which members count says `type`. */
typedef struct pando_value_v1 {
  const char* name;
  int32_t type;
  int32_t reserved;
  int64_t integer;
  double number;
  const char* text;
  const int64_t* integers;
  const double* numbers;
  int64_t count;
} pando_value_v1;

/* An input or an output. `dtype` 0: an optional input that is not connected. */
typedef struct pando_tensor_v1 {
  void* data; /* host memory, in `compute` only; inputs are not to be written */
  const int64_t* shape;
  const int64_t* strides; /* in elements; 0 repeats; outputs are C-contiguous */
  int32_t rank;
  int32_t dtype;
} pando_tensor_v1;

/* Shape and element type: what a shape rule fills in. */
typedef struct pando_info_v1 {
  int32_t dtype;
  int32_t rank;
  int64_t shape[PANDO_OP_MAX_RANK];
} pando_info_v1;

/* What a callback is called for. */
typedef struct pando_call_v1 {
  void* data;                       /* pando_op_v1.data */
  const pando_value_v1* attributes; /* as declared, in that order */
  const pando_tensor_v1* inputs;
  const pando_tensor_v1* outputs; /* not in `infer` */
  int32_t num_attributes;
  int32_t num_inputs;
  int32_t num_outputs;
  int32_t reserved;
} pando_call_v1;

/* A tensor of the graph that a gradient rule builds; 0: none. */
typedef int32_t pando_node;

/* How a gradient rule builds ops. A function that fails returns 0, and so do all after it; the
 * rule may return then, and the user is told what failed. */
typedef struct pando_builder_v1 {
  void* state; /* first argument of every function */
  /* The value of input or output `index` of the op. */
  pando_node (*input)(void* state, int32_t index);
  pando_node (*output)(void* state, int32_t index);
  /* The gradient that reaches output `index`; 0: none does. */
  pando_node (*output_gradient)(void* state, int32_t index);
  /* Whether the gradient of input `index` is asked for. */
  int32_t (*wants)(void* state, int32_t index);
  /* A new op of any kind (`pando ops` lists them) and its first output. Attributes have names. */
  pando_node (*make)(void* state, const char* kind, const pando_node* inputs, int32_t num_inputs,
                     const pando_value_v1* attributes, int32_t num_attributes);
  /* Output `index` of the op that made `node`. */
  pando_node (*other_output)(void* state, pando_node node, int32_t index);
  /* A constant scalar, which broadcasts. */
  pando_node (*constant)(void* state, double value, int32_t dtype);
  /* Fills `info`; 1 if it could. */
  int32_t (*describe)(void* state, pando_node node, pando_info_v1* info);
  /* Sets the gradient of input `index`: of its shape and element type. 1 if it could. */
  int32_t (*set_input_gradient)(void* state, int32_t index, pando_node gradient);
} pando_builder_v1;

typedef struct pando_attribute_v1 {
  const char* name; /* a C identifier */
  int32_t type;
  int32_t optional; /* 0: must be given */
  const char* doc;  /* may be NULL */
} pando_attribute_v1;

/* An op. Members that are left 0 ask for the least. Names and texts are copied. */
typedef struct pando_op_v1 {
  uint32_t abi_version; /* PANDO_OP_ABI_VERSION */
  uint32_t flags;
  const char* name; /* a C identifier that no other op has */
  const char* doc;  /* one or two sentences with the formula; may be NULL */
  int32_t min_inputs;
  int32_t max_inputs; /* -1: any number */
  int32_t max_outputs;
  /* That many first outputs are the first inputs, overwritten: the op modifies them. `compute` gets
   * one memory for both where that is possible, else two; it reads the input and writes the whole
   * output either way. No other input is the same tensor. */
  int32_t num_in_place;
  const pando_attribute_v1* attributes;
  int32_t num_attributes;
  int32_t reserved;
  void* data; /* handed to every callback */

  /* The shape and dtype rule, called when an op is built: it fills in `outputs`, room for
   * max_outputs, and their number, which is max_outputs before. It also refuses bad inputs. */
  int32_t (*infer)(const pando_call_v1* call, pando_info_v1* outputs, int32_t* num_outputs,
                   pando_message_v1* message);
  /* Optional: bytes of memory that `compute` needs beside, asked once when an op is prepared. */
  int32_t (*scratch_bytes)(const pando_call_v1* call, int64_t* bytes, pando_message_v1* message);
  /* Computes the outputs on host memory. `scratch`: 64-byte aligned, of undefined contents. The
   * processor takes denormal numbers as zeros meanwhile. */
  int32_t (*compute)(const pando_call_v1* call, void* scratch, pando_message_v1* message);
  /* Optional: builds the gradients of the inputs. Not for ops in place. */
  int32_t (*gradient)(const pando_call_v1* call, const pando_builder_v1* builder,
                      pando_message_v1* message);
} pando_op_v1;

/* What registers ops: see PANDO_OP_LIBRARY. */
typedef struct pando_registry_v1 {
  void* state;
  /* 0, or a number to return: Pando knows what was wrong. */
  int32_t (*add)(void* state, const pando_op_v1* op);
} pando_registry_v1;

#define PANDO_OP_EXPORT __attribute__((visibility("default")))
#ifdef __cplusplus
#define PANDO_OP_C extern "C" PANDO_OP_EXPORT
#else
#define PANDO_OP_C PANDO_OP_EXPORT
#endif

/* Once in a library, followed by the body of a function that calls
 * `registry->add(registry->state, &op)` for every op and returns 0, or another number and writes to
 * `message`. Nothing of a library is used unless it returns 0. */
#define PANDO_OP_LIBRARY(registry, message)                                       \
  PANDO_OP_C uint32_t pando_op_abi_version(void);                                 \
  PANDO_OP_C uint32_t pando_op_abi_version(void) { return PANDO_OP_ABI_VERSION; } \
  PANDO_OP_C int32_t pando_register_ops_v1(const pando_registry_v1* registry,     \
                                           pando_message_v1* message);            \
  PANDO_OP_C int32_t pando_register_ops_v1(const pando_registry_v1* registry,     \
                                           pando_message_v1* message)

/* Attributes for pando_builder_v1.make. */
static inline pando_value_v1 pando_integer_value(const char* name, int64_t value) {
  pando_value_v1 result = {name, PANDO_INTEGER, 0, value, 0, NULL, NULL, NULL, 0};
  return result;
}
static inline pando_value_v1 pando_number_value(const char* name, double value) {
  pando_value_v1 result = {name, PANDO_NUMBER, 0, 0, value, NULL, NULL, NULL, 0};
  return result;
}
static inline pando_value_v1 pando_integers_value(const char* name, const int64_t* values,
                                                  int64_t count) {
  pando_value_v1 result = {name, PANDO_INTEGERS, 0, 0, 0, NULL, values, NULL, count};
  return result;
}

/* Once in a library or not at all, outside of functions: the domain of all its ops and its version,
 * from 1 on. `poptorch.custom_op` then finds the ops with these alone. */
#define PANDO_OP_DOMAIN(name, version)                           \
  PANDO_OP_C const char* pando_op_domain_v1(int32_t* number);     \
  PANDO_OP_C const char* pando_op_domain_v1(int32_t* number) {    \
    *number = (version);                                         \
    return (name);                                               \
  }

#ifdef __cplusplus
}
#endif

#endif
