// Turns one scheduled graph into a Function of the Program.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "pando/compile/device_streams.hpp"
#include "pando/compile/fused_step_cache.hpp"
#include "pando/compile/fusion_groups.hpp"
#include "pando/compile/memory_plan.hpp"
#include "pando/compile/placement.hpp"
#include "pando/program/backend.hpp"
#include "pando/program/program.hpp"

namespace pando {

/// What a loop's op, and its body, take and give before the values of the user's: an iterator and a
/// condition, and a condition.
inline constexpr int kLoopControlInputs = 2, kLoopControlOutputs = 1;

/// The texts of source locations, each made once. Names of files must stay where they are.
class LocationTexts {
 public:
  /// `add_text`: puts a text into the table that this one belongs to, for its index.
  template <class AddText>
  TextTable::Index of(const Op& op, AddText add_text) {
    const SourceLocation& at = op.context.location;
    const std::pair<std::string_view, int> key =
        at.known() ? std::pair(std::string_view(at.file), at.line) : std::pair("", 0);
    const auto it = known_.find(key);
    if (it != known_.end()) return it->second;
    const TextTable::Index text =
        at.known() ? add_text(str_cat(at.file, ":", at.line)) : add_text("");
    return known_[key] = text;
  }

 private:
  std::map<std::pair<std::string_view, int>, TextTable::Index> known_;
};

/// What all functions of one program share while it is lowered.
class ProgramLowering {
 public:
  /// `prefetch_bytes`: see CompileOptions.
  ProgramLowering(Backend& backend, std::int64_t prefetch_bytes)
      : backend_(backend), prefetch_bytes_(prefetch_bytes) {}

  /// Lowers `ir` (scheduled, expanded) whole. `phases`: those of its ops, in order.
  Program run(const Ir& ir, const std::vector<std::string>& phases);

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
  /// The kernel of `op`; a refusal by the backend names it.
  PreparedKernel prepared_kernel(const KernelSpec& spec, const Op* op);
  int stream_index(const Ir& ir, const Op& op);
  int buffer_index(const Ir& ir, const Op& op);
  int buffer_index(const Ir& ir, std::int64_t id);  // -1: there is none
  int collective_index(const Op& op);
  void add_remote_variables(const Ir& ir);
  int source_index(const Op& op);
  TextTable::Index phase_text(const std::string& phase);
  std::int32_t device_index(const Op& op) const;
  int add_function(Function function, MemoryReport memory);
  /// Streams, buffers, ... that instructions use in a fixed order, callees included.
  std::set<AccessSpace> effects_of(const Instruction& instruction) const;
  std::vector<std::int32_t> devices_of_instruction(const Instruction& instruction) const;

  // lower_device_memory.cpp
  /// Temporaries on the device of what a call, loop or branch calls.
  std::int64_t callee_device_bytes(const Instruction& instruction, std::int32_t device) const;
  std::vector<std::int64_t> persistent_device_bytes() const;
  /// The source of what runs while an instruction needs most on all devices: the instruction, or
  /// what does so in the larger one of the branches that phases go on in.
  std::int32_t source_at_peak(const Instruction& instruction) const;
  /// The same on one device.
  std::int32_t source_at_peak(const Instruction& instruction, std::int32_t device) const;

  Backend& backend_;
  std::int64_t prefetch_bytes_;
  std::int32_t num_transfers_ = 0;  // remote loads in two parts
  std::int32_t num_rows_ = 0;       // loads without a copy
  Program program_;
  std::map<std::pair<const Graph*, std::vector<bool>>, int> functions_;
  std::map<const Kernel*, int> kernels_;
  FusedStepCache fused_steps_;
  std::unordered_map<const Graph*, std::vector<bool>> written_inputs_;
  std::unordered_map<const Tensor*, std::int64_t> globals_;
  std::unordered_map<const Op*, int> sources_;
  LocationTexts source_locations_;
  std::unordered_map<std::string, TextTable::Index> phases_;
  std::vector<std::int64_t> devices_;  // device numbers of the user's program by index
  std::vector<std::set<AccessSpace>> function_effects_;
  std::vector<MemoryReport> function_memory_;  // by function
  std::vector<const Tensor*> shared_roots_;    // live across the parts of the main graph
};

class FunctionLowering {
 public:
  FunctionLowering(ProgramLowering& program, const Graph& graph, const Placements& placements,
                   std::vector<bool> writable, std::optional<ExecutionContext> part,
                   std::optional<int> carried = std::nullopt);

  Function run(MemoryReport& report);

 private:
  enum class StorageKind : std::uint8_t { Local, Argument, Global };
  struct Storage {
    StorageKind kind = StorageKind::Local;
    std::int64_t bytes = 0;
    std::int32_t slot = 0;                // Argument
    std::int64_t global_offset = 0;       // Global
    std::int64_t frame_offset = 0;        // Local, once planned
    const Tensor* named_after = nullptr;  // where `name` is empty
    std::string name;
    const Op* origin = nullptr;
    int function = -1;                 // whose frame it is
    const Tensor* occupant = nullptr;  // the root that it holds, or held last
    int first = -1;
    int last = -1;
    std::int32_t device = 0;  // the first to use it
    bool shared = false;      // another one uses it too
    std::int32_t row = -1;    // Instruction::row of the load that it holds
  };
  struct SymbolicOperand {
    int storage = -1;  // -1: not connected
    std::int64_t offset = 0;
    bool read_only = false;  // the instruction does not write it

    SymbolicOperand as_read_only() const { return {storage, offset, true}; }
  };
  struct PendingInstruction {
    Instruction instruction;
    std::vector<SymbolicOperand> operands;
    int callee_frame = -1;            // storage
    std::optional<std::int64_t> row;  // of a remote transfer, where it is a constant
  };
  /// A tensor as a kernel sees it.
  struct BoundTensor {
    SymbolicOperand operand;
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
  int new_storage(std::int64_t bytes, std::string name, const Op* op);
  SymbolicOperand operand_of(const Tensor* tensor);
  BoundTensor bind(const Tensor* tensor);
  BoundTensor bind_contiguous(const Tensor* tensor, const Op* op);
  void emit(PendingInstruction pending, const Op* op);
  void emit_kernel(const KernelSpec& spec, std::vector<SymbolicOperand> operands, const Op* op);
  void emit_prepared(const PreparedKernel& kernel, const std::string& kind,
                     std::vector<SymbolicOperand> operands, const Op* op);
  void emit_copy(const BoundTensor& from, const BoundTensor& to, const Op* op);
  BoundTensor temporary_like(const TensorInfo& info, const std::string& name, const Op* op);
  void find_lifetimes();
  void keep_shared_storages();
  OperandRef reference(const SymbolicOperand& operand) const;
  /// Of what RemoteLoad fills if the row does not lie in memory, too.
  OperandRef own_place(const SymbolicOperand& operand) const;
  /// Gives instructions that no op asked for (copies of arguments) a device.
  std::vector<std::int32_t> assign_devices();
  MemoryPlan plan_devices(const std::vector<Storage*>& planned, std::size_t num_devices) const;
  std::vector<Access> accesses_of(const PendingInstruction& pending) const;
  std::int32_t slot_in_pass(std::int32_t slot, int pass) const;
  /// What each device runs and waits for. Fills the function's streams and carried signals.
  void separate_devices(Function& function) const;
  Function resolve(MemoryReport& report);
  void fill_report(MemoryReport& report, const MemoryPlan& plan,
                   const std::vector<Storage*>& planned) const;
  std::vector<std::int64_t> timeline_with_branches(const MemoryPlan& plan) const;
  static std::string name_of(const Storage& storage);
  static LiveTensor live_tensor(const Storage& storage);

  // lower_device_memory.cpp
  std::vector<DeviceMemoryUse> measure_devices(const MemoryReport& whole,
                                               const std::vector<Storage*>& planned) const;
  DeviceMemoryUse measure_device(std::int32_t device, const std::vector<Storage*>& planned) const;

  // lower_copied_results.cpp
  bool touches(const ExecutionStep& step, const Tensor* root) const;
  bool writes(const ExecutionStep& step, const Tensor* root) const;
  bool is_made_for_copy(const std::vector<ExecutionStep>& steps, std::size_t copy) const;
  void place_copied_results(const std::vector<ExecutionStep>& steps);

  // lower_kernels.cpp
  FusedStep fused_step(const ExecutionStep& step, int index);
  void lower_fused(const ExecutionStep& step, int index);
  void lower_kernel_op(const Op& op, int index);
  void lower_view_copy(const Op& op);
  KernelSpec kernel_spec(const Op& op);
  SymbolicOperand kernel_input(const Op& op, KernelSpec& spec, int index);
  void reuse_for_single_output(const Op& op, const KernelSpec& spec, int index);
  bool dies_here(const Tensor* tensor, int index) const;
  /// Lets the output take the storage of an input that dies here: `only` that one, if given.
  void reuse_dying_input(const ExecutionStep& step, const Tensor* output, int index,
                         const Tensor* only = nullptr);

  // lower_control.cpp
  bool lower_special(const Op& op);
  void lower_call(const Op& op);
  void lower_loop(const Op& op);
  void lower_if(const Op& op);
  void lower_transfer(const Op& op);
  std::optional<std::int64_t> constant_row(const Tensor* offset) const;
  void lower_print(const Op& op);
  struct Arguments {
    std::vector<SymbolicOperand> operands;
    std::vector<bool> writable;
    std::vector<std::pair<BoundTensor, BoundTensor>> copies_back;
  };
  SymbolicOperand bind_condition(const Op& op, const Arguments& then_arguments,
                                 const Arguments& else_arguments);
  Arguments bind_arguments(const Op& op, const Graph& callee, int first_op_input,
                           int first_graph_input, int count);
  int frame_for(int function, const Op& op);

  // lower_remote_overlap.cpp
  struct EarlyLoad;
  /// Splits remote loads: they start as soon as they may and are waited for when they must be.
  void overlap_remote_loads();
  std::vector<EarlyLoad> find_early_loads() const;
  bool may_start_before(const PendingInstruction& load, const PendingInstruction& other) const;
  bool touches(const PendingInstruction& pending, int storage) const;
  /// Whether `pending` may have `effect` (a RemoteStore; a RemoteLoad is any transfer) on the row
  /// of `load`.
  bool may_transfer_row(const PendingInstruction& pending, const PendingInstruction& load,
                        Instruction::Kind effect) const;
  void split_loads(const std::vector<EarlyLoad>& loads);

  // lower_loads_in_place.cpp
  struct LoadInPlace;
  static bool is_load(const Instruction& instruction);
  static const SymbolicOperand& destination(const PendingInstruction& load);
  std::int64_t loaded_bytes(const Instruction& load) const;
  /// Lets remote rows in memory and arrays of the host be operands, without copies, where nobody
  /// can tell.
  void use_loads_in_place();
  bool may_use_in_place(const LoadInPlace& load, const std::vector<LoadInPlace>& earlier) const;
  std::size_t stored_at(const LoadInPlace& load) const;

  // lower_collectives.cpp
  bool lower_collective(const Op& op);

  ProgramLowering& program_;
  const Graph& graph_;
  const Placements& placements_;
  std::vector<bool> writable_;
  std::optional<ExecutionContext> part_;
  std::optional<int> carried_;  // of a loop's body
  std::vector<Storage> storages_;
  TensorMap<int> storage_of_{-1};
  TensorMap<int> last_step_{-1};
  std::set<const Op*> elided_copies_;  // their source is made where they would put it
  std::vector<PendingInstruction> pending_;
};

}  // namespace pando
