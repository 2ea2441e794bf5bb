#include "pando/program/disassembly.hpp"

#include "pando/base/error.hpp"

namespace pando {
namespace {

std::string place_text(const OperandRef& ref) {
  switch (ref.space) {
    case OperandRef::Space::Frame:
      return str_cat("frame+", ref.offset);
    case OperandRef::Space::Argument:
      return str_cat("arg", ref.slot, "+", ref.offset);
    case OperandRef::Space::Global:
      return str_cat("global+", ref.offset);
    case OperandRef::Space::Row:
      return str_cat("row", ref.slot, "+", ref.offset);
    case OperandRef::Space::None:
      break;
  }
  return "-";
}

/// `frame+64`, on another device than the first `device1 frame+64`.
std::string operand_text(const OperandRef& ref) {
  return ref.device == 0 ? place_text(ref) : str_cat("device", ref.device, " ", place_text(ref));
}

/// `64`, on several devices `64 + 128`.
std::string sizes_text(const std::vector<std::int64_t>& by_device) {
  std::string text;
  for (const std::int64_t bytes : by_device) text += str_cat(text.empty() ? "" : " + ", bytes);
  return text;
}

std::string as_row(const Instruction& load) {
  return load.row < 0 ? "" : str_cat(" as row", load.row);
}

std::string instruction_text(const Program& program, const Instruction& instruction) {
  std::string text = instruction_name(program, instruction);
  for (const OperandRef& ref : instruction.operands) text += " " + operand_text(ref);
  if (instruction.source >= 0) {
    text += str_cat("  ; ", program.sources[static_cast<std::size_t>(instruction.source)].op);
  }
  return text;
}

std::string step_text(const Program& program, const Function& function, const StreamStep& step) {
  switch (step.kind) {
    case StreamStep::Kind::Signal:
      return str_cat("Signal device ", step.index);
    case StreamStep::Kind::Wait:
      return str_cat("Wait for device ", step.index);
    case StreamStep::Kind::Run:
      break;
  }
  return instruction_text(program, function.instructions[static_cast<std::size_t>(step.index)]);
}

}  // namespace

std::string instruction_name(const Program& program, const Instruction& instruction) {
  const auto target = static_cast<std::size_t>(instruction.target);
  switch (instruction.kind) {
    case Instruction::Kind::Kernel:
      return program.kernels[target].kind;
    case Instruction::Kind::Call:
      return "Call " + program.functions[target].name;
    case Instruction::Kind::Loop:
      return str_cat(instruction.ends_early ? "While " : "Loop ", instruction.count, " x ",
                     program.functions[target].name);
    case Instruction::Kind::If:
      return "If " + program.functions[target].name;
    case Instruction::Kind::HostLoad:
      return "HostLoad " + program.streams[target].id + as_row(instruction);
    case Instruction::Kind::HostStore:
      return "HostStore " + program.streams[target].id;
    case Instruction::Kind::RemoteLoad:
      return str_cat("RemoteLoad ", target, as_row(instruction));
    case Instruction::Kind::RemoteStore:
      return str_cat("RemoteStore ", target);
    case Instruction::Kind::RemoteLoadStart:
      return str_cat("RemoteLoadStart ", target, " transfer ", instruction.other_target);
    case Instruction::Kind::RemoteLoadWait:
      return str_cat("RemoteLoadWait ", target, " transfer ", instruction.other_target);
    case Instruction::Kind::Copy:
      return "Copy";
    case Instruction::Kind::Collective: {
      static constexpr const char* kNames[] = {"AllReduce", "ReduceScatter", "AllGather"};
      const CollectiveDesc& collective = program.collectives[target];
      return str_cat(kNames[static_cast<std::size_t>(collective.kind)], " ",
                     reduction_word(collective.reduction), " of ", collective.groups.size,
                     " replicas ", collective.groups.stride, " apart");
    }
    case Instruction::Kind::Send:
      return str_cat("Send ", instruction.other_target, " to device ", instruction.target);
    case Instruction::Kind::Receive:
      return str_cat("Receive ", instruction.other_target, " from device ", instruction.target);
    case Instruction::Kind::Print:
      return "Print " + program.prints[target].title;
    case Instruction::Kind::HostCall:
      return "HostCall " + program.host_calls[target].function;
  }
  return "?";
}

std::string disassemble(const Program& program) {
  std::string text;
  for (const Function& function : program.functions) {
    text += str_cat("function ", function.name, " (", function.num_arguments, " arguments, frame ",
                    sizes_text(function.frame_bytes), " bytes)\n");
    for (const CarriedSignals& signals : function.carried_signals) {
      text += str_cat("  device ", signals.from, " signals device ", signals.to, " ", signals.count,
                      " times for the next iteration\n");
    }
    for (std::size_t d = 0; d < function.streams.size(); ++d) {
      text += str_cat("  device ", function.devices[d], "\n");
      for (const StreamStep& step : function.streams[d]) {
        text += "    " + step_text(program, function, step) + "\n";
      }
    }
    if (!function.streams.empty()) continue;
    for (const Instruction& instruction : function.instructions) {
      text += "  " + instruction_text(program, instruction) + "\n";
    }
  }
  return text;
}

}  // namespace pando
