// The form of a program between graphs and Program: what runs, over storages that passes place.
//
// The compiler writes one StepFunction per scheduled graph, with every copy and every storage that
// it needs. Each pass after that changes one thing (compile/step_passes.hpp lists them), and the
// last one turns storages into places. The text form is in step_printer.hpp, the rules are in
// step_verifier.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pando/base/text_table.hpp"
#include "pando/program/program.hpp"

namespace pando {

/// A piece of memory that the instructions of one function name.
struct Storage {
  enum class Kind : std::uint8_t {
    Local,     // in the function's frame
    Argument,  // what the caller gives as argument `slot`
    Global,    // in persistent memory of the device, at `offset`
  };
  Kind kind = Kind::Local;
  bool is_writable = true;        // not: constants, arguments that belong to the caller
  bool starts_undefined = false;  // the user's program may read it before it is written
  bool is_shared = false;         // several devices use it
  std::int32_t slot = 0;          // Argument
  std::int32_t device = 0;        // in whose memory it lies, once devices are assigned
  std::int32_t row = -1;          // StepInstruction::row of the load that it holds
  std::int32_t callee = -1;       // the function whose frame it is
  std::int32_t first = -1;        // instructions between which it is alive, both included;
  std::int32_t last = -1;         // -1: nothing uses it, or lifetimes are not known yet
  std::int64_t bytes = 0;         // of a callee's frame 0 until frames are planned
  std::int64_t offset = 0;        // Local: in the device's frame, once that is planned; Global
  TextTable::Index name = 0;      // in StepProgram::texts
  TextTable::Index location = 0;  // `file.py:12`, empty when unknown
  bool operator==(const Storage&) const = default;

  bool is_alive_at(std::int32_t instruction) const {
    return first <= instruction && instruction <= last;
  }
};

/// Where an operand begins: `offset` bytes into a storage.
struct StepOperand {
  std::int32_t storage = -1;  // -1: not connected
  bool read_only = false;     // the instruction does not write it
  std::int64_t offset = 0;
  bool operator==(const StepOperand&) const = default;

  StepOperand as_read_only() const { return {storage, true, offset}; }
};

/// An Instruction whose operands have no places yet; fields of the same names mean the same.
struct StepInstruction {
  Instruction::Kind kind = Instruction::Kind::Kernel;
  bool writes_row = false;
  std::int32_t target = 0;
  std::int32_t other_target = 0;
  std::vector<StepOperand> operands;
  /// Output `in_place_output` of a kernel that is not Fused may be written over these inputs (same
  /// layout).
  std::vector<std::int32_t> in_place;
  std::int32_t in_place_output = 0;
  /// Storages, one for each device on which what is called needs a frame.
  std::vector<std::int32_t> callee_frames;
  std::int32_t row = -1;
  std::int64_t count = 0;
  std::int64_t num_carried = 0;
  bool ends_early = false;
  /// The row of a remote transfer, where it is a constant.
  std::optional<std::int64_t> constant_row;
  std::int32_t source = -1;
  std::int32_t device = -1;  // -1: not known yet
  bool operator==(const StepInstruction&) const = default;

  bool is_load() const {
    return kind == Instruction::Kind::HostLoad || kind == Instruction::Kind::RemoteLoad;
  }
  bool is_call() const {
    return kind == Instruction::Kind::Call || kind == Instruction::Kind::Loop ||
           kind == Instruction::Kind::If;
  }
  /// HostLoad, RemoteLoad and RemoteLoadStart fill this operand.
  const StepOperand& destination() const {
    return operands[kind == Instruction::Kind::HostLoad ? 0 : 1];
  }
  /// Whether an operand or a frame of the callee is in `storage`.
  bool touches(std::int32_t storage) const;
};

struct StepFunction {
  std::string name;
  std::int32_t num_inputs = 0;  // arguments that the graph takes; the others it returns
  std::int32_t num_arguments = 0;
  /// A loop's body says how many outputs of an iteration are inputs of the next one.
  std::optional<std::int32_t> num_carried;
  std::vector<Storage> storages;
  /// In an order that one device alone could run them in.
  std::vector<StepInstruction> instructions;
  /// Those that run instructions, ascending; empty until they are assigned.
  std::vector<std::int32_t> devices;
  /// By device of the program: own storages and frames of what is called. Empty until planned.
  std::vector<std::int64_t> frame_bytes;
  // As in Function, once devices are separated.
  std::vector<std::vector<StreamStep>> streams;
  std::vector<CarriedSignals> carried_signals;
  bool operator==(const StepFunction&) const = default;

  bool is_planned() const { return !frame_bytes.empty(); }
  Storage& storage_of(const StepOperand& operand) {
    return storages[static_cast<std::size_t>(operand.storage)];
  }
  const Storage& storage_of(const StepOperand& operand) const {
    return storages[static_cast<std::size_t>(operand.storage)];
  }
};

struct StepProgram {
  /// What instructions name by index: kernels, streams, sources, ... Without functions and memory.
  Program tables;
  /// Whatever a function calls stands before it.
  std::vector<StepFunction> functions;
  /// Virtual devices of the user's program by index.
  std::vector<std::int64_t> device_numbers = {0};
  /// Whether kernels of one device may use memory of another one: see Target.
  bool devices_share_memory = true;
  /// See CompileOptions.
  std::int64_t prefetch_bytes = 0;
  bool prepares_weights = true;
  /// Names and source locations of storages. Text 0 is empty.
  TextTable texts;

  StepProgram() { texts.add(""); }
  std::string_view name_of(const Storage& storage) const { return texts[storage.name]; }
  std::string_view location_of(const Storage& storage) const { return texts[storage.location]; }
};

/// `kernel`, `call`, ...: the word of the text form.
std::string_view step_word(Instruction::Kind kind);

}  // namespace pando
