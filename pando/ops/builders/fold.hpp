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

struct FoldAttributes {
  Required<Ints> kernel_size;
  Required<Ints> output_size;
  std::optional<Ints> strides = std::nullopt;
  std::optional<Ints> pads = std::nullopt;
  std::optional<Ints> dilations = std::nullopt;
};
/// col2im. Inputs: 0 t (N, C * elements of the kernel, windows), as Unfold makes it. Attributes:
/// output_size (the spatial dimensions). Attributes: kernel_size, strides, pads (begins, then
/// ends), dilations (default 1, 0, 1). Kernels see all of them. Output (N, C, output_size...): for
/// every element the sum over the windows that cover it.
BuiltOp fold(OpBuilder& builder, Tensor* input0, const FoldAttributes& attributes,
             std::string_view name = {});

struct UnfoldAttributes {
  Required<Ints> kernel_size;
  std::optional<Ints> strides = std::nullopt;
  std::optional<Ints> pads = std::nullopt;
  std::optional<Ints> dilations = std::nullopt;
};
/// im2col. Inputs: 0 t (N, C, spatial...). Attributes: kernel_size, strides, pads (begins, then
/// ends), dilations (default 1, 0, 1). Kernels see all of them. Output (N, C * elements of the
/// kernel, windows): column w holds the elements under window w, channel by channel, 0 outside of
/// t.
BuiltOp unfold(OpBuilder& builder, Tensor* input0, const UnfoldAttributes& attributes,
               std::string_view name = {});

}  // namespace pando::ops
