#include "pando/session/compiler.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

#include "pando/base/error.hpp"
#include "pando/base/freed_memory.hpp"
#include "pando/base/replicas.hpp"
#include "pando/compile/pipeline.hpp"
#include "pando/ops/ops.hpp"
#include "pando/session/executable_cache.hpp"
#include "pando/session/memory_text.hpp"
#include "pando/transforms/inplace_ambiguity.hpp"
#include "pando/transforms/plain_softmax.hpp"
#include "pando/transforms/scale_checks.hpp"

namespace pando {
namespace {

/// Programs of fewer ops free little, and their sessions are made in milliseconds.
constexpr std::size_t kManyOps = 500;

/// Room for early loads below which there is none.
constexpr std::int64_t kLeastPrefetch = std::int64_t{64} << 10;

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

std::size_t num_ops(const Ir& ir) {
  std::size_t count = 0;
  for (const Graph* graph : ir.graphs()) count += graph->op_list().size();
  return count;
}

std::string phase_text(const std::optional<SourceInfo>& at) {
  return !at || at->phase.empty() ? "" : str_cat("; the phase '", at->phase, "' needs most");
}

std::int64_t device_bytes(const Program& program) {
  return program.memory.persistent_bytes + program.memory.peak_frame_bytes;
}

std::vector<ProgramConstant> constants_of(const Program& program, const Ir& ir) {
  const auto values = constants_by_id(ir);
  std::vector<ProgramConstant> constants;
  for (std::size_t i = 0; i < program.persistent.size(); ++i) {
    if (program.persistent[i].is_variable) continue;
    const auto value = values.find(program.persistent[i].id);
    if (value != values.end()) constants.push_back({i, value->second});
  }
  return constants;
}

/// Gives up what only saves time, the least of it first, in a program that is too large. False:
/// there is nothing left.
bool save_memory(const Program& program, const MemoryExcess& excess, CompileOptions& options) {
  if (program.has_prepared_weights()) {
    options.prepares_weights = false;
    return true;
  }
  if (options.prefetch_bytes > 0) {
    options.prefetch_bytes /= 4;
    if (options.prefetch_bytes < kLeastPrefetch) options.prefetch_bytes = 0;
    return true;
  }
  // What stays alive through a run is not computed again.
  if (excess.bytes >= program.memory.peak_frame_bytes) return false;
  options.excesses.push_back(excess);
  return true;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Compiler::Compiler(std::shared_ptr<Target> target, CompilerOptions options)
    : target_(std::move(target)), options_(std::move(options)) {}

std::shared_ptr<const Executable> Compiler::compile(const Ir& ir, CompileReport& report) const {
  op_registry();
  check_supported(ir);
  auto executable = std::make_shared<const Executable>(build_or_load(ir, report));
  if (num_ops(ir) >= kManyOps) return_freed_memory();
  if (excess_of(executable->program()).bytes > 0) refuse(executable->program());
  return executable;
}

Executable Compiler::build(const Ir& ir, CompileReport& report) const {
  if (options_.log) options_.log(LogLevel::Info, "Starting compilation");
  if (options_.check_inplace_ambiguity) check_inplace_ambiguity(ir);
  CompileOptions compile_options;
  compile_options.after_stage = options_.after_stage;
  compile_options.after_steps = options_.after_steps;
  compile_options.prefetch_bytes = options_.prefetch_bytes;
  const std::size_t stages_before = report.stages.size();
  std::int64_t least_excess = std::numeric_limits<std::int64_t>::max();
  while (true) {
    const std::unique_ptr<Ir> copy = ir.clone();
    for (Graph* graph : copy->graphs()) {
      if (options_.check_log2_scales) check_log2_scales(*graph);
      if (!options_.stable_softmax) use_plain_softmax(*graph);
    }
    report.stages.resize(stages_before);
    Program program = pando::compile(*copy, *target_, compile_options, report.stages);
    const MemoryExcess excess = excess_of(program);
    const bool is_last = excess.bytes == 0 || excess.bytes >= least_excess;
    if (is_last || !save_memory(program, excess, compile_options)) {
      std::vector<ProgramConstant> constants = constants_of(program, *copy);
      return {std::move(program), std::move(constants), target_->identity()};
    }
    if (compile_options.excesses.empty()) continue;
    least_excess = excess.bytes;
    if (options_.log) {
      options_.log(LogLevel::Info, str_cat("The program is ", excess.bytes,
                                           " bytes too large: it computes results again"));
    }
  }
}

Executable Compiler::build_or_load(const Ir& ir, CompileReport& report) const {
  if (options_.cache_folder.empty()) return build(ir, report);
  const auto stage = [&](const char* name, auto work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    report.stages.emplace_back(name, seconds_since(start));
  };
  const std::string suffix = options_.cache_suffix.empty() ? kCacheSuffix : options_.cache_suffix;
  const ExecutableCache cache(options_.cache_folder, suffix, options_.cache_limit_bytes,
                              options_.log);
  if (!cache.is_usable()) return build(ir, report);
  Hash128 key;
  std::optional<Executable> executable;
  stage("cache_key", [&] { key = executable_key(ir, options_, *target_); });
  stage("cache_load", [&] { executable = cache.load(key, ir, target_->identity()); });
  if (executable) {
    report.cache_file = cache.file_of(key).string();
    return std::move(*executable);
  }
  executable = build(ir, report);
  stage("cache_store", [&] { cache.store(key, *executable, ir); });
  return std::move(*executable);
}

MemoryExcess Compiler::excess_of(const Program& program) const {
  MemoryExcess excess;
  const LiveTensorTable* alive = nullptr;
  const auto compare = [&](std::int64_t bytes, std::int64_t limit, const LiveTensorTable& at_peak) {
    if (limit <= 0 || bytes - limit <= excess.bytes) return;
    excess.bytes = bytes - limit;
    alive = &at_peak;
  };
  compare(device_bytes(program), options_.memory_limit_bytes, program.memory.alive_at_peak);
  for (const DeviceMemoryUse& device : program.memory.devices) {
    compare(device.total_bytes(), options_.device_memory_limit_bytes, device.alive_at_peak);
  }
  if (alive == nullptr) return excess;
  for (const LiveTensor& tensor : alive->all()) excess.alive_at_peak.insert(tensor.name);
  return excess;
}

void Compiler::refuse(const Program& program) const {
  const std::int64_t limit = options_.device_memory_limit_bytes;
  for (const DeviceMemoryUse& device : program.memory.devices) {
    if (limit <= 0 || device.total_bytes() <= limit) continue;
    const std::optional<SourceInfo> at = source_at(program, device.source_at_peak);
    throw OutOfMemory(
        str_cat("device ", device.device, " needs ", device.total_bytes(),
                " bytes of memory; the limit is ", limit, " bytes a device", phase_text(at)),
        peak_text(device.persistent_bytes, device.alive_at_peak, at));
  }
  throw OutOfMemory(str_cat("the program needs ", device_bytes(program),
                            " bytes of device memory; the limit is ", options_.memory_limit_bytes,
                            phase_text(source_at(program, program.memory.source_at_peak))),
                    peak_text(program));
}

}  // namespace pando
