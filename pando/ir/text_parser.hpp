// Reads the text form of an Ir (printed by text_printer.hpp).
//
//   ir      := "pando-ir" 1  "replicas" INT  "transfers" INT
//              "counters" INT INT INT          next op id, tensor suffix, graph suffix
//              { "remote_buffer" INT ":" type "entries" INT }
//              { ("from_host" | "to_host") TEXT }
//              graph { graph }                 the main graph, called "", first
//   graph   := "graph" TEXT ["not_differentiable"] "{" { source } { op } { "output" TEXT } "}"
//   source  := ("input" | "variable" | "constant" | "stream") TEXT ":" type ["by_ref"]
//              ["=" ("hex" TEXT | "elided")]   host bytes in C order
//   op      := KIND "." INT "(" [ input { "," input } ] ")"  [ "{" name "=" value, ... "}" ]
//              "->" "(" [ TEXT ":" type, ... ] ")"
//              ["calls" "[" TEXT, ... "]"] ["after" "[" INT, ... "]"] ["name" TEXT]
//              ["device" (INT | "none")] ["io_tiles"] ["weights_from_host" | "weights_to_host"]
//              ["phase" TEXT] ["repeated"]     of the compiler, as in OpContext
//              ["at" TEXT ":" INT ["in" TEXT]]
//   input   := TEXT | "-"                      "-": not connected
//   type    := shape DTYPE ["meta" shape]      shape as a Python tuple
//   value   := true | false | INT | NUMBER | TEXT | DTYPE | "[" list "]"
//
// TEXT is quoted, with \" \\ and \n. `#` starts a comment that ends with the line.
#pragma once

#include <memory>
#include <string_view>

#include "pando/ir/graph.hpp"

namespace pando {

struct ParseOptions {
  /// Elided host values become zeros. Otherwise they are refused.
  bool zero_elided = false;
};

/// Throws Error naming line, column, what was wanted and what was given. The result obeys the rules
/// of every op (`op_fault`).
std::unique_ptr<Ir> parse_ir(std::string_view text, const ParseOptions& options = {});

}  // namespace pando
