// Turns scheduled graphs into steps: every storage, copy and kernel that they need, without places.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "pando/compile/device_streams.hpp"
#include "pando/compile/fused_step_cache.hpp"
#include "pando/compile/fusion_groups.hpp"
#include "pando/compile/loop_arguments.hpp"
#include "pando/compile/placement.hpp"
#include "pando/program/target.hpp"
#include "pando/steps/step_function.hpp"

namespace pando {

/// The texts of source locations, each made once. Names of files must stay where they are.
class LocationTexts {
 public:
  /// `add_text`: puts a text into the table that this one belongs to, for its index.
  template <class AddText>
  TextTable::Index of(const Op& op, AddText add_text) {
    const SourceLocation& at = op.context.location;
    const Key key = at.known() ? Key(at.file, at.line) : Key("", 0);
    if (last_ != known_.end() && last_->first == key) return last_->second;
    bool is_new = false;
    std::tie(last_, is_new) = known_.try_emplace(key);
    if (is_new)
      last_->second = at.known() ? add_text(str_cat(at.file, ":", at.line)) : add_text("");
    return last_->second;
  }

 private:
  using Key = std::pair<std::string_view, int>;
  std::map<Key, TextTable::Index> known_;
  std::map<Key, TextTable::Index>::iterator last_ = known_.end();  // ops of one line are neighbours
};

/// What all functions of one program share while it is lowered.
class ProgramLowering {
 public:
  /// `prefetch_bytes`: see CompileOptions.
  ProgramLowering(Target& target, std::int64_t prefetch_bytes) : target_(target) {
    steps_.prefetch_bytes = prefetch_bytes;
  }
  ProgramLowering(const ProgramLowering&) = delete;
  ProgramLowering& operator=(const ProgramLowering&) = delete;

  /// Lowers `ir` (scheduled, expanded) whole. `phases`: those of its ops, in order.
  StepProgram run(const Ir& ir, const std::vector<std::string>& phases);

 private:
  friend class FunctionLowering;

  /// The function of `graph` whose arguments in `writable` are written in place (other inputs that
  /// the graph writes are copied first). `carried`: of a loop's body, how many outputs of an
  /// iteration are inputs of the next one.
  struct FunctionRequest {
    const Graph* graph;
    std::vector<bool> writable;
    std::optional<int> carried = std::nullopt;
  };
  /// Lowered on first use, after the functions that it calls: calls may be thousands deep.
  int function_of(const FunctionRequest& request);
  void lower_function(const FunctionRequest& request);
  bool is_lowered(const FunctionRequest& request) const {
    return functions_.contains({request.graph, request.writable});
  }
  /// What `op` calls, in the order of its called graphs.
  std::vector<FunctionRequest> callees_of(const Op& op);
  /// By argument: whether `callee` writes the caller's tensor. Inputs `first_op_input`.. of `op`
  /// are inputs `first_graph_input`.. of `callee`.
  std::vector<bool> written_arguments(const Op& op, const Graph& callee, int first_op_input,
                                      int first_graph_input, int count);
  /// Which inputs the ops of `graph` write.
  const std::vector<bool>& written_inputs(const Graph& graph);
  int lower_main(const Graph& graph, ExecutionContext part);
  std::int64_t global_offset(const Tensor& root);
  /// The kernel of `op`; a refusal by the target names it.
  PreparedKernel prepared_kernel(const KernelSpec& spec, const Op* op);
  int stream_index(const Ir& ir, const Op& op);
  int buffer_index(const Ir& ir, const Op& op);
  int buffer_index(const Ir& ir, std::int64_t id);  // -1: there is none
  int collective_index(const Op& op);
  void add_remote_variables(const Ir& ir);
  int source_index(const Op& op);
  TextTable::Index phase_text(const std::string& phase);
  std::int32_t device_index(const Op& op) const;
  int add_function(StepFunction function);
  TextTable::Index storage_location(const Op& op);

  Target& target_;
  StepProgram steps_;
  Program& program_ = steps_.tables;
  std::map<std::pair<const Graph*, std::vector<bool>>, int> functions_;
  std::map<const Kernel*, int> kernels_;
  FusedStepCache fused_steps_;
  std::unordered_map<const Graph*, std::vector<bool>> written_inputs_;
  std::unordered_map<const Tensor*, std::int64_t> globals_;
  std::unordered_map<const Op*, int> sources_;
  LocationTexts source_locations_;
  LocationTexts storage_locations_;
  std::unordered_map<std::string, TextTable::Index> phases_;
  std::vector<const Tensor*> shared_roots_;  // live across the parts of the main graph
};

class FunctionLowering {
 public:
  FunctionLowering(ProgramLowering& program, const Graph& graph, const Placements& placements,
                   std::vector<bool> writable, std::optional<ExecutionContext> part,
                   std::optional<int> carried = std::nullopt);

  StepFunction run();

 private:
  /// A tensor as a kernel sees it.
  struct BoundTensor {
    StepOperand operand;
    OperandDesc desc;
  };

  // function_lowering.cpp
  void bind_inputs();
  void bind_outputs();
  void copy_outputs();
  void lower_step(const ExecutionStep& step, int index);
  void find_last_steps(const std::vector<ExecutionStep>& steps);
  int storage_of(const Tensor* root);
  void set_storage(const Tensor* root, int storage);
  int add_storage(const Storage& storage);
  int new_storage(std::int64_t bytes, std::string_view name, const Op* op);
  int argument_storage(std::size_t slot, const Tensor* tensor);
  Storage& storage(int index) { return steps_.storages[static_cast<std::size_t>(index)]; }
  StepOperand operand_of(const Tensor* tensor);
  BoundTensor bind(const Tensor* tensor);
  BoundTensor bind_contiguous(const Tensor* tensor, const Op* op);
  void emit(StepInstruction instruction, const Op* op);
  void emit_kernel(const KernelSpec& spec, std::vector<StepOperand> operands, const Op* op);
  void emit_prepared(const PreparedKernel& kernel, const std::string& kind,
                     std::vector<StepOperand> operands, const Op* op);
  void emit_copy(const BoundTensor& from, const BoundTensor& to, const Op* op);
  BoundTensor temporary_like(const TensorInfo& info, const std::string& name, const Op* op);

  // lower_kernels.cpp
  FusedStep fused_step(const ExecutionStep& step, int index);
  void lower_fused(const ExecutionStep& step, int index);
  void lower_kernel_op(const Op& op);
  void lower_view_copy(const Op& op);
  KernelSpec kernel_spec(const Op& op);
  StepOperand kernel_input(const Op& op, KernelSpec& spec, int index);

  // lower_control.cpp
  bool lower_special(const Op& op);
  void lower_call(const Op& op);
  void lower_loop(const Op& op);
  void lower_if(const Op& op);
  void lower_transfer(const Op& op);
  std::optional<std::int64_t> constant_row(const Tensor* offset) const;
  void lower_print(const Op& op);
  struct Arguments {
    std::vector<StepOperand> operands;
    std::vector<bool> writable;
    std::vector<std::pair<BoundTensor, BoundTensor>> copies_back;
  };
  StepOperand bind_condition(const Op& op, const Arguments& then_arguments,
                             const Arguments& else_arguments);
  Arguments bind_arguments(const Op& op, const Graph& callee, int first_op_input,
                           int first_graph_input, int count);
  /// The storage of the frame of what `op` calls: its size is known once frames are planned.
  int new_callee_frame(const Op& op);

  // lower_collectives.cpp
  bool lower_collective(const Op& op);

  ProgramLowering& program_;
  const Graph& graph_;
  const Placements& placements_;
  std::vector<bool> writable_;
  std::optional<ExecutionContext> part_;
  StepFunction steps_;
  TensorMap<int> storage_of_{-1};
  TensorMap<int> last_step_{-1};
};

}  // namespace pando
