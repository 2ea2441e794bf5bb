// The command line: looks at programs in the text form (pando/ir/text_parser.hpp).
#pragma once

#include <string>
#include <vector>

namespace pando {

/// Runs one command (`arguments` without the name of the program), with its result on standard
/// output and faults on standard error. Returns the exit status: 0, 1 for a fault, 2 for wrong
/// arguments.
int run_command_line(const std::vector<std::string>& arguments);

}  // namespace pando
