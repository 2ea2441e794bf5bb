// Running random programs on the engine and on the reference.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "tests/cpp/fuzz/generator.hpp"
#include "tests/oracle/array.hpp"

namespace pando::fuzz {

using Bytes = std::vector<std::byte>;
/// Stream buffers by handle id, variables by tensor id.
using NamedBytes = std::map<std::string, Bytes>;
using Numbers = std::vector<oracle::Number>;

/// What a program gives: per run the elements of its output streams, as a Session takes them; after
/// the last run the variables.
struct Results {
  std::vector<NamedBytes> outputs;
  NamedBytes variables;
};

struct Reference {
  std::vector<std::map<std::string, Numbers>> outputs;
  std::map<std::string, Numbers> variables;
};

/// The reference, with errors (results rounded to their dtypes, sums as float32 may get them) and
/// without: the difference says how far rounding errors are amplified.
struct References {
  Reference rounded;
  Reference unrounded;
};

/// The contents of all input streams for some runs.
std::vector<NamedBytes> random_inputs(const FuzzProgram& program);

/// Runs the program once per entry of `inputs`; its variables are as before afterwards.
/// `num_threads`: per replica.
Results run_engine(const FuzzProgram& program, const std::vector<NamedBytes>& inputs,
                   int num_threads);
References run_reference(const FuzzProgram& program, const std::vector<NamedBytes>& inputs);

/// The first element out of tolerance, as text; empty when there is none.
std::string compare(const FuzzProgram& program, const Results& results, const References& wanted);
/// Names what two results differ in; empty when they are equal to the bit.
std::string bit_difference(const FuzzProgram& program, const Results& a, const Results& b);

/// One line per op, for reading a failing program.
std::string program_text(const FuzzProgram& program);

}  // namespace pando::fuzz
