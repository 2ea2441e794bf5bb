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

struct FillAttributes {
  Required<Ints> shape;
  Required<DType> dtype;
  Required<double> value;
};
/// A new tensor of attributes shape and dtype with every element equal to attribute value. A
/// kernel.
BuiltOp fill(OpBuilder& builder, const FillAttributes& attributes, std::string_view name = {});

struct InitAttributes {
  Required<Ints> shape;
  Required<DType> dtype;
  Required<std::string> init_type;
  std::optional<Ints> meta_shape = std::nullopt;
};
/// A new tensor of attributes shape, dtype and (optional) meta_shape. Attribute init_type: zero, or
/// undef for unspecified contents.
BuiltOp init(OpBuilder& builder, const InitAttributes& attributes, std::string_view name = {});

}  // namespace pando::ops
