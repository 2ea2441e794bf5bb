// Reads the text form of steps (printed by step_printer.hpp).
//
//   steps     := "pando-steps" 1 { table } { function }
//   table     := "replicas" INT | "devices" "[" INT, ... "]" | "prefetch" INT
//              | "main" INT | "weights_from_host" INT | "weights_to_host" INT
//              | "weights_unprepared"
//              | "separate_memories" | "persistent_bytes" sizes
//              | "persistent" TEXT ":" type "offset" INT ["device" INT] ["variable"] ["prepared"]
//                ["make" INT ["restore" INT]] settings
//              | ("from_host" | "to_host") TEXT ":" type
//              | "remote_buffer" INT ":" type "entries" INT
//              | "remote_variable" TEXT ":" type "buffer" INT settings
//              | "collective" INT KIND reduction DTYPE INT "to" INT "groups" INT "stride" INT TEXT
//              | "print" INT TEXT ":" type attributes
//              | "kernel" INT KIND attributes operands "to" operands
//                ["products" "[" "(" INT "," INT "," INT ")" ["in" INT], ... "]"]
//                ["scalar" "{" { "%" INT "=" OP "." LANE "(" values ")" ... } "}"]
//              | "source" INT TEXT "at" TEXT "phase" TEXT
//   function  := "function" INT TEXT "inputs" INT "arguments" INT ["carried" INT]
//                ["devices" "[" INT, ... "]"] ["frame" sizes]
//                "{" { storage } { instruction } { stream } { carry } "}"
//   sizes     := INT { "," INT }                                          by device
//   storage   := "storage" "%" INT ("local" | "argument" INT | "global" INT) ":" INT "bytes" TEXT
//                ["at" TEXT] ["read_only"] ["undefined"] ["frame_of" INT] ["row" INT]
//                ["alive" INT "to" INT] ["device" INT] ["shared"] ["offset" INT]
//   instruction := WORD INT { clause } "(" [ operand, ... ] ")" { clause }
//   operand   := ("in" | "out") "%" INT ["[" INT "]"] | "-"     "out": may be written; offset in
//                                                               bytes; "-": not connected
//   stream    := "stream" INT "[" [ ("run" | "signal" | "wait") INT, ... ] "]"
//   carry     := "carry" INT "to" INT "times" INT
//
// Clauses of an instruction are in the order of StepClauses. INT after a table's word is the index
// by which instructions name the entry. `#` starts a comment that ends with the line.
#pragma once

#include <string_view>

#include "pando/steps/step_function.hpp"

namespace pando {

/// Throws Error naming line, column, what was wanted and what was given. The result obeys the rules
/// of step_verifier.hpp.
StepProgram parse_steps(std::string_view text);

/// Whether `text` begins as steps do.
bool is_steps_text(std::string_view text);

}  // namespace pando
