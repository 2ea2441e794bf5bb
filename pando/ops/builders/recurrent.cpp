// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/recurrent.hpp"

#include <utility>

namespace pando::ops {

BuiltOp recurrent_sequence(OpBuilder& builder, Tensor* input0, Tensor* input1,
                           const RecurrentSequenceAttributes& attributes, Tensor* input2,
                           Tensor* input3, Tensor* input4, std::string_view name) {
  Attributes given;
  set_attribute(given, "cell", attributes.cell);
  set_attribute(given, "reverse", attributes.reverse);
  return build_op(builder, "RecurrentSequence", {input0, input1, input2, input3, input4},
                  std::move(given), name);
}

BuiltOp recurrent_sequence_grad(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                                Tensor* input3, Tensor* input4, Tensor* input5, Tensor* input6,
                                Tensor* input7, const RecurrentSequenceGradAttributes& attributes,
                                std::string_view name) {
  Attributes given;
  set_attribute(given, "cell", attributes.cell);
  set_attribute(given, "reverse", attributes.reverse);
  return build_op(builder, "RecurrentSequenceGrad",
                  {input0, input1, input2, input3, input4, input5, input6, input7},
                  std::move(given), name);
}

}  // namespace pando::ops
