#include "pando/session/session.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "pando/base/error.hpp"
#include "pando/base/replicas.hpp"
#include "pando/base/spin.hpp"
#include "pando/compile/device_streams.hpp"
#include "pando/compile/pipeline.hpp"
#include "pando/ops/ops.hpp"
#include "pando/program/disassembly.hpp"
#include "pando/runtime/engine.hpp"
#include "pando/runtime/remote_file.hpp"
#include "pando/runtime/replica_team.hpp"
#include "pando/runtime/thread_world.hpp"
#include "pando/session/device_table.hpp"
#include "pando/session/executable_cache.hpp"
#include "pando/transforms/inplace_ambiguity.hpp"
#include "pando/transforms/plain_softmax.hpp"
#include "pando/transforms/scale_checks.hpp"

namespace pando {
namespace {

void check_supported(const Ir& ir) {
  check_replicas(ir.replication_factor);
  const auto graphs = ir.graphs();
  const bool empty = std::all_of(graphs.begin(), graphs.end(),
                                 [](const Graph* graph) { return graph->ops().empty(); });
  if (empty) {
    throw Error(ErrorCode::EmptyProgram,
                str_cat("The Ir ", ir.id(), " has no graphs with ops: there is nothing to run"));
  }
}

/// Room for early loads below which there is none.
constexpr std::int64_t kLeastPrefetch = std::int64_t{64} << 10;

void check_settings(const RemoteSettings& settings) {
  const auto refuse = [](const char* what, std::int64_t least, std::int64_t given) {
    throw ValueError(str_cat("wanted ", what, " of at least ", least, "; given ", given));
  };
  if (settings.io_threads < 1) refuse("io_threads", 1, settings.io_threads);
  if (settings.staging_bytes < 0) refuse("staging_bytes", 0, settings.staging_bytes);
  if (settings.prefetch_bytes < 0) refuse("prefetch_bytes", 0, settings.prefetch_bytes);
  if (settings.uses_files() && settings.folder.empty()) {
    throw ValueError("remote buffers in files need a folder: give remote_folder");
  }
}

/// The share of each (replica, device).
int threads_per_device(int num_threads, std::int64_t stems) {
  if (stems == 1) return num_threads;
  const std::int64_t threads = num_threads == 0 ? usable_cores() : num_threads;
  return static_cast<int>(std::max<std::int64_t>(1, threads / stems));
}

/// nullopt when nobody knows.
std::optional<SourceInfo> source_of(const Program& program, std::int32_t index) {
  if (index < 0) return std::nullopt;
  return program.sources[static_cast<std::size_t>(index)];
}

/// `at`: what runs then, if that is known.
std::string peak_text(std::int64_t persistent_bytes, const LiveTensorTable& alive,
                      const std::optional<SourceInfo>& at) {
  std::string text = str_cat("persistent memory (variables, constants): ", persistent_bytes,
                             " bytes; alive at the peak");
  if (at) {
    if (!at->phase.empty()) text += str_cat(", in the phase '", at->phase, "'");
    text += str_cat(", while ", at->op, " runs");
  }
  text += ":";
  for (const LiveTensor& tensor : alive.all()) {
    text += str_cat("\n  ", std::string(2 * static_cast<std::size_t>(tensor.depth), ' '),
                    tensor.bytes, " bytes  ", tensor.name);
    if (!tensor.location.empty()) text += str_cat("  (", tensor.location, ")");
  }
  return text;
}

std::string phase_text(const std::optional<SourceInfo>& at) {
  return !at || at->phase.empty() ? "" : str_cat("; the phase '", at->phase, "' needs most");
}

std::int64_t device_bytes(const Program& program) {
  return program.memory.persistent_bytes + program.memory.peak_frame_bytes;
}

/// The values of the persistent tensors that have one and are no variables.
std::vector<ProgramConstant> constants_of(const Program& program, const Ir& ir) {
  const auto graphs = ir.graphs();
  std::vector<ProgramConstant> constants;
  for (std::size_t i = 0; i < program.persistent.size(); ++i) {
    if (program.persistent[i].is_variable) continue;
    const Tensor* source = nullptr;
    for (const Graph* graph : graphs) {
      if (source == nullptr) source = graph->find_tensor(program.persistent[i].id);
    }
    internal_check(source != nullptr, "a persistent tensor must come from the Ir");
    if (source->data != nullptr) constants.push_back({i, source->data});
  }
  return constants;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

void Session::make_world(const Ir& ir) {
  const WorldSettings settings{.size = static_cast<int>(ir.replication_factor),
                               .timeout_seconds = options_.collective_timeout_seconds};
  world_ = options_.world ? options_.world(settings) : make_thread_world(settings);
  if (world_->size() == settings.size) return;
  throw ValueError(str_cat("wanted a world of ", settings.size,
                           " ranks, one for each replica of the program; given one of ",
                           world_->size()));
}

void Session::make_targets(const Ir& ir) {
  const auto devices = static_cast<std::int64_t>(devices_of(ir).size());
  const auto local = static_cast<std::int64_t>(num_local());
  device_settings_ = std::make_unique<DeviceSettings>();
  device_settings_->num_threads = threads_per_device(options_.num_threads, local * devices);
  device_settings_->machine_code = options_.machine_code;
  device_kind_ = std::make_unique<DeviceKind>(device_kind(options_.device, *device_settings_));
  for (std::size_t i = 0; i < num_local(); ++i) {
    targets_.push_back(device_kind_->make_target(*device_settings_));
  }
}

Executable Session::build(const Ir& ir) {
  if (options_.log) options_.log(LogLevel::Info, "Starting compilation");
  if (options_.check_inplace_ambiguity) check_inplace_ambiguity(ir);
  CompileOptions compile_options;
  compile_options.after_stage = options_.after_stage;
  compile_options.after_steps = options_.after_steps;
  compile_options.prefetch_bytes = prefetch_bytes_of(options_);
  const std::size_t stages_before = compile_report_.stages.size();
  while (true) {
    const std::unique_ptr<Ir> copy = ir.clone();
    for (Graph* graph : copy->graphs()) {
      if (options_.check_log2_scales) check_log2_scales(*graph);
      if (!options_.stable_softmax) use_plain_softmax(*graph);
    }
    compile_report_.stages.resize(stages_before);
    Executable executable;
    executable.program = compile(*copy, *targets_[0], compile_options, compile_report_.stages);
    // Early loads take memory: they are given up when the program does not fit with them.
    if (compile_options.prefetch_bytes == 0 || fits(executable.program)) {
      executable.constants = constants_of(executable.program, *copy);
      return executable;
    }
    compile_options.prefetch_bytes /= 4;
    if (compile_options.prefetch_bytes < kLeastPrefetch) compile_options.prefetch_bytes = 0;
  }
}

bool Session::fits(const Program& program) const {
  const std::int64_t limit = options_.device_memory_limit_bytes;
  const bool devices_fit =
      limit <= 0 ||
      std::all_of(program.memory.devices.begin(), program.memory.devices.end(),
                  [&](const DeviceMemoryUse& device) { return device.total_bytes() <= limit; });
  return devices_fit &&
         (options_.memory_limit_bytes <= 0 || device_bytes(program) <= options_.memory_limit_bytes);
}

void Session::refuse(const Program& program) const {
  const MemoryReport& memory = program.memory;
  const std::int64_t limit = options_.device_memory_limit_bytes;
  for (const DeviceMemoryUse& device : memory.devices) {
    if (limit <= 0 || device.total_bytes() <= limit) continue;
    const std::optional<SourceInfo> at = source_of(program, device.source_at_peak);
    throw OutOfMemory(
        str_cat("device ", device.device, " needs ", device.total_bytes(),
                " bytes of memory; the limit is ", limit, " bytes a device", phase_text(at)),
        peak_text(device.persistent_bytes, device.alive_at_peak, at));
  }
  const std::optional<SourceInfo> at = source_of(program, memory.source_at_peak);
  throw OutOfMemory(
      str_cat("the program needs ", device_bytes(program), " bytes of device memory; the limit is ",
              options_.memory_limit_bytes, phase_text(at)),
      peak_text(memory.persistent_bytes, memory.alive_at_peak, at));
}

Executable Session::build_or_load(const Ir& ir) {
  if (options_.cache_folder.empty()) return build(ir);
  const auto stage = [&](const char* name, auto work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    compile_report_.stages.emplace_back(name, seconds_since(start));
  };
  const std::string suffix = options_.cache_suffix.empty() ? kCacheSuffix : options_.cache_suffix;
  const ExecutableCache cache(options_.cache_folder, suffix, options_.cache_limit_bytes,
                              options_.log);
  if (!cache.is_usable()) return build(ir);
  Hash128 key;
  std::optional<Executable> executable;
  stage("cache_key", [&] { key = executable_key(ir, options_, *targets_[0]); });
  stage("cache_load", [&] { executable = cache.load(key, ir); });
  if (executable) {
    compile_report_.cache_file = cache.file_of(key).string();
    return std::move(*executable);
  }
  executable = build(ir);
  stage("cache_store", [&] { cache.store(key, *executable, ir); });
  return std::move(*executable);
}

Session::Session(const Ir& ir, SessionOptions options)
    : options_(std::move(options)), stop_check_(stop_check(options_.should_stop)) {
  const auto start = std::chrono::steady_clock::now();
  op_registry();
  check_supported(ir);
  check_settings(options_.remote);
  if (options_.remote.uses_files()) file_io_ = std::make_shared<FileIo>(options_.remote.method);
  make_world(ir);
  make_targets(ir);
  Executable executable = build_or_load(ir);
  options_.log = {};
  program_ = std::move(executable.program);
  constants_ = std::move(executable.constants);
  if (!fits(program_)) refuse(program_);
  for (const StreamDesc& stream : program_.streams) {
    (stream.host_to_device ? input_streams_ : output_streams_).push_back(stream);
  }
  collect_variables(ir);
  compile_report_.compile_seconds = seconds_since(start);
}

Session::~Session() = default;

RemoteTier Session::make_remote(std::int64_t replica, Device& device) const {
  const RemoteSettings& settings = options_.remote;
  RemoteTier tier;
  tier.io_threads = settings.io_threads;
  tier.staging_bytes = settings.staging_bytes;
  std::vector<const RemoteBufferDesc*> in_ram;
  for (const RemoteBufferDesc& buffer : program_.remote_buffers) {
    if (settings.tier_of(buffer.id) == MemoryTier::Ram) in_ram.push_back(&buffer);
  }
  std::vector<std::unique_ptr<RemoteMemory>> ram_memories = make_ram_memories(in_ram, device);
  auto next_in_ram = ram_memories.begin();
  for (const RemoteBufferDesc& buffer : program_.remote_buffers) {
    if (settings.tier_of(buffer.id) == MemoryTier::Ram) {
      tier.memories.push_back(std::move(*next_in_ram++));
    } else {
      tier.memories.push_back(
          std::make_unique<FileMemory>(*run_folder_, buffer, replica, settings.direct, file_io_));
    }
  }
  return tier;
}

void Session::attach() {
  const CallGate::Pass pass(gate_, stop_check_);
  if (!engines_.empty()) return;
  auto team = std::make_unique<ReplicaTeam>(*world_, options_.should_stop);
  std::unique_ptr<RunFolder> run_folder;
  if (options_.remote.uses_files() && !program_.remote_buffers.empty()) {
    run_folder = std::make_unique<RunFolder>(options_.remote.folder);
  }
  run_folder_ = std::move(run_folder);
  std::vector<std::unique_ptr<Device>> devices(num_local());
  std::vector<std::unique_ptr<Engine>> engines(num_local());
  // Each replica makes its own: memory is first touched, and kernels prepared, where they are used.
  const std::uint64_t checksum = team->has_replicas_elsewhere() ? fingerprint() : 0;
  const auto make_engine = [&](int local) {
    team->check_same_program(local, checksum);
    const auto i = static_cast<std::size_t>(local);
    std::function<bool()> should_stop = options_.should_stop;
    if (program_.replicas > 1) should_stop = team->should_stop(local);
    const StopCheck check = stop_check(should_stop);
    devices[i] = device_kind_->make_device(*device_settings_, *targets_[i]);
    engines[i] = std::make_unique<Engine>(program_, *targets_[i], *devices[i], options_.profile,
                                          std::move(should_stop), &team->communicator(local),
                                          make_remote(replica_of(i), *devices[i]));
    upload_constants(*engines[i], check);
  };
  try {
    team->run(make_engine);
  } catch (const OutOfMemory& error) {
    run_folder_.reset();
    throw OutOfMemory(error.what(),
                      peak_text(program_.memory.persistent_bytes, program_.memory.alive_at_peak,
                                source_of(program_, program_.memory.source_at_peak)));
  } catch (...) {
    run_folder_.reset();
    throw;
  }
  team_ = std::move(team);
  devices_ = std::move(devices);
  engines_ = std::move(engines);
  attached_ = true;
}

void Session::detach() {
  const CallGate::Pass pass(gate_, stop_check_);
  attached_ = false;
  engines_.clear();
  devices_.clear();
  run_folder_.reset();
  team_.reset();
  if (file_io_ != nullptr) file_io_->release();
}

void Session::require_attached(const char* what) const {
  if (!engines_.empty()) return;
  throw ValueError(str_cat(
      what, " needs a session that is attached to a device: use it inside `with session:`"));
}

std::vector<StreamBuffer> Session::buffers_by_stream(
    const std::vector<StreamBuffer>& inputs, const std::vector<StreamBuffer>& outputs) const {
  if (inputs.size() != input_streams_.size() || outputs.size() != output_streams_.size()) {
    throw ValueError(str_cat("wanted ", input_streams_.size(), " input and ",
                             output_streams_.size(), " output buffers; given ", inputs.size(),
                             " and ", outputs.size()));
  }
  std::vector<StreamBuffer> buffers;
  buffers.reserve(program_.streams.size());
  std::size_t next_input = 0, next_output = 0;
  for (const StreamDesc& stream : program_.streams) {
    const StreamBuffer& buffer =
        stream.host_to_device ? inputs[next_input++] : outputs[next_output++];
    if (buffer.count < 1) {
      throw ValueError(str_cat("stream '", stream.id, "' was given no elements"));
    }
    buffers.push_back(buffer);
  }
  return buffers;
}

bool Session::are_outputs_apart(const std::vector<StreamBuffer>& buffers) const {
  const auto local = static_cast<std::int64_t>(num_local());
  const auto range_of = [&](std::size_t stream) {
    const auto begin = reinterpret_cast<std::uintptr_t>(buffers[stream].data);
    const std::int64_t bytes = buffers[stream].count * local * program_.streams[stream].bytes();
    return std::pair{begin, begin + static_cast<std::uintptr_t>(bytes)};
  };
  for (std::size_t output = 0; output < buffers.size(); ++output) {
    if (program_.streams[output].host_to_device) continue;
    const auto [begin, end] = range_of(output);
    for (std::size_t input = 0; input < buffers.size(); ++input) {
      if (!program_.streams[input].host_to_device) continue;
      const auto [input_begin, input_end] = range_of(input);
      if (begin < input_end && input_begin < end) return false;
    }
  }
  return true;
}

std::vector<RepeatedStream> Session::run(const std::vector<StreamBuffer>& inputs,
                                         const std::vector<StreamBuffer>& outputs) {
  const CallGate::Pass pass(gate_, stop_check_);
  require_attached("run");
  const std::vector<StreamBuffer> buffers = buffers_by_stream(inputs, outputs);
  const bool outputs_apart = are_outputs_apart(buffers);
  const auto stride = static_cast<std::int64_t>(num_local());
  team_->run([&](int local) {
    std::vector<StreamCursor> cursors;
    cursors.reserve(buffers.size());
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      cursors.push_back(
          {buffers[i].data + local * program_.streams[i].bytes(), buffers[i].count, stride});
    }
    engines_[static_cast<std::size_t>(local)]->run(cursors, outputs_apart);
  });
  return repeated_streams(buffers);
}

std::vector<RepeatedStream> Session::repeated_streams(
    const std::vector<StreamBuffer>& buffers) const {
  std::vector<RepeatedStream> repeated;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const StreamDesc& stream = program_.streams[i];
    std::int64_t transfers = 0;
    for (const auto& engine : engines_) {
      transfers = std::max(transfers, engine->stream_transfers()[i]);
    }
    // Of what has no bytes there is always one more.
    if (transfers > buffers[i].count && num_elements(stream.shape) > 0) {
      repeated.push_back({stream.id, stream.host_to_device, transfers, buffers[i].count});
    }
  }
  return repeated;
}

std::vector<InstructionTime> Session::trace() const {
  const CallGate::Pass pass(gate_, stop_check_);
  std::vector<InstructionTime> result;
  if (engines_.empty() || engines_[0]->profile() == nullptr) return result;
  const auto& profile = engines_[0]->profile()->instructions();
  for (std::size_t f = 0; f < profile.size(); ++f) {
    for (std::size_t i = 0; i < profile[f].size(); ++i) {
      const Instruction& instruction = program_.functions[f].instructions[i];
      InstructionTime entry;
      entry.function = program_.functions[f].name;
      if (instruction.source >= 0) {
        const SourceInfo source = program_.sources[static_cast<std::size_t>(instruction.source)];
        entry.op = source.op;
        entry.location = source.location;
      }
      entry.kernel = instruction_name(program_, instruction);
      entry.calls = profile[f][i].calls;
      entry.seconds = profile[f][i].seconds;
      result.push_back(std::move(entry));
    }
  }
  return result;
}

std::vector<PhaseProfile> Session::phases() const {
  const CallGate::Pass pass(gate_, stop_check_);
  if (engines_.empty() || engines_[0]->profile() == nullptr) return {};
  return engines_[0]->profile()->phases();
}

std::vector<TimelineLane> Session::timeline() const {
  const CallGate::Pass pass(gate_, stop_check_);
  if (engines_.empty() || engines_[0]->profile() == nullptr) return {};
  return engines_[0]->profile()->timeline();
}

std::int64_t Session::actual_peak_bytes() const {
  const CallGate::Pass pass(gate_, stop_check_);
  std::int64_t most = 0;
  for (const auto& engine : engines_) most = std::max(most, engine->resident_bytes());
  return most;
}

IoReport Session::io_report() const {
  const CallGate::Pass pass(gate_, stop_check_);
  IoReport total;
  for (const auto& engine : engines_) {
    const IoReport report = engine->io_report();
    total.bytes_loaded += report.bytes_loaded;
    total.bytes_stored += report.bytes_stored;
    total.bytes_from_stores += report.bytes_from_stores;
    total.io_seconds += report.io_seconds;
    total.busy_seconds += report.busy_seconds;
    total.waiting_seconds += report.waiting_seconds;
  }
  return total;
}

std::string Session::io_method() const {
  const auto is_in_file = [&](const RemoteBufferDesc& buffer) {
    return options_.remote.tier_of(buffer.id) == MemoryTier::File;
  };
  const auto& buffers = program_.remote_buffers;
  return std::any_of(buffers.begin(), buffers.end(), is_in_file) ? file_io_->describe() : "";
}

std::string Session::disassembly() const { return disassemble(program_); }

std::string Session::explain() const {
  const CallGate::Pass pass(gate_, stop_check_);
  std::string text;
  for (const KernelSpec& spec : program_.kernels) {
    text += spec.kind + ": " + targets_[0]->prepare(spec)->explain() + "\n";
  }
  const std::string method = io_method();
  if (!method.empty()) text += str_cat("remote buffers in files: ", method, "\n");
  return text;
}

}  // namespace pando
