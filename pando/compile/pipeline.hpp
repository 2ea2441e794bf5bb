// The compiler's contents page: from an Ir to a Program.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "pando/ir/graph.hpp"
#include "pando/program/target.hpp"
#include "pando/steps/step_function.hpp"
#include "pando/transforms/rematerialize.hpp"

namespace pando {

/// Seconds by stage, in order.
using StageTimes = std::vector<std::pair<std::string, double>>;

struct CompileOptions {
  /// Called after every stage with its name, for printing and checking.
  std::function<void(const std::string& stage, const Ir& ir)> after_stage = {};
  /// Called in the same way once the program is steps.
  std::function<void(const std::string& stage, const StepProgram& steps)> after_steps = {};
  /// The most bytes of a function's frame that remote loads may occupy before the program's order
  /// asks for them. 0: loads run where they stand.
  std::int64_t prefetch_bytes = 0;
  /// Whether weights that runs only read are kept a second time, as kernels want them.
  bool prepares_weights = true;
  /// For each, products are computed again instead of being kept: first for what the program had
  /// too much without that, then for what was still too much.
  std::vector<MemoryExcess> excesses = {};
};

/// Compiles `ir`, which is changed on the way (pass a clone). Throws Error for an invalid program
/// and NotSupported for what the target cannot run, naming the op and the user's line.
Program compile(Ir& ir, Target& target, const CompileOptions& options, StageTimes& times);

}  // namespace pando
