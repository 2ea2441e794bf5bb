// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/sparse.hpp"

#include <utility>

namespace pando::ops {

BuiltOp coalesce_rows(OpBuilder& builder, Tensor* input0, Tensor* input1,
                      const CoalesceRowsAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "size", attributes.size);
  set_attribute(given, "skip_zero_rows", attributes.skip_zero_rows);
  return build_op(builder, "CoalesceRows", {input0, input1}, std::move(given), name);
}

BuiltOp sparse_accumulate(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                          Tensor* input3, const SparseAccumulateAttributes& attributes,
                          Tensor* input4, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "factor", attributes.factor);
  return build_op(builder, "SparseAccumulate", {input0, input1, input2, input3, input4},
                  std::move(given), name);
}

BuiltOp sparse_adam(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                    Tensor* input3, const SparseAdamAttributes& attributes, Tensor* input4,
                    Tensor* input5, Tensor* input6, Tensor* input7, Tensor* input8, Tensor* input9,
                    Tensor* input10, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  set_attribute(given, "learning_rate", attributes.learning_rate);
  set_attribute(given, "weight_decay", attributes.weight_decay);
  set_attribute(given, "beta1", attributes.beta1);
  set_attribute(given, "beta2", attributes.beta2);
  set_attribute(given, "epsilon", attributes.epsilon);
  set_attribute(given, "skip_zero_rows", attributes.skip_zero_rows);
  set_attribute(given, "coalesced", attributes.coalesced);
  return build_op(builder, "SparseAdam",
                  {input0, input1, input2, input3, input4, input5, input6, input7, input8, input9, input10},
                  std::move(given), name);
}

BuiltOp update_rows(OpBuilder& builder, Tensor* input0, Tensor* input1, Tensor* input2,
                    const UpdateRowsAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "axis", attributes.axis);
  return build_op(builder, "UpdateRows", {input0, input1, input2}, std::move(given), name);
}

}  // namespace pando::ops
