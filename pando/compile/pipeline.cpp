#include "pando/compile/pipeline.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <set>

#include "pando/base/error.hpp"
#include "pando/compile/memory_reports.hpp"
#include "pando/compile/program_lowering.hpp"
#include "pando/compile/resolve_steps.hpp"
#include "pando/compile/schedule.hpp"
#include "pando/compile/step_passes.hpp"
#include "pando/transforms/bands.hpp"
#include "pando/transforms/cse.hpp"
#include "pando/transforms/dead_code.hpp"
#include "pando/transforms/inline_calls.hpp"
#include "pando/transforms/pass_registry.hpp"
#ifndef NDEBUG
#include "pando/ir/verifier.hpp"
#include "pando/steps/step_verifier.hpp"
#endif

namespace pando {
namespace {

using Clock = std::chrono::steady_clock;

/// Loads overwrite all of their output: the Init that the user's graph shows before each is not
/// executed.
void disconnect_load_inits(Graph& graph) {
  if (!graph.op_list().any_kind([](const OpDef& def) { return def.ignores_value; })) return;
  for (Op* op : graph.ops()) {
    if (op->def().ignores_value) op->set_input(0, nullptr);
  }
}

/// What runs the main graph has nothing to give it: host data come by streams.
void check_main_graph_has_no_inputs(const Graph& main) {
  if (main.inputs().empty()) return;
  throw Error(str_cat("the main graph must have no inputs; it has '", main.inputs().front()->name(),
                      "': make it a variable, a constant or what a HostLoad reads"));
}

/// Call sites may be made before their arguments are known.
void check_arguments_are_connected(const Graph& graph) {
  if (graph.op_list().num_callers() == 0) return;
  for (const Op* op : graph.ops()) {
    if (op->called_graphs.empty()) continue;
    // A loop makes its own iteration number and condition.
    for (int i = op->def().is_loop ? 2 : 0; i < op->num_inputs(); ++i) {
      if (op->input(i) != nullptr) continue;
      throw Error(str_cat(describe(*op), ": input ", i, " is not connected: give every input of '",
                          op->called_graphs.front()->id(), "' a tensor"));
    }
  }
}

/// Gives the ops of the main program their phases: see program/phases.hpp.
class PhaseNames {
 public:
  explicit PhaseNames(Graph& main) { name(main, ""); }

  /// In the order of the program.
  const std::vector<std::string>& all() const { return all_; }

 private:
  /// `rest`: of what bears no scope and calls nothing.
  void name(Graph& graph, std::string_view rest) {
    if (!named_.insert(&graph).second) return;
    for (Op* op : graph.ops()) {
      const std::string_view id = op->context.name;
      if (const auto scope = id.find('/'); scope != std::string_view::npos) {
        set(*op, id.substr(0, scope));
      } else if (op->kind() == OpKind::If) {
        for (Graph* branch : op->called_graphs) name(*branch, branch->id());
      } else {
        set(*op,
            op->called_graphs.empty() ? rest : std::string_view(op->called_graphs.front()->id()));
      }
    }
  }

  void set(Op& op, std::string_view phase) {
    op.context.phase = {};
    if (phase.empty()) return;
    auto known = known_.find(phase);
    if (known == known_.end()) {
      all_.emplace_back(phase);
      known = known_.emplace(all_.back(), all_.back()).first;
    }
    op.context.phase = known->second;
  }

  std::vector<std::string> all_;
  std::map<std::string, SharedText, std::less<>> known_;
  std::set<const Graph*> named_;
};

template <class Change>
void for_each_graph(Ir& ir, Change change) {
  for (Graph* graph : ir.graphs()) change(*graph);
}

/// Runs the stages: measures each, checks what it made, and tells the caller.
class Stages {
 public:
  Stages(const CompileOptions& options, StageTimes& times) : options_(options), times_(times) {}

  template <class Work>
  void run(const std::string& name, Work work) {
    const auto start = Clock::now();
    work();
    times_.emplace_back(name, std::chrono::duration<double>(Clock::now() - start).count());
  }
  template <class Work>
  void change(const Ir& ir, const std::string& name, Work work) {
    change(ir, name, work, options_.after_stage);
  }
  template <class Work>
  void change(const StepProgram& steps, const std::string& name, Work work) {
    change(steps, name, work, options_.after_steps);
  }

 private:
  template <class Form, class Work, class Tell>
  void change(const Form& form, const std::string& name, Work work, const Tell& tell) {
    run(name, work);
#ifndef NDEBUG
    verify(form, name);
#endif
    if (tell) tell(name, form);
  }

  const CompileOptions& options_;
  StageTimes& times_;
};

/// From a scheduled `ir` over steps to places in memory.
Program lower(const Ir& ir, Target& target, const CompileOptions& options,
              const std::vector<std::string>& phases, Stages& stages) {
  StepProgram steps;
  stages.change(steps, "lower", [&] {
    steps = lower_program(ir, target, options.prefetch_bytes, phases);
    steps.prepares_weights = options.prepares_weights;
  });
  for (const StepPass& pass : all_step_passes()) {
    stages.change(steps, pass.name, [&] { pass.run(steps, target); });
  }
  Program program;
  stages.run("resolve", [&] {
    MemoryReport memory = measure_memory(steps);
    program = resolve(steps);
    program.memory = std::move(memory);
  });
  return program;
}

}  // namespace

Program compile(Ir& ir, Target& target, const CompileOptions& options, StageTimes& times) {
  Stages stages(options, times);
  const auto stage = [&](const std::string& name, auto work) { stages.change(ir, name, work); };
  const auto pass = [&](const char* name) { stage(name, [&] { find_pass(name).run(ir); }); };
  check_main_graph_has_no_inputs(ir.main_graph());
  for_each_graph(ir, check_arguments_are_connected);
  const PhaseNames phases(ir.main_graph());
  ir.main_graph().set_outputs({});  // nothing calls it, so nothing takes them
  // Views of several tensors while every graph has its own names for them.
  pass("concat_views");
  // Before inlining: a copy of a graph for one call goes in the place of the call.
  pass("unused_outputs");
  // Inlining early: it puts each optimizer step next to the gradient it consumes.
  stage("inline_calls", [&] {
    inline_calls(ir);
    for_each_graph(ir, disconnect_load_inits);
  });
  // Dead code before expansion: what does not run need not be able to.
  stage("dead_code", [&] {
    eliminate_dead_code(ir);
    erase_unreachable_graphs(ir);
  });
  // Programs with gradients read the weights, so it finds nothing there.
  if (target.has_kernel("ScaledDotProductAttention")) pass("attention");
  // Where gradients and their updates are in one graph, and before updates are made of other ops.
  if (target.has_kernel("UpdateRows")) pass("sparse_updates");
  pass("expand");
  pass("constant_fold");
  stage("cse", [&] {
    for_each_graph(ir, [&](Graph& graph) {
      eliminate_common_subexpressions(graph, target.most_shared_bytes());
    });
  });
  stage("dead_code", [&] {
    eliminate_dead_code(ir);
    erase_unreachable_graphs(ir);
  });
  pass("elide_identities");
  // Behind dead code, which may be all else that reads a product.
  pass("transposed_products");
  pass("loss_from_scores");
  if (target.has_kernel("ScatterReduce")) pass("scatter_into_sums");
  stage("bands", [&] {
    if (target.skips_outside_bands()) find_bands(ir);
  });
  stage("schedule", [&] { schedule_for_memory(ir); });
  pass("rematerialize");
  for (const MemoryExcess& excess : options.excesses) {
    stage("rematerialize_to_fit", [&] {
      for_each_graph(ir, [&](Graph& graph) { rematerialize(graph, {.excess = &excess}); });
    });
  }
  return lower(ir, target, options, phases.all(), stages);
}

}  // namespace pando
