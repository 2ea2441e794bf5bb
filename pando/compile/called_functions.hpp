// The functions that graphs call.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "pando/compile/program_tables.hpp"
#include "pando/transforms/dependencies.hpp"

namespace pando {

/// The function of `graph` whose arguments in `writable` are written in place (other inputs that
/// the graph writes are copied first). `carried`: of a loop's body, how many outputs of an
/// iteration are inputs of the next one.
struct FunctionRequest {
  const Graph* graph = nullptr;
  std::vector<bool> writable;
  std::optional<int> carried = std::nullopt;

  bool operator==(const FunctionRequest&) const = default;
};

class CalledFunctions {
 public:
  CalledFunctions(StepProgram& steps, ProgramTables& tables) : steps_(steps), tables_(tables) {}
  CalledFunctions(const CalledFunctions&) = delete;
  CalledFunctions& operator=(const CalledFunctions&) = delete;

  /// Lowered on first use, after the functions that it calls: calls may be thousands deep.
  std::int32_t index_of(const FunctionRequest& request);
  /// What `op` calls, in the order of its called graphs.
  std::vector<FunctionRequest> callees_of(const Op& op);
  /// By argument: whether `callee` writes the caller's tensor. Inputs `first_op_input`.. of `op`
  /// are inputs `first_graph_input`.. of `callee`.
  std::vector<bool> written_arguments(const Op& op, const Graph& callee, int first_op_input,
                                      int first_graph_input, int count);
  /// Which inputs the ops of `graph` write.
  const std::vector<bool>& written_inputs(const Graph& graph);
  /// What ops do beside computing: each graph is looked at once for all its callers.
  EffectNames& effects() { return effects_; }

 private:
  void lower(const FunctionRequest& request);
  /// -1: it is not lowered yet.
  std::int32_t known_index(const FunctionRequest& request) const;

  StepProgram& steps_;
  ProgramTables& tables_;
  struct Lowered {
    FunctionRequest request;
    std::int32_t index;
  };
  std::unordered_map<const Graph*, std::vector<Lowered>> functions_;  // few of each graph
  std::unordered_map<const Graph*, std::vector<bool>> written_inputs_;
  EffectNames effects_;
};

}  // namespace pando
