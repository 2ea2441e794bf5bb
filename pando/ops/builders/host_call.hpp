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

struct HostCallAttributes {
  Required<std::string> function;
  Required<std::string> output_dtypes;
  Required<Ints> output_ranks;
  Required<Ints> output_sizes;
  std::optional<std::string> gradient = std::nullopt;
};
/// What the host's function called attribute function gives for the inputs. Its outputs have the
/// dtypes of attribute output_dtypes (names, a comma between two), and shapes of as many dimensions
/// as attribute output_ranks says, with the sizes of attribute output_sizes, one output after the
/// other. Attribute gradient: the function that gets the inputs, the outputs and the gradients of
/// the outputs that are floats, and gives the gradients of the inputs that are floats.
BuiltOp host_call(OpBuilder& builder, const std::vector<Tensor*>& inputs,
                  const HostCallAttributes& attributes, std::string_view name = {});

}  // namespace pando::ops
