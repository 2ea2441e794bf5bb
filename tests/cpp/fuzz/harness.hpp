// Running random programs on the engine and on the reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pando/runtime/world.hpp"
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
  /// Rounded as well, with sums that are exact before. Where a sum is a tie of float16, its error
  /// decides how it is rounded, and by chance to what the unrounded reference has.
  std::optional<Reference> exact_sums;
};

/// Which references a comparison has: all cost half as much again, and few programs need them.
enum class ReferenceSet { Two, All };

/// The contents of all input streams for some runs.
std::vector<NamedBytes> random_inputs(const FuzzProgram& program);

struct EngineSettings {
  int num_threads = 1;  // per replica
  std::string device = "cpu";
  std::string cache_folder = {};
  bool cached = false;  // the program must come from the cache folder
  /// Where remote buffers are kept in files; empty: they are in memory.
  std::string remote_folder = {};
  /// The session's world, with one local replica: the results are those of that one.
  WorldFactory world = {};
};

/// Runs the program once per entry of `inputs`, which are those of all replicas; its variables are
/// as before afterwards.
Results run_engine(const FuzzProgram& program, const std::vector<NamedBytes>& inputs,
                   const EngineSettings& settings);
/// What `replica` alone would give, of results of all replicas.
Results part_of_replica(const FuzzProgram& program, const Results& results, int replica);
References run_reference(const FuzzProgram& program, const std::vector<NamedBytes>& inputs,
                         ReferenceSet set = ReferenceSet::Two);

/// The first element out of tolerance, as text; empty when there is none.
std::string compare(const FuzzProgram& program, const Results& results, const References& wanted);
/// Names what two results differ in; empty when they are equal to the bit.
std::string bit_difference(const FuzzProgram& program, const Results& a, const Results& b);

/// Puts every op on one of `devices` virtual devices.
void place_at_random(const FuzzProgram& program, int devices);
/// Whether random_pipeline makes the program of `seed` in tests, else random_program.
bool is_pipeline(std::uint64_t seed);
/// The seeds of a test's random programs: from PANDO_FUZZ_SEED (1) on, PANDO_FUZZ_GRAPHS of them.
struct SeedRange {
  std::uint64_t first, end;
};
SeedRange seed_range(std::uint64_t count_by_default);
/// Tells who watches that another program is done: one byte in the file PANDO_FUZZ_PROGRESS.
void report_progress(bool differs);

/// One line per op, for reading a failing program.
std::string program_text(const FuzzProgram& program);

}  // namespace pando::fuzz
