#include "pando/session/runner.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "pando/base/error.hpp"
#include "pando/runtime/engine.hpp"
#include "pando/runtime/replica_team.hpp"
#include "pando/session/memory_text.hpp"

namespace pando {
namespace {

void require_fitting_queue(const TransferQueue& queue, const StreamDesc& stream,
                           std::int64_t parts) {
  if (queue.is_host_to_device() == stream.host_to_device && queue.part_bytes() == stream.bytes() &&
      queue.parts() == parts) {
    return;
  }
  const auto direction = [](bool host_to_device) {
    return host_to_device ? "to the device" : "to the host";
  };
  throw ValueError(str_cat("stream '", stream.id, "': wanted a queue ",
                           direction(stream.host_to_device), " with ", parts, " parts of ",
                           stream.bytes(), " bytes; given one ",
                           direction(queue.is_host_to_device()), " with ", queue.parts(),
                           " parts of ", queue.part_bytes(), " bytes"));
}

/// Holds the queues among the buffers of a run while it lives.
class QueuesInRun {
 public:
  explicit QueuesInRun(const std::vector<StreamBuffer>& buffers) {
    try {
      for (const StreamBuffer& buffer : buffers) {
        if (buffer.queue == nullptr) continue;
        buffer.queue->begin_run();
        held_.push_back(buffer.queue);
      }
    } catch (...) {
      release();
      throw;
    }
  }
  ~QueuesInRun() { release(); }
  QueuesInRun(const QueuesInRun&) = delete;
  QueuesInRun& operator=(const QueuesInRun&) = delete;

 private:
  void release() {
    for (const auto& queue : held_) queue->end_run();
  }

  std::vector<std::shared_ptr<TransferQueue>> held_;
};

/// Those of the program's streams, in its order.
std::vector<StreamBuffer> buffers_by_stream(const Executable& executable,
                                            const std::vector<StreamBuffer>& inputs,
                                            const std::vector<StreamBuffer>& outputs,
                                            std::int64_t parts) {
  const std::size_t num_inputs = executable.input_streams().size();
  const std::size_t num_outputs = executable.output_streams().size();
  if (inputs.size() != num_inputs || outputs.size() != num_outputs) {
    throw ValueError(str_cat("wanted ", num_inputs, " input and ", num_outputs,
                             " output buffers; given ", inputs.size(), " and ", outputs.size()));
  }
  std::vector<StreamBuffer> buffers;
  buffers.reserve(executable.program().streams.size());
  std::size_t next_input = 0, next_output = 0;
  for (const StreamDesc& stream : executable.program().streams) {
    const StreamBuffer& buffer =
        stream.host_to_device ? inputs[next_input++] : outputs[next_output++];
    if (buffer.queue != nullptr) {
      require_fitting_queue(*buffer.queue, stream, parts);
    } else if (buffer.count < 1) {
      throw ValueError(str_cat("stream '", stream.id, "' was given no elements"));
    }
    buffers.push_back(buffer);
  }
  return buffers;
}

/// Where the elements of a caller's array are.
struct ArrayLayout {
  std::int64_t bytes = 0;  // of one element
  std::int64_t transfers = 0, transfer_stride = 0;
  std::int64_t replicas = 0, replica_stride = 0;

  ArrayLayout(const StreamBuffer& buffer, const StreamDesc& stream, std::int64_t local_replicas)
      : bytes(stream.bytes()),
        transfers(buffer.count),
        transfer_stride(buffer.transfer_stride.value_or(local_replicas * bytes)),
        replicas(local_replicas),
        replica_stride(buffer.replica_stride.value_or(bytes)) {}

  /// Relative to the first element of the array.
  std::int64_t begin() const {
    return std::min<std::int64_t>(0, (transfers - 1) * transfer_stride) +
           std::min<std::int64_t>(0, (replicas - 1) * replica_stride);
  }
  std::int64_t end() const {
    return bytes + std::max<std::int64_t>(0, (transfers - 1) * transfer_stride) +
           std::max<std::int64_t>(0, (replicas - 1) * replica_stride);
  }
  /// Whether the elements are nested without sharing memory: all of one dimension between two
  /// neighbours of the other.
  bool is_apart() const {
    if (bytes == 0) return true;
    std::pair inner{std::abs(replica_stride), replicas};
    std::pair outer{std::abs(transfer_stride), transfers};
    if (outer.second == 1) outer.first = std::numeric_limits<std::int64_t>::max();
    if (inner.second == 1) inner.first = bytes;
    if (inner.first > outer.first) std::swap(inner, outer);
    const bool inner_fits = inner.second == 1 || inner.first >= bytes;
    return inner_fits &&
           (outer.second == 1 || outer.first >= (inner.second - 1) * inner.first + bytes);
  }
};

/// Refuses arrays that elements of outputs would share.
void check_arrays(const std::vector<StreamDesc>& streams, const std::vector<StreamBuffer>& buffers,
                  std::int64_t replicas) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].queue != nullptr || streams[i].host_to_device) continue;
    const ArrayLayout layout(buffers[i], streams[i], replicas);
    if (layout.is_apart()) continue;
    throw ValueError(str_cat(
        "stream '", streams[i].id, "': wanted an array with memory of its own for each of ",
        layout.transfers, " transfers of ", replicas, " replicas, of ", layout.bytes,
        " bytes each; given strides of ", layout.transfer_stride, " bytes from transfer to ",
        "transfer and ", layout.replica_stride, " from replica to replica"));
  }
}

/// Whether no output lies in the memory of an input.
bool are_outputs_apart(const std::vector<StreamDesc>& streams,
                       const std::vector<StreamBuffer>& buffers, std::int64_t replicas) {
  const auto range_of = [&](std::size_t stream) {
    if (buffers[stream].queue != nullptr) return std::pair{std::uintptr_t{0}, std::uintptr_t{0}};
    const ArrayLayout layout(buffers[stream], streams[stream], replicas);
    const auto first = reinterpret_cast<std::uintptr_t>(buffers[stream].data);
    return std::pair{first + static_cast<std::uintptr_t>(layout.begin()),
                     first + static_cast<std::uintptr_t>(layout.end())};
  };
  for (std::size_t output = 0; output < buffers.size(); ++output) {
    if (streams[output].host_to_device) continue;
    const auto [begin, end] = range_of(output);
    for (std::size_t input = 0; input < buffers.size(); ++input) {
      if (!streams[input].host_to_device) continue;
      const auto [input_begin, input_end] = range_of(input);
      if (begin < input_end && input_begin < end) return false;
    }
  }
  return true;
}

std::vector<RepeatedStream> repeated_streams(const std::vector<StreamDesc>& streams,
                                             const std::vector<StreamBuffer>& buffers,
                                             const std::vector<std::unique_ptr<Engine>>& engines) {
  std::vector<RepeatedStream> repeated;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const StreamDesc& stream = streams[i];
    if (buffers[i].queue != nullptr) continue;
    std::int64_t transfers = 0;
    for (const auto& engine : engines) {
      transfers = std::max(transfers, engine->stream_transfers()[i]);
    }
    // There is always one more of what has no bytes.
    if (transfers > buffers[i].count && num_elements(stream.shape) > 0) {
      repeated.push_back({stream.id, stream.host_to_device, transfers, buffers[i].count});
    }
  }
  return repeated;
}

void upload_constants(const Executable& executable, Engine& engine, const StopCheck& check) {
  for (const ProgramConstant& constant : executable.constants()) {
    engine.persistent().write(constant.persistent, constant.data->data, constant.data->bytes,
                              check);
  }
}

}  // namespace

Runner::Runner(std::shared_ptr<const Executable> executable, HostArrays arrays,
               LocalReplicas replicas, const RunnerOptions& options)
    : executable_(std::move(executable)),
      replicas_(std::move(replicas)),
      variables_(*executable_, std::move(arrays), replicas_.world().local_ranks()),
      host_functions_(executable_->program()),
      profiles_(options.profile),
      flushes_denormals_(options.flush_denormals),
      checks_finite_(options.check_finite),
      should_stop_(options.should_stop),
      stop_check_(stop_check(options.should_stop)) {
  if (replicas_.world().size() != executable_->program().replicas) {
    throw ValueError(str_cat("the program is for ", executable_->program().replicas,
                             " replicas; given ", replicas_.world().size()));
  }
  const std::string target = replicas_.target(0)->identity();
  if (target == executable_->target()) return;
  throw ValueError(str_cat("the program was compiled for another target: wanted '",
                           executable_->target(), "', given '", target, "'; compile it again"));
}

Runner::~Runner() = default;

void Runner::attach() {
  const CallGate::Pass pass(gate_, stop_check_);
  if (!engines_.empty()) return;
  const Program& program = executable_->program();
  auto team = std::make_unique<ReplicaTeam>(replicas_.world(), should_stop_);
  run_folder_ = replicas_.make_folder(program);
  std::vector<std::unique_ptr<Device>> devices(replicas_.size());
  std::vector<std::unique_ptr<Engine>> engines(replicas_.size());
  // Each replica makes its own: memory is first touched, and kernels prepared, where they are used.
  const std::uint64_t checksum = team->has_replicas_elsewhere() ? executable_->fingerprint() : 0;
  const auto make_engine = [&](int local) {
    team->check_same_program(local, checksum);
    const auto i = static_cast<std::size_t>(local);
    std::function<bool()> should_stop = should_stop_;
    if (program.replicas > 1) should_stop = team->should_stop(local);
    const StopCheck check = stop_check(should_stop);
    devices[i] = replicas_.make_device(i);
    engines[i] = std::make_unique<Engine>(
        program, *replicas_.target(i), *devices[i], team->communicator(local),
        replicas_.make_remote(program, i, *devices[i], run_folder_.get()),
        EngineSettings{profiles_, flushes_denormals_, checks_finite_, std::move(should_stop)});
    upload_constants(*executable_, *engines[i], check);
  };
  try {
    team->run(make_engine);
  } catch (const OutOfMemory& error) {
    run_folder_.reset();
    throw OutOfMemory(error.what(), peak_text(program));
  } catch (...) {
    run_folder_.reset();
    throw;
  }
  team_ = std::move(team);
  devices_ = std::move(devices);
  engines_ = std::move(engines);
  attached_ = true;
  has_newer_values_ = false;
}

void Runner::detach() {
  const CallGate::Pass pass(gate_, stop_check_);
  release();
}

void Runner::release() {
  attached_ = false;
  engines_.clear();
  devices_.clear();
  run_folder_.reset();
  team_.reset();
  replicas_.release_files();
}

void Runner::require_attached(const char* what) const {
  if (!engines_.empty()) return;
  throw ValueError(str_cat(what, " needs a session that is attached to a device: attach it first"));
}

std::vector<RepeatedStream> Runner::run(const std::vector<StreamBuffer>& inputs,
                                        const std::vector<StreamBuffer>& outputs) {
  const CallGate::Pass pass(gate_, stop_check_);
  require_attached("run");
  const std::vector<StreamDesc>& streams = executable_->program().streams;
  const auto replicas = static_cast<std::int64_t>(replicas_.size());
  const std::vector<StreamBuffer> buffers =
      buffers_by_stream(*executable_, inputs, outputs, replicas);
  check_arrays(streams, buffers, replicas);
  const auto functions = host_functions_.of_calls();
  const QueuesInRun queues(buffers);
  const bool outputs_apart = are_outputs_apart(streams, buffers, replicas);
  has_newer_values_ = true;
  team_->run([&](int local) {
    std::vector<StreamCursor> cursors;
    cursors.reserve(buffers.size());
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const StreamBuffer& buffer = buffers[i];
      const ArrayLayout layout(buffer, streams[i], replicas);
      std::byte* const first =
          buffer.queue != nullptr ? nullptr : buffer.data + local * layout.replica_stride;
      cursors.push_back({first, buffer.count, layout.transfer_stride, buffer.queue.get(), local});
    }
    Engine& engine = *engines_[static_cast<std::size_t>(local)];
    engine.set_host_functions(functions);
    engine.run(cursors, outputs_apart);
  });
  return repeated_streams(streams, buffers, engines_);
}

void Runner::weights_from_host(const std::optional<std::vector<std::string>>& ids) {
  const CallGate::Pass pass(gate_, stop_check_);
  require_attached("weights_from_host");
  const VariableTransfers::Selection variables = ids ? variables_.with_ids(*ids) : variables_.all();
  // The program reads also what is not written now.
  const bool saves_others = ids.has_value() && has_newer_values_;
  team_->run([&](int index) {
    const auto local = static_cast<std::size_t>(index);
    const StopCheck check = stop_check(team_->should_stop(index));
    if (saves_others) engines_[local]->run_weights_to_host();
    variables_.upload(variables, local, *engines_[local], check);
    engines_[local]->remote().finish(check);
    engines_[local]->run_weights_from_host();
  });
  if (!ids) has_newer_values_ = false;
}

void Runner::weights_to_host(const std::optional<std::vector<std::string>>& ids,
                             Afterwards afterwards) {
  const CallGate::Pass pass(gate_, stop_check_);
  require_attached("weights_to_host");
  const VariableTransfers::Selection variables = ids ? variables_.with_ids(*ids) : variables_.all();
  const bool last = afterwards == Afterwards::Detach;
  const auto at_end = [&](Runner* runner) { runner->release(); };
  const std::unique_ptr<Runner, decltype(at_end)> detaches(last ? this : nullptr, at_end);
  team_->run([&](int index) {
    const auto local = static_cast<std::size_t>(index);
    engines_[local]->run_weights_to_host();
    if (last) engines_[local]->persistent().discard_frames();
    variables_.download_parts(variables, local, *engines_[local], team_->communicator(index),
                              stop_check(team_->should_stop(index)));
  });
  has_newer_values_ = false;
  variables_.download(variables, engines_, last, stop_check_);
}

}  // namespace pando
