#include "pando/session/session.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>

#include "pando/backends/cpu/cpu_backend.hpp"
#include "pando/base/error.hpp"
#include "pando/compile/pipeline.hpp"
#include "pando/ops/ops.hpp"
#include "pando/program/disassembly.hpp"
#include "pando/runtime/engine.hpp"
#include "pando/transforms/dependencies.hpp"
#include "pando/transforms/plain_softmax.hpp"
#include "pando/transforms/scale_checks.hpp"

namespace pando {
namespace {

void check_supported(const Ir& ir) {
  if (ir.replication_factor > 1) {
    throw NotSupported(str_cat("replication_factor ", ir.replication_factor,
                               ": programs of more than one replica cannot be run yet"));
  }
  const auto graphs = ir.graphs();
  const bool empty = std::all_of(graphs.begin(), graphs.end(),
                                 [](const Graph* graph) { return graph->ops().empty(); });
  if (empty) {
    throw std::runtime_error(str_cat("The Ir ", ir.id(),
                                     " has no graphs with ops: there is "
                                     "nothing to run"));
  }
}

std::string peak_text(const Program& program) {
  std::string text =
      str_cat("persistent memory (variables, constants): ", program.memory.persistent_bytes,
              " bytes; alive at the peak:");
  for (const LiveTensor& tensor : program.memory.alive_at_peak) {
    text += str_cat("\n  ", tensor.bytes, " bytes  ", tensor.name);
    if (!tensor.location.empty()) text += str_cat("  (", tensor.location, ")");
  }
  return text;
}

}  // namespace

Session::Session(const Ir& ir, SessionOptions options) : options_(std::move(options)) {
  const auto start = std::chrono::steady_clock::now();
  op_registry();
  check_supported(ir);
  if (options_.check_inplace_ambiguity) check_inplace_ambiguity(ir);
  backend_ = make_cpu_backend(options_.num_threads);
  const std::unique_ptr<Ir> copy = ir.clone();
  for (Graph* graph : copy->graphs()) {
    if (options_.check_log2_scales) check_log2_scales(*graph);
    if (!options_.stable_softmax) use_plain_softmax(*graph);
  }
  program_ = compile(*copy, *backend_, {}, compile_report_.stages);
  const std::int64_t bytes = program_.memory.persistent_bytes + program_.memory.peak_frame_bytes;
  if (options_.memory_limit_bytes > 0 && bytes > options_.memory_limit_bytes) {
    throw OutOfMemory(str_cat("the program needs ", bytes, " bytes of device memory; the limit is ",
                              options_.memory_limit_bytes),
                      peak_text(program_));
  }
  for (const StreamDesc& stream : program_.streams) {
    (stream.host_to_device ? input_streams_ : output_streams_).push_back(stream);
  }
  for (const PersistentTensor& tensor : program_.persistent) {
    const Tensor* source = copy->main_graph().find_tensor(tensor.id);
    for (const Graph* graph : copy->graphs()) {
      if (source == nullptr) source = graph->find_tensor(tensor.id);
    }
    internal_check(source != nullptr, "a persistent tensor must come from the Ir");
    host_variables_.emplace_back(tensor.id, source->data);
  }
  compile_report_.compile_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Session::~Session() = default;

void Session::attach() {
  const std::lock_guard lock(mutex_);
  if (engine_ != nullptr) return;
  try {
    engine_ = std::make_unique<Engine>(program_, *backend_, options_.profile, options_.should_stop);
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(error.what(), peak_text(program_));
  }
  for (std::size_t i = 0; i < program_.persistent.size(); ++i) {
    const auto& data = host_variables_[i].second;
    if (program_.persistent[i].is_variable || data == nullptr) continue;
    std::memcpy(engine_->persistent(i), data->data, data->bytes);
  }
}

void Session::detach() {
  const std::lock_guard lock(mutex_);
  engine_.reset();
}

void Session::run(const std::vector<StreamBuffer>& inputs,
                  const std::vector<StreamBuffer>& outputs) {
  const std::lock_guard lock(mutex_);
  if (engine_ == nullptr) {
    throw ValueError("the session is not attached to a device: use it inside `with session:`");
  }
  if (inputs.size() != input_streams_.size() || outputs.size() != output_streams_.size()) {
    throw ValueError(str_cat("wanted ", input_streams_.size(), " input and ",
                             output_streams_.size(), " output buffers; given ", inputs.size(),
                             " and ", outputs.size()));
  }
  std::vector<StreamCursor> cursors;
  cursors.reserve(program_.streams.size());
  std::size_t next_input = 0, next_output = 0;
  for (const StreamDesc& stream : program_.streams) {
    const StreamBuffer& buffer =
        stream.host_to_device ? inputs[next_input++] : outputs[next_output++];
    if (buffer.count < 1) {
      throw ValueError(str_cat("stream '", stream.id, "' was given no elements"));
    }
    cursors.push_back({buffer.data, buffer.count});
  }
  engine_->run(cursors);
}

void Session::weights_from_host() {
  const std::lock_guard lock(mutex_);
  if (engine_ == nullptr) {
    throw ValueError("weights_from_host needs an attached session: use it inside `with session:`");
  }
  for (std::size_t i = 0; i < program_.persistent.size(); ++i) {
    if (!program_.persistent[i].is_variable) continue;
    const auto& data = host_variables_[i].second;
    std::memcpy(engine_->persistent(i), data->data, data->bytes);
  }
  engine_->run_weights_from_host();
}

void Session::weights_to_host() {
  const std::lock_guard lock(mutex_);
  if (engine_ == nullptr) {
    throw ValueError("weights_to_host needs an attached session: use it inside `with session:`");
  }
  engine_->run_weights_to_host();
  for (std::size_t i = 0; i < program_.persistent.size(); ++i) {
    if (!program_.persistent[i].is_variable) continue;
    const auto& data = host_variables_[i].second;
    std::memcpy(data->data, engine_->persistent(i), data->bytes);
  }
}

std::vector<InstructionTime> Session::trace() const {
  const std::lock_guard lock(mutex_);
  std::vector<InstructionTime> result;
  if (engine_ == nullptr) return result;
  const auto& profile = engine_->profile();
  for (std::size_t f = 0; f < profile.size(); ++f) {
    for (std::size_t i = 0; i < profile[f].size(); ++i) {
      const Instruction& instruction = program_.functions[f].instructions[i];
      InstructionTime entry;
      if (instruction.source >= 0) {
        const SourceInfo& source = program_.sources[static_cast<std::size_t>(instruction.source)];
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

std::int64_t Session::actual_peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return engine_ == nullptr ? 0 : engine_->resident_bytes();
}

std::string Session::disassembly() const { return disassemble(program_); }

std::string Session::explain() const {
  std::string text;
  for (const KernelSpec& spec : program_.kernels) {
    text += spec.kind + ": " + backend_->prepare(spec)->explain() + "\n";
  }
  return text;
}

}  // namespace pando
