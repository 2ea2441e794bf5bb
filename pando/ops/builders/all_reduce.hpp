// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pando/ops/built_op.hpp"

namespace pando::ops {

struct AllReduceAttributes {
  Required<std::string> op;
  Required<Ints> devices;
  Required<std::string> form;
};
/// Output i, on virtual device devices[i]: the reduction (attribute op) of all inputs. Attribute
/// form: 'plain'; 'identical_inputs': the inputs are equal and stay as they are, their gradients
/// are reduced; 'identical_grads': the gradients are equal and stay as they are.
BuiltOp all_reduce(OpBuilder& builder, const std::vector<Tensor*>& inputs,
                   const AllReduceAttributes& attributes, std::string_view name = {});

struct AllReduceGradAttributes {
  Required<std::string> op;
  Required<Ints> devices;
  Required<std::string> form;
};
/// The gradients of the inputs of an AllReduce of the same attributes.
BuiltOp all_reduce_grad(OpBuilder& builder, const std::vector<Tensor*>& inputs,
                        const AllReduceGradAttributes& attributes, std::string_view name = {});

}  // namespace pando::ops
