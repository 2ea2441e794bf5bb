// The words of the text form of steps: for its printer and its parser.
#pragma once

#include <string_view>

#include "pando/steps/step_function.hpp"

namespace pando {

// By value of the enum.
inline constexpr std::string_view kStorageWords[] = {"local", "argument", "global"};
inline constexpr std::string_view kStreamWords[] = {"run", "signal", "wait"};
inline constexpr std::string_view kCollectiveWords[] = {"all_reduce", "reduce_scatter",
                                                        "all_gather"};

/// The clauses of an instruction: of fields that mean something else for each kind, the words;
/// empty where the field means nothing. In order: `other_target`, `count`, "carried" and "while"
/// (of a loop) before the operands; after them "in_place" (of kernels), "unsigned" (transfers of
/// remote rows), "constant_row", "frame", "row", "written", "device", "source", each if it is not
/// as by default.
struct StepClauses {
  std::string_view other_target = {};
  std::string_view count = {};
  bool is_transfer = false;
};

constexpr StepClauses clauses_of(Instruction::Kind kind) {
  switch (kind) {
    case Instruction::Kind::Loop:
      return {.count = "times"};
    case Instruction::Kind::If:
      return {.other_target = "else", .count = "then_inputs"};
    case Instruction::Kind::Copy:
      return {.count = "bytes"};
    case Instruction::Kind::RemoteLoadStart:
    case Instruction::Kind::RemoteLoadWait:
      return {.other_target = "transfer", .is_transfer = true};
    case Instruction::Kind::RemoteLoad:
    case Instruction::Kind::RemoteStore:
      return {.is_transfer = true};
    case Instruction::Kind::Send:
    case Instruction::Kind::Receive:
      return {.other_target = "number", .count = "bytes"};
    default:
      return {};
  }
}

}  // namespace pando
