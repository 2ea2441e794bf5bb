// The readable text form of an Ir. See text_parser.hpp for the grammar.
#pragma once

#include <cstddef>
#include <limits>
#include <string>

#include "pando/ir/graph.hpp"

namespace pando {

struct PrintOptions {
  /// Host values of more bytes than this are written as the mark `elided`.
  std::size_t max_data_bytes = std::numeric_limits<std::size_t>::max();
  /// File, line and function of every op.
  bool source_locations = true;
};

/// `ir` as text that `parse_ir` reads back. With the default options nothing is lost.
std::string print_ir(const Ir& ir, const PrintOptions& options = {});

}  // namespace pando
