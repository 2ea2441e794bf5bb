#include "pando/program/check.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "pando/program/check_tables.hpp"

namespace pando {

using namespace program_check;

namespace {

template <class Desc>
std::int64_t loaded_bytes(const Instruction& load, const std::vector<Desc>& all, const char* what) {
  require_index(load.target, all, what);
  const Desc& desc = all[static_cast<std::size_t>(load.target)];
  return checked_bytes(desc.dtype, desc.shape);
}

class FunctionCheck {
 public:
  /// `extents`: by kernel.
  FunctionCheck(const Program& program, const std::vector<std::vector<Extent>>& extents,
                std::size_t index)
      : program_(program), extents_(extents), index_(index), function_(program.functions[index]) {
    for (const Instruction& in : function_.instructions) {
      if (in.row < 0) continue;
      const bool is_host = in.kind == Instruction::Kind::HostLoad;
      require((is_host || in.kind == Instruction::Kind::RemoteLoad) &&
                  static_cast<std::size_t>(in.row) < num_instructions(),
              "a row that nothing loads");
      require(!is_host || !in.writes_row, "an array of the host that is written");
      const std::int64_t bytes = is_host
                                     ? loaded_bytes(in, program_.streams, "stream")
                                     : loaded_bytes(in, program_.remote_buffers, "remote buffer");
      rows_[in.row] = {bytes, in.writes_row};
    }
  }

  void run() const {
    require_sizes(program_, function_.frame_bytes, "the sizes of a frame");
    require(function_.num_arguments >= 0, "a negative number of arguments");
    require(!function_.devices.empty(), "a function on no device");
    for (const std::int32_t device : function_.devices) check_device(device);
    for (const Instruction& in : function_.instructions) check(in);
    const bool streamed = !function_.streams.empty();
    require(!streamed || function_.streams.size() == function_.devices.size(),
            "a function with other streams than devices");
    for (const CarriedSignals& signals : function_.carried_signals) {
      check_device(signals.from);
      check_device(signals.to);
      require(signals.count > 0, "a number of signals below one");
    }
    for (const auto& stream : function_.streams) {
      for (const StreamStep& step : stream) {
        if (step.kind == StreamStep::Kind::Run) {
          require_index(step.index, function_.instructions, "instruction");
        } else {
          check_device(step.index);
        }
      }
    }
  }

 private:
  using Operands = std::vector<OperandRef>;

  void check_device(std::int64_t device) const {
    require(device >= 0 && device < program_.devices, "an unknown device");
  }

  void check_operand(const OperandRef& ref, Extent extent) const {
    using Space = OperandRef::Space;
    if (ref.space == Space::None) return;
    require(ref.offset >= 0 && ref.offset <= kMostBytes, "a negative or huge offset");
    check_device(ref.device);
    if (ref.space == Space::Row) {
      const auto it = rows_.find(ref.slot);
      require(it != rows_.end(), "a row that is not loaded");
      return require(is_inside(ref, extent, it->second.bytes), "an operand outside of its row");
    }
    if (ref.space == Space::Argument) {
      require(ref.slot >= 0 && ref.slot < function_.num_arguments, "an unknown argument");
      return;
    }
    const bool in_frame = ref.space == Space::Frame;
    const auto& sizes = in_frame ? function_.frame_bytes : program_.persistent_bytes;
    require(is_inside(ref, extent, sizes[ref.device]), "an operand outside of its memory");
  }

  /// Other rows may be arrays of the host.
  void require_writable(const OperandRef& ref) const {
    require(ref.space != OperandRef::Space::Row || rows_.at(ref.slot).is_written,
            "a write to a row that is only read");
  }

  static bool is_inside(const OperandRef& ref, Extent extent, std::int64_t size) {
    return ref.offset <= size && extent.end <= size - ref.offset && -extent.begin <= ref.offset;
  }

  void require_operands(const Instruction& in, std::size_t count) const {
    require(in.operands.size() == count, "an instruction with too few or too many operands");
  }

  void check_kernel(const Instruction& in) const {
    require_index(in.target, program_.kernels, "kernel");
    const std::vector<Extent>& extents = extents_[static_cast<std::size_t>(in.target)];
    const std::size_t count = extents.size();
    // One more: scratch.
    if (in.operands.size() != count + 1) require_operands(in, count);
    const std::size_t inputs = program_.kernels[static_cast<std::size_t>(in.target)].inputs.size();
    for (std::size_t i = 0; i < count; ++i) {
      check_operand(in.operands[i], extents[i]);
      if (i >= inputs) require_writable(in.operands[i]);
    }
    if (in.operands.size() > count) check_operand(in.operands[count], {});
  }

  const Function& check_callee(const Instruction& in, std::int32_t target) const {
    require(target >= 0 && target < static_cast<std::int32_t>(index_),
            "a call of a later function");
    const Function& callee = program_.functions[static_cast<std::size_t>(target)];
    require(static_cast<std::int64_t>(in.callee_frames.size()) == program_.devices,
            "a call without a frame for each device");
    for (std::size_t d = 0; d < in.callee_frames.size(); ++d) {
      const std::int64_t offset = in.callee_frames[d];
      require(offset >= 0 && offset <= function_.frame_bytes[d] &&
                  callee.frame_bytes[d] <= function_.frame_bytes[d] - offset,
              "a callee's frame outside of the caller's");
    }
    return callee;
  }

  void check_loop(const Instruction& in) const {
    const Function& body = check_callee(in, in.target);
    const auto operands = static_cast<std::int64_t>(in.operands.size());
    require(in.num_carried >= 0 && in.num_carried <= operands && 3 + 2 * in.num_carried <= operands,
            "a loop with too few operands");
    require(body.num_arguments == operands, "a loop whose body takes other arguments");
    require(in.count >= 0, "a loop with a negative number of iterations");
    require(
        static_cast<std::int64_t>(in.carried_bytes.size()) == (in.ends_early ? in.num_carried : 0),
        "a loop without the sizes of what it carries");
    for (std::size_t k = 0; k < in.carried_bytes.size(); ++k) {
      const std::int64_t bytes = in.carried_bytes[k];
      require(bytes >= 0, "a carried value of a negative size");
      check_operand(in.operands[3 + k], {0, bytes});
      check_operand(in.operands[3 + in.carried_bytes.size() + k], {0, bytes});
    }
    if (!in.ends_early) return;
    require(
        std::find(body.devices.begin(), body.devices.end(), in.other_target) != body.devices.end(),
        "a condition read by a device that runs nothing of the loop");
  }

  void check_branch(const Instruction& in) const {
    const std::int64_t then_arguments = check_callee(in, in.target).num_arguments;
    const std::int64_t else_arguments = check_callee(in, in.other_target).num_arguments;
    require(in.count >= 0 && in.count <= then_arguments, "a branch's number of inputs");
    const std::int64_t outputs = then_arguments - in.count;
    require(else_arguments >= outputs, "a branch's number of outputs");
    const std::int64_t arguments = in.count + else_arguments;
    const auto conditions = static_cast<std::int64_t>(in.operands.size()) - arguments;
    require(conditions == 1 || conditions == num_devices(in), "a branch's number of conditions");
  }

  /// That run a part of a branch.
  std::int64_t num_devices(const Instruction& branch) const {
    std::set<std::int32_t> devices;
    for (const std::int32_t target : {branch.target, branch.other_target}) {
      const auto& of_branch = program_.functions[static_cast<std::size_t>(target)].devices;
      devices.insert(of_branch.begin(), of_branch.end());
    }
    return static_cast<std::int64_t>(devices.size());
  }

  /// Both are there once, the send first.
  void require_sent(const Instruction& receive) const {
    const auto is_send = [&](const Instruction& other) {
      return other.kind == Instruction::Kind::Send && other.other_target == receive.other_target;
    };
    const auto& all = function_.instructions;
    const auto send = std::find_if(all.begin(), all.end(), is_send);
    require(send != all.end() && &*send < &receive &&
                std::count_if(send, all.end(), is_send) == 1 && send->device == receive.target &&
                send->target == receive.device && send->count == receive.count &&
                send->operands == Operands{receive.operands[0]},
            "a receive of what is not sent so");
  }

  template <class Desc>
  void check_transfer(const Instruction& in, const std::vector<Desc>& targets, std::size_t value,
                      const char* what) const {
    require_index(in.target, targets, what);
    require_operands(in, value + 1);
    const Desc& desc = targets[static_cast<std::size_t>(in.target)];
    if (value > 0) check_operand(in.operands[0], {0, sizeof(std::uint32_t)});
    check_operand(in.operands[value], {0, checked_bytes(desc.dtype, desc.shape)});
  }

  std::size_t num_instructions() const {
    std::size_t count = 0;
    for (const Function& function : program_.functions) count += function.instructions.size();
    return count;
  }

  /// A load that has started is waited for once, in the same function.
  void require_waits(const Instruction& start) const {
    const auto same_transfer = [&](const Instruction& other) {
      return other.target == start.target && other.other_target == start.other_target;
    };
    const auto count = [&](Instruction::Kind kind) {
      return std::count_if(
          function_.instructions.begin(), function_.instructions.end(),
          [&](const Instruction& in) { return in.kind == kind && same_transfer(in); });
    };
    require(start.other_target >= 0 &&
                static_cast<std::size_t>(start.other_target) < num_instructions() &&
                count(Instruction::Kind::RemoteLoadStart) == 1 &&
                count(Instruction::Kind::RemoteLoadWait) == 1,
            "a remote load that is not waited for once");
  }

  void check_collective(const Instruction& in) const {
    require_index(in.target, program_.collectives, "collective");
    require_operands(in, 2);
    const CollectiveDesc& desc = program_.collectives[static_cast<std::size_t>(in.target)];
    check_operand(in.operands[0], {0, checked_bytes(desc.dtype, {desc.input_elements})});
    check_operand(in.operands[1], {0, checked_bytes(desc.dtype, {desc.output_elements})});
    require_writable(in.operands[1]);
  }

  void check_host_call(const Instruction& in) const {
    require_index(in.target, program_.host_calls, "host call");
    const HostCallDesc& call = program_.host_calls[static_cast<std::size_t>(in.target)];
    require_operands(in, call.inputs.size() + call.outputs.size());
    for (std::size_t i = 0; i < in.operands.size(); ++i) {
      const bool is_input = i < call.inputs.size();
      const OperandDesc& desc = is_input ? call.inputs[i] : call.outputs[i - call.inputs.size()];
      check_operand(in.operands[i], {0, checked_bytes(desc.dtype, desc.shape)});
      if (!is_input) require_writable(in.operands[i]);
    }
  }

  void check_moved(const Instruction& in, std::size_t operands) const {
    require_operands(in, operands);
    require(in.count >= 0, "a value of a negative size");
    check_device(in.target);
    require(in.other_target >= 0 && static_cast<std::size_t>(in.other_target) < num_instructions(),
            "a number that is not given out");
    for (const OperandRef& ref : in.operands) check_operand(ref, {0, in.count});
  }

  /// The row is what they load: they have a place of their own.
  void require_own_place(const Instruction& load) const {
    require(load.operands.at(load.destination()).space != OperandRef::Space::Row,
            "a load into a row");
  }

  void check(const Instruction& in) const {
    using Kind = Instruction::Kind;
    check_device(in.device);
    if (in.source != -1) require_index(in.source, program_.sources, "source");
    for (const OperandRef& ref : in.operands) check_operand(ref, {});
    switch (in.kind) {
      case Kind::Kernel:
        return check_kernel(in);
      case Kind::Call:
        return require_operands(
            in, static_cast<std::size_t>(check_callee(in, in.target).num_arguments));
      case Kind::Loop:
        return check_loop(in);
      case Kind::If:
        return check_branch(in);
      case Kind::HostLoad:
        check_transfer(in, program_.streams, 0, "stream");
        return require_own_place(in);
      case Kind::HostStore:
        return check_transfer(in, program_.streams, 0, "stream");
      case Kind::RemoteStore:
        return check_transfer(in, program_.remote_buffers, 1, "remote buffer");
      case Kind::RemoteLoadStart:
        require_waits(in);
        [[fallthrough]];
      case Kind::RemoteLoad:
        check_transfer(in, program_.remote_buffers, 1, "remote buffer");
        return require_own_place(in);
      case Kind::RemoteLoadWait:
        return check_transfer(in, program_.remote_buffers, 0, "remote buffer");
      case Kind::Print:
        return check_transfer(in, program_.prints, 0, "print");
      case Kind::Copy:
        require_operands(in, 2);
        require(in.count >= 0, "a copy of a negative size");
        check_operand(in.operands[0], {0, in.count});
        check_operand(in.operands[1], {0, in.count});
        return require_writable(in.operands[1]);
      case Kind::Collective:
        return check_collective(in);
      case Kind::Send:
        return check_moved(in, 1);
      case Kind::Receive:
        check_moved(in, 2);
        require_writable(in.operands[1]);
        return require_sent(in);
      case Kind::HostCall:
        return check_host_call(in);
    }
  }

  const Program& program_;
  const std::vector<std::vector<Extent>>& extents_;
  std::size_t index_;
  const Function& function_;
  struct Row {
    std::int64_t bytes = 0;
    bool is_written = false;
  };
  std::map<std::int32_t, Row> rows_;  // that this function loads
};

void check_rows(const Program& program) {
  std::set<std::int32_t> loaded;
  for (const Function& function : program.functions) {
    for (const Instruction& in : function.instructions) {
      require(in.row < 0 || loaded.insert(in.row).second, "a row that is loaded twice");
    }
  }
}

/// They lie at the start of the frames of their functions.
void check_staged(const Program& program) {
  for (const PersistentTensor& tensor : program.persistent) {
    if (!tensor.is_staged()) continue;
    for (const std::int32_t index : {tensor.make_function, tensor.restore_function}) {
      const Function& function = program.functions[static_cast<std::size_t>(index)];
      require(function.frame_bytes[static_cast<std::size_t>(tensor.device)] >=
                  checked_bytes(tensor.dtype, tensor.shape),
              "a staged tensor outside of a frame");
    }
  }
}

}  // namespace

void check_program(const Program& program) {
  check_tables(program);
  require_index(program.main_function, program.functions, "main function");
  for (const std::int32_t entry : program.entry_functions()) {
    require_index(entry, program.functions, "entry function");
    require(program.functions[static_cast<std::size_t>(entry)].num_arguments == 0,
            "an entry function with arguments");
  }
  const auto check_source = [&](std::int32_t source) {
    if (source != -1) require_index(source, program.sources, "source");
  };
  check_source(program.memory.source_at_peak);
  for (const DeviceMemoryUse& device : program.memory.devices) check_source(device.source_at_peak);
  std::vector<std::vector<Extent>> extents;
  extents.reserve(program.kernels.size());
  for (const KernelSpec& spec : program.kernels) extents.push_back(extents_of(spec));
  for (std::size_t i = 0; i < program.functions.size(); ++i) {
    FunctionCheck(program, extents, i).run();
  }
  check_rows(program);
  check_staged(program);
}

}  // namespace pando
