#include "tests/cpp/fuzz/harness.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "pando/base/error.hpp"
#include "pando/session/session.hpp"
#include "tests/cpp/fuzz/host_function_threads.hpp"
#include "tests/oracle/replicas.hpp"

namespace pando::fuzz {
namespace {

constexpr int kRuns = 2;
constexpr std::int64_t kElements = 3;  // per stream and run

std::size_t replicas_of(const FuzzProgram& program) {
  return static_cast<std::size_t>(program.ir->replication_factor);
}

/// Elements that a stream moves in one round of its buffer, on all replicas together.
std::size_t buffer_elements(const FuzzProgram& program, const TensorInfo& info) {
  return static_cast<std::size_t>(info.num_elements() * kElements) * replicas_of(program);
}

/// What belongs to some replicas of the buffer of a stream of all.
Bytes part_of(const FuzzProgram& program, const Bytes& all, const std::vector<int>& replicas) {
  const std::size_t element = all.size() / (replicas_of(program) * kElements);
  Bytes part;
  for (std::size_t k = 0; k < kElements; ++k) {
    for (const int replica : replicas) {
      const std::size_t at = (k * replicas_of(program) + static_cast<std::size_t>(replica));
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at * element);
      part.insert(part.end(), begin, begin + static_cast<std::ptrdiff_t>(element));
    }
  }
  return part;
}

std::uint64_t environment_or(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

}  // namespace

std::vector<NamedBytes> random_inputs(const FuzzProgram& program) {
  Random random(program.seed ^ 0x9E3779B97F4A7C15u);
  std::vector<NamedBytes> runs(kRuns);
  for (NamedBytes& run : runs) {
    for (const auto& stream : program.ir->streams()) {
      if (stream->direction != StreamDirection::HostToDevice) continue;
      const TensorInfo& info = stream->handle->info;
      const std::size_t count = buffer_elements(program, info);
      Bytes& bytes = run[stream->handle->id()];
      bytes.resize(count * dtype_bytes(info.dtype));
      fill_random(random, info.dtype, program.input_streams.at(stream->handle->id()).exact,
                  static_cast<std::int64_t>(count), bytes.data());
    }
  }
  return runs;
}

Results run_engine(const FuzzProgram& program, const std::vector<NamedBytes>& inputs,
                   const EngineSettings& settings) {
  SessionOptions options;
  options.device = settings.device;
  options.world = settings.world;
  options.cache_folder = settings.cache_folder;
  options.remote.folder = settings.remote_folder;
  if (!settings.remote_folder.empty()) options.remote.tier = MemoryTier::File;
  // These programs have too few elements for it otherwise; with one thread the micro-ops run.
  options.device_options["machine_code"] = settings.num_threads > 1 ? "always" : "never";
  options.log = [](LogLevel level, const std::string& message) {
    if (level == LogLevel::Warning) ADD_FAILURE() << message;
  };
  const int local = settings.world ? 1 : static_cast<int>(replicas_of(program));
  options.num_threads = settings.num_threads * local;
  Session session(*program.ir, options);
  EXPECT_EQ(!session.compile_report().cache_file.empty(), settings.cached);
  NamedBytes initial;
  for (const Tensor* variable : program.variables) {
    const std::byte* data = variable->data->data;
    initial[variable->id()] = Bytes(data, data + variable->data->bytes);
  }
  const HostFunctionThreads host_functions(session);
  session.attach();
  session.weights_from_host();
  Results results;
  for (const NamedBytes& given : inputs) {
    std::vector<StreamBuffer> sources, targets;
    NamedBytes copy;
    for (const StreamDesc& stream : session.input_streams()) {
      copy[stream.id] = part_of(program, given.at(stream.id), session.local_replicas());
      // Programs load and store in loops of any length, and so does the oracle.
      sources.push_back({copy.at(stream.id).data(), kElements});
    }
    NamedBytes& received = results.outputs.emplace_back();
    for (const StreamDesc& stream : session.output_streams()) {
      Bytes& bytes = received[stream.id];
      bytes.resize(static_cast<std::size_t>(stream.bytes() * kElements) *
                   session.local_replicas().size());
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

Results part_of_replica(const FuzzProgram& program, const Results& results, int replica) {
  Results own = results;
  for (NamedBytes& run : own.outputs) {
    for (auto& [id, bytes] : run) bytes = part_of(program, bytes, {replica});
  }
  return own;
}

namespace {

/// Gives every replica its part of the input buffers, and room for what it stores.
void set_streams(const FuzzProgram& program, const NamedBytes& given,
                 oracle::ReplicaOracles& oracles) {
  for (const auto& stream : program.ir->streams()) {
    const TensorInfo& info = stream->handle->info;
    const auto data = given.find(stream->handle->id());
    for (std::size_t replica = 0; replica < oracles.size(); ++replica) {
      oracle::StreamElements elements(kElements,
                                      Numbers(static_cast<std::size_t>(info.num_elements()), 0.0L));
      for (std::size_t k = 0; data != given.end() && k < elements.size(); ++k) {
        const std::byte* bytes =
            data->second.data() + (k * oracles.size() + replica) * info.bytes();
        elements[k] = oracle::decode(bytes, info.dtype, info.num_elements());
      }
      oracles[replica].streams[stream->handle->id()] = std::move(elements);
    }
  }
}

std::map<std::string, Numbers> stored(const FuzzProgram& program, oracle::ReplicaOracles& oracles) {
  std::map<std::string, Numbers> outputs;
  for (const auto& stream : program.ir->streams()) {
    if (stream->direction != StreamDirection::DeviceToHost) continue;
    Numbers& all = outputs[stream->handle->id()];
    for (std::size_t k = 0; k < kElements; ++k) {
      for (std::size_t replica = 0; replica < oracles.size(); ++replica) {
        const Numbers& element = oracles[replica].streams.at(stream->handle->id())[k];
        all.insert(all.end(), element.begin(), element.end());
      }
    }
  }
  return outputs;
}

Reference run_oracle(const FuzzProgram& program, const std::vector<NamedBytes>& inputs,
                     const oracle::OracleOptions& options) {
  oracle::ReplicaOracles oracles(*program.ir, options);
  Reference results;
  for (const NamedBytes& given : inputs) {
    set_streams(program, given, oracles);
    oracles.run(static_cast<int>(program.steps));
    results.outputs.push_back(stored(program, oracles));
  }
  for (const Tensor* variable : program.variables) {
    results.variables[variable->id()] = oracles[0].variable(*variable);
  }
  return results;
}

double unit_roundoff(DType dtype) {
  if (dtype == DType::Float16) return 0x1p-11;
  if (dtype == DType::BFloat16) return 0x1p-8;
  return dtype == DType::Float32 ? 0x1p-24 : 0.0;
}

/// How far two references are apart.
oracle::Number distance(const Numbers& a, const Numbers& b) {
  oracle::Number largest = 0.0L;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
  return largest;
}

/// The first element out of tolerance, as text; empty when there is none. `amplified`: how far
/// references with and without rounding errors are apart.
std::string difference(const Bytes& given, DType dtype, const Numbers& wanted,
                       oracle::Number amplified) {
  const Numbers values =
      oracle::decode(given.data(), dtype, static_cast<std::int64_t>(wanted.size()));
  oracle::Number largest = 1.0L;
  for (const oracle::Number number : wanted) largest = std::max(largest, std::fabs(number));
  // The engine's own errors are amplified as those of the reference are, but start elsewhere: in a
  // loop that doubles a value, chance makes factors of 50. Faults are larger.
  const oracle::Number tolerance = unit_roundoff(dtype) * 64.0L * largest + 100.0L * amplified;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const bool is_same = values[i] == wanted[i] ||  // also of infinite ones
                         (std::isnan(values[i]) && std::isnan(wanted[i]));
    if (is_same || std::fabs(values[i] - wanted[i]) <= tolerance) continue;
    return str_cat("element ", i, " is ", values[i], ", wanted ", wanted[i], " +- ", tolerance);
  }
  return {};
}

DType dtype_of(const FuzzProgram& program, const std::string& id) {
  return program.ir->main_graph().find_tensor(id)->dtype();
}

}  // namespace

References run_reference(const FuzzProgram& program, const std::vector<NamedBytes>& inputs,
                         ReferenceSet set) {
  References references{run_oracle(program, inputs, {.round_floats = true, .sum_errors = true}),
                        run_oracle(program, inputs, {.round_floats = false})};
  if (set == ReferenceSet::All) {
    references.exact_sums = run_oracle(program, inputs, {.round_floats = true});
  }
  return references;
}

std::string compare(const FuzzProgram& program, const Results& results, const References& wanted) {
  // `numbers_of`: the tensor or stream that is compared, of one reference.
  const auto difference_of = [&](const std::string& id, const Bytes& bytes, auto numbers_of) {
    const Numbers& rounded = numbers_of(wanted.rounded);
    oracle::Number amplified = distance(rounded, numbers_of(wanted.unrounded));
    if (wanted.exact_sums) {
      amplified = std::max(amplified, distance(rounded, numbers_of(*wanted.exact_sums)));
    }
    return difference(bytes, dtype_of(program, id), rounded, amplified);
  };
  for (std::size_t run = 0; run < results.outputs.size(); ++run) {
    for (const auto& [id, bytes] : results.outputs[run]) {
      const std::string text =
          difference_of(id, bytes, [&](const Reference& reference) -> const Numbers& {
            return reference.outputs[run].at(id);
          });
      if (!text.empty()) return str_cat("run ", run, ", stream ", id, ": ", text);
    }
  }
  for (const auto& [id, bytes] : results.variables) {
    const std::string text = difference_of(
        id, bytes,
        [&](const Reference& reference) -> const Numbers& { return reference.variables.at(id); });
    if (!text.empty()) return str_cat("variable ", id, ": ", text);
  }
  return {};
}

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

void place_at_random(const FuzzProgram& program, int devices) {
  Random random(program.seed ^ 0xD1B54A32D192ED03u);
  std::uniform_int_distribution<std::int64_t> device(0, devices - 1);
  for (const Graph* graph : program.ir->graphs()) {
    for (Op* op : graph->ops()) op->context.device = device(random);
  }
}

bool is_pipeline(std::uint64_t seed) { return seed % 4 == 0; }

SeedRange seed_range(std::uint64_t count_by_default) {
  const std::uint64_t first = environment_or("PANDO_FUZZ_SEED", 1);
  return {first, first + environment_or("PANDO_FUZZ_GRAPHS", count_by_default)};
}

void report_progress(bool differs) {
  const char* file = std::getenv("PANDO_FUZZ_PROGRESS");
  if (file != nullptr) std::ofstream(file, std::ios::app) << (differs ? 'x' : '.');
}

std::string program_text(const FuzzProgram& program) {
  std::string text;
  for (const Graph* graph : program.ir->graphs()) {
    text += str_cat("graph '", graph->id(), "'");
    for (const Tensor* input : graph->inputs()) {
      text += str_cat(" ", input->name(), input->is_by_ref() ? "&" : "");
    }
    text += " ->";
    for (const Tensor* output : graph->outputs()) text += str_cat(" ", output->name());
    text += "\n";
    for (const Op* op : graph->ops()) {
      text += "  ";
      for (const Tensor* output : op->outputs()) {
        text += str_cat(output->name(), " ", info_text(output->info), " ");
      }
      text += "= " + op->kind_name();
      for (const Tensor* input : op->inputs()) {
        text += str_cat(" ", input == nullptr ? "-" : input->name());
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

}  // namespace pando::fuzz
