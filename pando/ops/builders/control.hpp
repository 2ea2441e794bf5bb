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

struct CallAttributes {
  std::optional<Ints> modified = std::nullopt;
};
/// Runs the called graph. Inputs and outputs are those of the graph, in order. Inputs in attribute
/// modified, and by-reference inputs, are written back.
BuiltOp call(OpBuilder& builder, Graph& graph0, const std::vector<Tensor*>& inputs,
             const CallAttributes& attributes = {}, std::string_view name = {});

struct IfAttributes {
  Required<std::int64_t> num_then_inputs;
};
/// Runs the first called graph if input 0 (bool, one element) is true, else the second. Inputs 1..
/// are those of the first graph (attribute num_then_inputs of them), then those of the second.
BuiltOp conditional(OpBuilder& builder, Graph& graph0, Graph& graph1,
                    const std::vector<Tensor*>& inputs, const IfAttributes& attributes,
                    std::string_view name = {});

struct LoopAttributes {
  Required<std::int64_t> trip_count;
  std::optional<Ints> modified = std::nullopt;
};
/// Runs the called graph attribute trip_count times. Its inputs are the iteration (int32), a
/// condition (bool) and inputs 2.. of the op; its outputs the condition and the values carried to
/// inputs 2.. of the next iteration, which are the outputs of the op. Inputs 0 and 1 are not
/// connected. Inputs in attribute modified, and by-reference inputs, are written back.
BuiltOp loop(OpBuilder& builder, Graph& graph0, const std::vector<Tensor*>& inputs,
             const LoopAttributes& attributes, std::string_view name = {});

struct WhileAttributes {
  std::optional<std::int64_t> max_iterations = std::nullopt;
  std::optional<Ints> history = std::nullopt;
  std::optional<Ints> modified = std::nullopt;
};
/// Runs the called graph while its condition is true: input 1 (bool scalar) says so before the
/// first iteration, output 0 of the graph before each other one. Attribute max_iterations: the most
/// iterations; not given: any number. Inputs and outputs are those of Loop; what is carried is
/// passed by value. With attribute history (carried values by number) more outputs follow: the
/// number of iterations (int32), and for each of those values a row per iteration of what it got,
/// max_iterations of them; rows of iterations that did not run are undefined. Gradients need
/// max_iterations.
BuiltOp while_loop(OpBuilder& builder, Graph& graph0, const std::vector<Tensor*>& inputs,
                   const WhileAttributes& attributes = {}, std::string_view name = {});

}  // namespace pando::ops
