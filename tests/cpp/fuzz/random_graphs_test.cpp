// Random programs: the engine against the reference, with and without inlining, on one thread and
// two, on one virtual device and three; and against itself, to the bit, also from the cache.
//
// PANDO_FUZZ_SEED: the first seed; PANDO_FUZZ_GRAPHS: how many programs (1: a failing one is
// printed).
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "pando/base/error.hpp"
#include "pando/session/session.hpp"
#include "tests/cpp/fuzz/generator.hpp"
#include "tests/oracle/oracle.hpp"

namespace pando::fuzz {
namespace {

constexpr int kRuns = 2;
constexpr std::int64_t kElements = 3;  // per stream and run

std::uint64_t environment_or(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

using Bytes = std::vector<std::byte>;
/// Stream buffers by handle id, variables by tensor id.
using NamedBytes = std::map<std::string, Bytes>;

struct Results {
  std::vector<NamedBytes> outputs;  // per run
  NamedBytes variables;             // after the last run
};

std::vector<NamedBytes> random_inputs(const FuzzProgram& program) {
  Random random(program.seed ^ 0x9E3779B97F4A7C15u);
  std::vector<NamedBytes> runs(kRuns);
  for (NamedBytes& run : runs) {
    for (const auto& stream : program.ir->streams()) {
      if (stream->direction != StreamDirection::HostToDevice) continue;
      const TensorInfo& info = stream->handle->info;
      Bytes& bytes = run[stream->handle->id()];
      bytes.resize(info.bytes() * static_cast<std::size_t>(kElements));
      fill_random(random, info.dtype, program.exact_streams.at(stream->handle->id()),
                  info.num_elements() * kElements, bytes.data());
    }
  }
  return runs;
}

/// With a folder the program must come from there, if `cached`.
Results run_engine(const FuzzProgram& program, const std::vector<NamedBytes>& inputs,
                   int num_threads, const std::string& cache_folder = {}, bool cached = false) {
  SessionOptions options;
  options.num_threads = num_threads;
  options.cache_folder = cache_folder;
  options.log = [](LogLevel level, const std::string& message) {
    if (level == LogLevel::Warning) ADD_FAILURE() << message;
  };
  Session session(*program.ir, options);
  EXPECT_EQ(!session.compile_report().cache_file.empty(), cached);
  NamedBytes initial;
  for (const Tensor* variable : program.variables) {
    const std::byte* data = variable->data->data;
    initial[variable->id()] = Bytes(data, data + variable->data->bytes);
  }
  session.attach();
  session.weights_from_host();
  Results results;
  for (const NamedBytes& given : inputs) {
    std::vector<StreamBuffer> sources, targets;
    NamedBytes copy = given;
    for (const StreamDesc& stream : session.input_streams()) {
      sources.push_back({copy.at(stream.id).data(), kElements});
    }
    NamedBytes& received = results.outputs.emplace_back();
    for (const StreamDesc& stream : session.output_streams()) {
      Bytes& bytes = received[stream.id];
      bytes.resize(static_cast<std::size_t>(num_elements(stream.shape) * kElements) *
                   dtype_bytes(stream.dtype));
      targets.push_back({bytes.data(), kElements});
    }
    session.run(sources, targets);
  }
  session.weights_to_host();
  for (Tensor* variable : program.variables) {
    std::byte* data = variable->data->data;
    results.variables[variable->id()] = Bytes(data, data + variable->data->bytes);
    std::memcpy(data, initial.at(variable->id()).data(), variable->data->bytes);
  }
  return results;
}

using Numbers = std::vector<oracle::Number>;

struct Reference {
  std::vector<std::map<std::string, Numbers>> outputs;
  std::map<std::string, Numbers> variables;
};

Reference run_oracle(const FuzzProgram& program, const std::vector<NamedBytes>& inputs,
                     bool round_floats) {
  oracle::Oracle reference(*program.ir, {.round_floats = round_floats});
  Reference results;
  for (const NamedBytes& given : inputs) {
    for (const auto& stream : program.ir->streams()) {
      const TensorInfo& info = stream->handle->info;
      oracle::StreamElements elements(kElements,
                                      Numbers(static_cast<std::size_t>(info.num_elements()), 0.0L));
      const auto data = given.find(stream->handle->id());
      for (std::size_t k = 0; data != given.end() && k < elements.size(); ++k) {
        elements[k] =
            oracle::decode(data->second.data() + k * info.bytes(), info.dtype, info.num_elements());
      }
      reference.streams[stream->handle->id()] = std::move(elements);
    }
    reference.run();
    auto& outputs = results.outputs.emplace_back();
    for (const auto& stream : program.ir->streams()) {
      if (stream->direction != StreamDirection::DeviceToHost) continue;
      Numbers& all = outputs[stream->handle->id()];
      for (const Numbers& element : reference.streams.at(stream->handle->id())) {
        all.insert(all.end(), element.begin(), element.end());
      }
    }
  }
  for (const Tensor* variable : program.variables) {
    results.variables[variable->id()] = reference.variable(*variable);
  }
  return results;
}

double unit_roundoff(DType dtype) {
  if (dtype == DType::Float16) return 0x1p-11;
  return dtype == DType::Float32 ? 0x1p-24 : 0.0;
}

/// The first element out of tolerance, as text; empty when there is none. The difference between
/// the rounded and the unrounded reference says how far rounding errors are amplified.
std::string difference(const Bytes& given, DType dtype, const Numbers& wanted,
                       const Numbers& unrounded) {
  const Numbers values =
      oracle::decode(given.data(), dtype, static_cast<std::int64_t>(wanted.size()));
  oracle::Number largest = 1.0L, amplified = 0.0L;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    largest = std::max(largest, std::fabs(wanted[i]));
    amplified = std::max(amplified, std::fabs(wanted[i] - unrounded[i]));
  }
  const oracle::Number tolerance = unit_roundoff(dtype) * 64.0L * largest + 30.0L * amplified;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (std::fabs(values[i] - wanted[i]) <= tolerance) continue;
    return str_cat("element ", i, " is ", values[i], ", wanted ", wanted[i], " +- ", tolerance);
  }
  return {};
}

DType dtype_of(const FuzzProgram& program, const std::string& id) {
  return program.ir->main_graph().find_tensor(id)->dtype();
}

std::string compare(const FuzzProgram& program, const Results& results, const Reference& rounded,
                    const Reference& unrounded) {
  for (std::size_t run = 0; run < results.outputs.size(); ++run) {
    for (const auto& [id, bytes] : results.outputs[run]) {
      const std::string text = difference(bytes, dtype_of(program, id), rounded.outputs[run].at(id),
                                          unrounded.outputs[run].at(id));
      if (!text.empty()) return str_cat("run ", run, ", stream ", id, ": ", text);
    }
  }
  for (const auto& [id, bytes] : results.variables) {
    const std::string text = difference(bytes, dtype_of(program, id), rounded.variables.at(id),
                                        unrounded.variables.at(id));
    if (!text.empty()) return str_cat("variable ", id, ": ", text);
  }
  return {};
}

/// Names what two results differ in; empty when they are equal to the bit.
std::string bit_difference(const FuzzProgram& program, const Results& a, const Results& b) {
  for (std::size_t run = 0; run < a.outputs.size(); ++run) {
    for (const auto& [id, bytes] : a.outputs[run]) {
      const Bytes& others = b.outputs[run].at(id);
      if (bytes == others) continue;
      const DType dtype = dtype_of(program, id);
      const std::size_t size = dtype_bytes(dtype);
      std::size_t i = 0;
      while (std::memcmp(&bytes[i * size], &others[i * size], size) == 0) ++i;
      return str_cat("run ", run, ", stream ", id, ", element ", i, ": ",
                     oracle::decode(&bytes[i * size], dtype, 1)[0], " and ",
                     oracle::decode(&others[i * size], dtype, 1)[0]);
    }
  }
  for (const auto& [id, bytes] : a.variables) {
    if (bytes != b.variables.at(id)) return str_cat("variable ", id);
  }
  return {};
}

/// One line per op, for reading a failing program.
std::string program_text(const FuzzProgram& program) {
  std::string text;
  for (const Graph* graph : program.ir->graphs()) {
    text += str_cat("graph '", graph->id(), "'");
    for (const Tensor* input : graph->inputs()) {
      text += str_cat(" ", input->name(), graph->is_by_ref(input) ? "&" : "");
    }
    text += " ->";
    for (const Tensor* output : graph->outputs()) text += " " + output->name();
    text += "\n";
    for (const Op* op : graph->ops()) {
      text += "  ";
      for (const Tensor* output : op->outputs()) {
        text += str_cat(output->name(), " ", info_text(output->info), " ");
      }
      text += "= " + op->kind();
      for (const Tensor* input : op->inputs()) {
        text += " " + (input == nullptr ? std::string("-") : input->name());
      }
      for (const auto& [name, value] : op->attributes) {
        text += str_cat(" ", name, "=", attribute_text(value));
      }
      for (const Graph* callee : op->called_graphs) text += str_cat(" '", callee->id(), "'");
      text += "\n";
    }
  }
  return text;
}

bool multiplies_matrices(const FuzzProgram& program) {
  for (const Graph* graph : program.ir->graphs()) {
    for (const Op* op : graph->ops()) {
      if (op->kind() == "MatMul") return true;
    }
  }
  return false;
}

/// Puts every op on one of `devices` virtual devices.
void place_at_random(const FuzzProgram& program, int devices) {
  Random random(program.seed ^ 0xD1B54A32D192ED03u);
  std::uniform_int_distribution<std::int64_t> device(0, devices - 1);
  for (const Graph* graph : program.ir->graphs()) {
    for (Op* op : graph->ops()) op->context.device = device(random);
  }
}

/// As `check`, of the same ops on three devices.
std::string check_devices(std::uint64_t seed, const std::vector<NamedBytes>& inputs,
                          const Reference& rounded, const Reference& unrounded) {
  constexpr int kDevices = 3;
  for (const bool keep_calls : {false, true}) {
    const FuzzProgram program = random_program(seed, keep_calls);
    if (keep_calls && program.bodies.empty()) return {};
    place_at_random(program, kDevices);
    const Results first = run_engine(program, inputs, kDevices);
    std::string text = compare(program, first, rounded, unrounded);
    if (!text.empty()) return str_cat("devices, calls kept ", keep_calls, ": ", text);
    text = bit_difference(program, first, run_engine(program, inputs, kDevices));
    if (!text.empty()) return str_cat("devices, two runs differ in ", text);
  }
  return {};
}

/// What is wrong with the program of `seed`; empty when nothing is.
std::string check(std::uint64_t seed) {
  const FuzzProgram program = random_program(seed, false);
  const std::vector<NamedBytes> inputs = random_inputs(program);
  const Reference rounded = run_oracle(program, inputs, true);
  const Reference unrounded = run_oracle(program, inputs, false);
  const Results one = run_engine(program, inputs, 1);
  std::string text = compare(program, one, rounded, unrounded);
  if (!text.empty()) return "inlined: " + text;
  const Results two = run_engine(program, inputs, 2);
  text = compare(program, two, rounded, unrounded);
  if (!text.empty()) return "inlined, two threads: " + text;
  text = bit_difference(program, two, run_engine(program, inputs, 2));
  if (!text.empty()) return "two runs differ in " + text;
  // Matrix products may sum in another order on another number of threads, nothing else may.
  text = multiplies_matrices(program) ? "" : bit_difference(program, one, two);
  if (!text.empty()) return "one thread and two differ in " + text;
  text = check_devices(seed, inputs, rounded, unrounded);
  if (!text.empty()) return text;
  if (program.bodies.empty()) return {};
  const FuzzProgram called = random_program(seed, true);
  text = compare(called, run_engine(called, inputs, 2), rounded, unrounded);
  return text.empty() ? text : "with calls kept: " + text;
}

TEST(RandomGraphs, EngineEqualsReference) {
  const std::uint64_t first = environment_or("PANDO_FUZZ_SEED", 1);
  const std::uint64_t count = environment_or("PANDO_FUZZ_GRAPHS", 300);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    std::string fault;
    try {
      fault = check(seed);
    } catch (const std::exception& error) {
      fault = error.what();
    }
    if (fault.empty()) continue;
    if (count == 1) {
      const FuzzProgram program = random_program(seed, false);
      fault += "\n" + program_text(program) + Session(*program.ir).disassembly();
    }
    ADD_FAILURE() << "seed " << seed << ": " << fault << "\nrepeat with: PANDO_FUZZ_SEED=" << seed
                  << " PANDO_FUZZ_GRAPHS=1 pando_tests --gtest_filter=RandomGraphs.*";
  }
}

TEST(RandomGraphs, FromTheCacheGiveTheSameBits) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / str_cat("pando_cached_graphs_", ::getpid());
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    // Inlined, with calls kept, on three devices.
    for (int variant = 0; variant < 3; ++variant) {
      const FuzzProgram program = random_program(seed, variant == 1);
      if (variant == 2) place_at_random(program, 3);
      const std::vector<NamedBytes> inputs = random_inputs(program);
      // A program that calls nothing is the same in two of them.
      const std::string own = folder / str_cat(seed, "_", variant);
      const Results compiled = run_engine(program, inputs, 1, own);
      const Results cached = run_engine(program, inputs, 1, own, true);
      EXPECT_EQ(bit_difference(program, compiled, cached), "") << "seed " << seed;
    }
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace pando::fuzz
