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

struct CheckRangeAttributes {
  Required<std::int64_t> low;
  Required<std::int64_t> end;
  Required<std::string> what;
};
/// The value of input 0, an int32 scalar. A run in which it is below attribute low, or attribute
/// end or more, stops with an error that names attribute what.
BuiltOp check_range(OpBuilder& builder, Tensor* input0, const CheckRangeAttributes& attributes,
                    std::string_view name = {});

struct PrintTensorAttributes {
  Required<std::string> title;
  Required<bool> print_self;
  Required<bool> print_gradient;
  Required<std::int64_t> summarise_threshold;
  Required<std::int64_t> edge_items;
  Required<std::int64_t> max_line_width;
  Required<std::int64_t> digits;
  Required<std::string> float_format;
  Required<std::string> separator;
  Required<std::string> open_bracket;
  Required<std::string> close_bracket;
};
/// The value of input 0; prints it to standard error with attribute title every time it runs if
/// attribute print_self is set. The gradient does so under the title with '_gradient' if attribute
/// print_gradient is set. The others describe the text: summarise_threshold, edge_items,
/// max_line_width, digits, float_format (auto, fixed, scientific, none), separator, open_bracket,
/// close_bracket (one character each).
BuiltOp print_tensor(OpBuilder& builder, Tensor* input0, const PrintTensorAttributes& attributes,
                     std::string_view name = {});

}  // namespace pando::ops
