#include "pando/compile/function_lowering.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "pando/base/error.hpp"
#include "pando/compile/product_inputs.hpp"

namespace pando {
namespace {

constexpr int kForever = std::numeric_limits<int>::max();
constexpr std::int32_t kNoDevice = -1;

std::string source_location_text(const Op& op) {
  const SourceLocation& at = op.context.location;
  return at.known() ? str_cat(at.file, ":", at.line) : std::string();
}

}  // namespace

FunctionLowering::FunctionLowering(ProgramLowering& program, const Graph& graph,
                                   const Placements& placements, std::vector<bool> writable,
                                   std::optional<ExecutionContext> part, std::optional<int> carried)
    : program_(program),
      graph_(graph),
      placements_(placements),
      writable_(std::move(writable)),
      part_(part),
      carried_(carried) {}

Function FunctionLowering::run(MemoryReport& report) {
  std::vector<ExecutionStep> steps = form_steps(graph_, placements_);
  absorb_products(steps, graph_, placements_);
  find_last_steps(steps);
  bind_inputs();
  bind_outputs();
  place_copied_results(steps);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (part_ && steps[i].ops.front()->context.execution != *part_) continue;
    if (!elided_copies_.contains(steps[i].ops.front())) lower_step(steps[i], static_cast<int>(i));
  }
  copy_outputs();
  if (program_.prefetch_bytes_ > 0) overlap_remote_loads();
  use_loads_in_place();
  return resolve(report);
}

void FunctionLowering::find_last_steps(const std::vector<ExecutionStep>& steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const auto* ops : {&steps[i].ops, &steps[i].products}) {
      for (const Op* op : *ops) {
        for (const Tensor* input : op->inputs()) {
          if (input != nullptr) last_step_[placements_.of(input).root] = static_cast<int>(i);
        }
      }
    }
  }
  for (const Tensor* output : graph_.outputs()) last_step_[placements_.of(output).root] = kForever;
  for (const Tensor* root : program_.shared_roots_) last_step_[root] = kForever;
}

void FunctionLowering::bind_inputs() {
  const std::vector<bool>& written = program_.written_inputs(graph_);
  for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
    const Tensor* input = graph_.inputs()[i];
    Storage storage;
    storage.kind = StorageKind::Argument;
    storage.slot = static_cast<std::int32_t>(i);
    storage.bytes = static_cast<std::int64_t>(input->info.bytes());
    storage.named_after = input;
    storages_.push_back(storage);
    const int argument = static_cast<int>(storages_.size()) - 1;
    set_storage(input, argument);
    if (!written[i] || writable_[i]) continue;
    // Passed by value and written here: work on a copy.
    const int local = new_storage(storage.bytes, input->name(), nullptr);
    const OperandDesc desc = OperandDesc::contiguous(input->dtype(), input->shape());
    emit_copy({{argument, 0}, desc}, {{local, 0}, desc}, nullptr);
    set_storage(input, local);
  }
}

void FunctionLowering::bind_outputs() {
  std::set<const Tensor*> bound;
  for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
    const Tensor* output = graph_.outputs()[i];
    const Placement& placement = placements_.of(output);
    if (placement.root->producer() == nullptr || !placement.covers_root(*output)) continue;
    if (!bound.insert(placement.root).second) continue;
    Storage storage;
    storage.kind = StorageKind::Argument;
    storage.slot = static_cast<std::int32_t>(graph_.inputs().size() + i);
    storage.bytes = static_cast<std::int64_t>(output->info.bytes());
    storage.named_after = output;
    storages_.push_back(storage);
    set_storage(placement.root, static_cast<int>(storages_.size()) - 1);
  }
}

void FunctionLowering::copy_outputs() {
  for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
    const Tensor* output = graph_.outputs()[i];
    const auto slot = static_cast<std::int32_t>(graph_.inputs().size() + i);
    const Storage& current =
        storages_[static_cast<std::size_t>(storage_of(placements_.of(output).root))];
    if (current.kind == StorageKind::Argument && current.slot == slot) continue;
    Storage storage;
    storage.kind = StorageKind::Argument;
    storage.slot = slot;
    storage.bytes = static_cast<std::int64_t>(output->info.bytes());
    storage.named_after = output;
    storages_.push_back(storage);
    const int target = static_cast<int>(storages_.size()) - 1;
    emit_copy(bind(output),
              {{target, 0}, OperandDesc::contiguous(output->dtype(), output->shape())}, nullptr);
  }
}

void FunctionLowering::lower_step(const ExecutionStep& step, int index) {
  if (step.pointwise) return lower_fused(step, index);
  const Op& op = *step.ops.front();
  if (lower_special(op)) return;
  if (op.def().view) return lower_view_copy(op);
  lower_kernel_op(op, index);
}

int FunctionLowering::new_storage(std::int64_t bytes, std::string name, const Op* op) {
  Storage storage;
  storage.bytes = bytes;
  storage.name = std::move(name);
  storage.origin = op;
  storages_.push_back(std::move(storage));
  return static_cast<int>(storages_.size()) - 1;
}

int FunctionLowering::storage_of(const Tensor* root) {
  if (const int known = storage_of_.at(root); known >= 0) return known;
  const bool shared = std::find(program_.shared_roots_.begin(), program_.shared_roots_.end(),
                                root) != program_.shared_roots_.end();
  const int index =
      new_storage(static_cast<std::int64_t>(root->info.bytes()), "", root->producer());
  storages_.back().named_after = root;
  if (root->producer() == nullptr || shared) {
    storages_.back().kind = StorageKind::Global;
    storages_.back().global_offset = program_.global_offset(*root);
  }
  set_storage(root, index);
  return index;
}

void FunctionLowering::set_storage(const Tensor* root, int storage) {
  storage_of_[root] = storage;
  storages_[static_cast<std::size_t>(storage)].occupant = root;
}

FunctionLowering::SymbolicOperand FunctionLowering::operand_of(const Tensor* tensor) {
  const Placement& placement = placements_.of(tensor);
  const auto bytes = static_cast<std::int64_t>(dtype_bytes(tensor->dtype()));
  return {storage_of(placement.root), placement.view.offset * bytes};
}

FunctionLowering::BoundTensor FunctionLowering::bind(const Tensor* tensor) {
  const Placement& placement = placements_.of(tensor);
  return {operand_of(tensor), {tensor->dtype(), placement.view.shape, placement.view.strides}};
}

FunctionLowering::BoundTensor FunctionLowering::temporary_like(const TensorInfo& info,
                                                               const std::string& name,
                                                               const Op* op) {
  const int storage = new_storage(static_cast<std::int64_t>(info.bytes()), name, op);
  return {{storage, 0}, OperandDesc::contiguous(info.dtype, info.shape)};
}

FunctionLowering::BoundTensor FunctionLowering::bind_contiguous(const Tensor* tensor,
                                                                const Op* op) {
  BoundTensor bound = bind(tensor);
  if (bound.desc.is_contiguous()) return bound;
  BoundTensor copy = temporary_like(tensor->info, tensor->name() + " (contiguous)", op);
  emit_copy(bound, copy, op);
  return copy;
}

void FunctionLowering::emit(PendingInstruction pending, const Op* op) {
  pending.instruction.device = op == nullptr ? kNoDevice : program_.device_index(*op);
  if (op != nullptr) pending.instruction.source = program_.source_index(*op);
  pending_.push_back(std::move(pending));
}

void FunctionLowering::emit_kernel(const KernelSpec& spec, std::vector<SymbolicOperand> operands,
                                   const Op* op) {
  const bool is_op = op != nullptr && op->kind() == spec.kind;
  const InputSet modified = is_op ? op->modified_inputs() : InputSet();
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    operands[i].read_only = !modified.contains(static_cast<int>(i));
  }
  emit_prepared(program_.prepared_kernel(spec, op), spec.kind, std::move(operands), op);
}

/// `kind`: what the kernel is called in reports.
void FunctionLowering::emit_prepared(const PreparedKernel& kernel, const std::string& kind,
                                     std::vector<SymbolicOperand> operands, const Op* op) {
  PendingInstruction pending;
  pending.instruction.kind = Instruction::Kind::Kernel;
  pending.instruction.target = kernel.index;
  pending.operands = std::move(operands);
  if (kernel.scratch_bytes > 0) {
    const auto bytes = static_cast<std::int64_t>(kernel.scratch_bytes);
    pending.operands.push_back({new_storage(bytes, kind + " scratch", op), 0});
  }
  emit(std::move(pending), op);
}

void FunctionLowering::emit_copy(const BoundTensor& from, const BoundTensor& to, const Op* op) {
  KernelSpec spec;
  spec.kind = "Copy";
  spec.inputs = {from.desc};
  spec.outputs = {to.desc};
  emit_kernel(spec, {from.operand, to.operand}, op);
}

void FunctionLowering::find_lifetimes() {
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    const int time = static_cast<int>(i);
    const auto touch = [&](int storage) {
      if (storage < 0) return;
      Storage& s = storages_[static_cast<std::size_t>(storage)];
      if (s.first < 0) {
        s.first = time;
        s.device = pending_[i].instruction.device;
      }
      s.shared = s.shared || s.device != pending_[i].instruction.device;
      s.last = time;
    };
    for (const SymbolicOperand& operand : pending_[i].operands) touch(operand.storage);
    touch(pending_[i].callee_frame);
  }
}

/// What goes from one device to another stays until its device makes the next such storage: so two
/// take turns, and the device may go on while the other one has not taken the last.
void FunctionLowering::keep_shared_storages() {
  std::map<std::pair<std::int32_t, std::int64_t>, std::vector<Storage*>> rows;
  for (Storage& s : storages_) {
    const bool local = s.kind == StorageKind::Local && s.first >= 0;
    if (local && s.shared) rows[{s.device, s.bytes}].push_back(&s);
  }
  for (auto& [key, row] : rows) {
    // Of those that begin together, the one made first: both stand in storages_.
    std::sort(row.begin(), row.end(), [](const Storage* a, const Storage* b) {
      return std::pair(a->first, a) < std::pair(b->first, b);
    });
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      row[i]->last = std::max(row[i]->last, row[i + 1]->first);
    }
  }
}

OperandRef FunctionLowering::reference(const SymbolicOperand& operand) const {
  if (operand.storage < 0) return {};
  const std::int32_t row = storages_[static_cast<std::size_t>(operand.storage)].row;
  if (row >= 0) return {OperandRef::Space::Row, row, operand.offset};
  return own_place(operand);
}

OperandRef FunctionLowering::own_place(const SymbolicOperand& operand) const {
  const Storage& s = storages_[static_cast<std::size_t>(operand.storage)];
  using Space = OperandRef::Space;
  switch (s.kind) {
    case StorageKind::Argument:
      return {Space::Argument, s.slot, operand.offset};
    case StorageKind::Global:
      return {Space::Global, 0, s.global_offset + operand.offset};
    case StorageKind::Local:
      break;
  }
  return {Space::Frame, 0, s.frame_offset + operand.offset};
}

std::vector<std::int32_t> FunctionLowering::assign_devices() {
  std::set<std::int32_t> devices;
  for (PendingInstruction& pending : pending_) {
    const auto of_instruction = program_.devices_of_instruction(pending.instruction);
    if (of_instruction.front() == kNoDevice) continue;
    pending.instruction.device = of_instruction.front();
    devices.insert(of_instruction.begin(), of_instruction.end());
  }
  if (devices.empty()) devices.insert(0);
  for (PendingInstruction& pending : pending_) {
    if (pending.instruction.device == kNoDevice) pending.instruction.device = *devices.begin();
  }
  return {devices.begin(), devices.end()};
}

/// Each device has a part of the frame of its own: a storage takes the place of another one only if
/// the same device used that first, so that devices seldom wait for memory.
MemoryPlan FunctionLowering::plan_devices(const std::vector<Storage*>& planned,
                                          std::size_t num_devices) const {
  const int num_instructions = static_cast<int>(pending_.size());
  MemoryPlan whole;
  whole.offsets.resize(planned.size());
  whole.timeline.resize(pending_.size());
  for (std::size_t device = 0; device < num_devices; ++device) {
    std::vector<Lifetime> lifetimes;
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < planned.size(); ++i) {
      const Storage& s = *planned[i];
      if (static_cast<std::size_t>(s.device) != device) continue;
      lifetimes.push_back({s.bytes, s.first, s.last});
      indices.push_back(i);
    }
    const MemoryPlan plan = plan_memory(lifetimes, num_instructions);
    for (std::size_t k = 0; k < indices.size(); ++k) {
      whole.offsets[indices[k]] = whole.total_bytes + plan.offsets[k];
    }
    for (std::size_t i = 0; i < plan.timeline.size(); ++i) whole.timeline[i] += plan.timeline[i];
    whole.total_bytes += plan.total_bytes;
    whole.lower_bound_bytes += plan.lower_bound_bytes;
  }
  return whole;
}

std::vector<Access> FunctionLowering::accesses_of(const PendingInstruction& pending) const {
  using Kind = AccessSpace::Kind;
  std::vector<Access> accesses;
  const auto touch = [&](int storage, bool write) {
    if (storage < 0) return;
    const Storage& s = storages_[static_cast<std::size_t>(storage)];
    switch (s.kind) {
      case StorageKind::Local:
        accesses.push_back({{Kind::Frame}, s.frame_offset, s.frame_offset + s.bytes, write});
        break;
      case StorageKind::Argument:
        accesses.push_back({{Kind::Argument, s.slot}, 0, 1, write});
        break;
      case StorageKind::Global:
        accesses.push_back({{Kind::Global}, s.global_offset, s.global_offset + s.bytes, write});
        break;
    }
  };
  for (const SymbolicOperand& operand : pending.operands) {
    touch(operand.storage, !operand.read_only);
  }
  touch(pending.callee_frame, true);
  for (const AccessSpace& effect : program_.effects_of(pending.instruction)) {
    accesses.push_back({effect});
  }
  return accesses;
}

/// In every other iteration of a loop, a carried input lies where the output of the same number
/// lies in the rest.
std::int32_t FunctionLowering::slot_in_pass(std::int32_t slot, int pass) const {
  const std::int32_t carried = carried_.value_or(0);
  const std::int32_t first_output =
      static_cast<std::int32_t>(graph_.inputs().size()) + kLoopControlOutputs;
  if (pass % 2 == 0) return slot;
  if (slot >= kLoopControlInputs && slot < kLoopControlInputs + carried) {
    return slot - kLoopControlInputs + first_output;
  }
  return slot >= first_output ? slot - first_output + kLoopControlInputs : slot;
}

void FunctionLowering::separate_devices(Function& function) const {
  DeviceStreams streams(function.devices);
  const int passes = carried_.has_value() ? DeviceStreams::kLoopPasses : 1;
  for (int pass = 0; pass < passes; ++pass) {
    streams.begin_pass();
    for (const PendingInstruction& pending : pending_) {
      std::vector<Access> accesses = accesses_of(pending);
      for (Access& access : accesses) {
        if (access.space.kind != AccessSpace::Kind::Argument) continue;
        access.space.index = slot_in_pass(access.space.index, pass);
      }
      streams.add(program_.devices_of_instruction(pending.instruction), accesses);
    }
  }
  function.streams = streams.finish();
  function.carried_signals = streams.carried_signals();
}

Function FunctionLowering::resolve(MemoryReport& report) {
  Function function;
  function.devices = assign_devices();
  find_lifetimes();
  keep_shared_storages();
  std::vector<Storage*> planned;
  for (Storage& s : storages_) {
    if (s.kind == StorageKind::Local && s.first >= 0) planned.push_back(&s);
  }
  const auto num_devices = static_cast<std::size_t>(function.devices.back()) + 1;
  const MemoryPlan plan = plan_devices(planned, num_devices);
  for (std::size_t i = 0; i < planned.size(); ++i) planned[i]->frame_offset = plan.offsets[i];
  function.name = graph_.id();
  function.frame_bytes = plan.total_bytes;
  function.num_arguments =
      static_cast<std::int32_t>(graph_.inputs().size() + graph_.outputs().size());
  fill_report(report, plan, planned);
  report.devices = measure_devices(report, planned);
  if (function.devices.size() > 1) separate_devices(function);
  function.instructions.reserve(pending_.size());
  for (PendingInstruction& pending : pending_) {
    pending.instruction.operands.reserve(pending.operands.size());
    for (const SymbolicOperand& operand : pending.operands) {
      pending.instruction.operands.push_back(reference(operand));
    }
    if (pending.instruction.row >= 0) {
      const std::size_t to = pending.instruction.destination();
      pending.instruction.operands[to] = own_place(pending.operands[to]);
    }
    if (pending.callee_frame >= 0) {
      pending.instruction.callee_frame =
          storages_[static_cast<std::size_t>(pending.callee_frame)].frame_offset;
    }
    function.instructions.push_back(std::move(pending.instruction));
  }
  return function;
}

void FunctionLowering::fill_report(MemoryReport& report, const MemoryPlan& plan,
                                   const std::vector<Storage*>& planned) const {
  report.peak_frame_bytes = plan.total_bytes;
  report.frame_lower_bound_bytes = plan.lower_bound_bytes;
  report.timeline = timeline_with_branches(plan);
  const auto peak = std::max_element(plan.timeline.begin(), plan.timeline.end());
  const int time = static_cast<int>(peak - plan.timeline.begin());
  if (static_cast<std::size_t>(time) < pending_.size()) {
    report.source_at_peak =
        program_.source_at_peak(pending_[static_cast<std::size_t>(time)].instruction);
  }
  std::vector<const Storage*> alive;
  for (const Storage* s : planned) {
    if (s->first <= time && time <= s->last) alive.push_back(s);
  }
  std::sort(alive.begin(), alive.end(),
            [](const Storage* a, const Storage* b) { return a->bytes > b->bytes; });
  LocationTexts locations;
  LiveTensorTable& table = report.alive_at_peak;
  for (const Storage* s : alive) {
    const TextTable::Index name = table.add_text(name_of(*s));
    const TextTable::Index location =
        s->origin == nullptr
            ? table.add_text("")
            : locations.of(*s->origin, [&](std::string_view at) { return table.add_text(at); });
    table.add({s->bytes, name, location, 0});
    if (s->function < 0) continue;
    const LiveTensorTable& inside =
        program_.function_memory_[static_cast<std::size_t>(s->function)].alive_at_peak;
    for (LiveTensor inner : inside.all()) {
      ++inner.depth;
      table.add(inner);
    }
  }
}

std::vector<std::int64_t> FunctionLowering::timeline_with_branches(const MemoryPlan& plan) const {
  std::vector<std::int64_t> timeline;
  for (std::size_t i = 0; i < plan.timeline.size(); ++i) {
    const PendingInstruction* pending = i < pending_.size() ? &pending_[i] : nullptr;
    const bool is_choice = pending != nullptr && pending->callee_frame >= 0 &&
                           pending->instruction.kind == Instruction::Kind::If;
    if (!is_choice) {
      timeline.push_back(plan.timeline[i]);
      continue;
    }
    const Storage& frame = storages_[static_cast<std::size_t>(pending->callee_frame)];
    const std::int64_t outside = plan.timeline[i] - frame.bytes;
    for (const std::int64_t inside :
         program_.function_memory_[static_cast<std::size_t>(frame.function)].timeline) {
      timeline.push_back(outside + inside);
    }
  }
  return timeline;
}

std::string FunctionLowering::name_of(const Storage& storage) {
  return storage.named_after == nullptr ? storage.name : storage.named_after->name();
}

LiveTensor FunctionLowering::live_tensor(const Storage& storage) {
  return {name_of(storage), storage.bytes,
          storage.origin == nullptr ? "" : source_location_text(*storage.origin), 0};
}

}  // namespace pando
