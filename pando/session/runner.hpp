// Runs an executable.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pando/runtime/run_profile.hpp"
#include "pando/runtime/transfer_queue.hpp"
#include "pando/session/call_gate.hpp"
#include "pando/session/executable.hpp"
#include "pando/session/host_function_table.hpp"
#include "pando/session/local_replicas.hpp"
#include "pando/session/variable_transfers.hpp"

namespace pando {

class Device;
class Engine;
class ReplicaTeam;
class RunnerState;

/// One array the caller gives for a stream, in C order: `count` transfers, each of one element of
/// the stream's shape for every local replica, in the order of their ranks. The k-th load or store
/// of a run uses transfer k modulo count. Or a queue of such transfers, which the program loads
/// from or stores to while it runs, wherever it had come in the run before.
struct StreamBuffer {
  std::byte* data = nullptr;
  std::int64_t count = 1;
  std::shared_ptr<TransferQueue> queue = {};
  /// Bytes from an element of the array to that of the next transfer, and of the next local
  /// replica; those of elements one after the other where they are not given. Elements of input
  /// may be the same memory (0) and lie backwards.
  std::optional<std::int64_t> transfer_stride = {};
  std::optional<std::int64_t> replica_stride = {};
};

/// A stream that a run loaded, or stored to, more often than the caller's array has transfers.
struct RepeatedStream {
  std::string stream;
  bool host_to_device = true;
  std::int64_t transfers = 0;  // of the run
  std::int64_t count = 0;      // of the array
};

struct InstructionTime {
  std::string function;  // that it belongs to
  std::string op;
  std::string location;
  std::string kernel;
  std::int64_t calls = 0;
  double seconds = 0;
};

/// Owns the memory, engines and threads of the local replicas of a program, each on a thread of its
/// own or, if its ops are on several virtual devices, one thread per device. Methods may be called
/// from any thread; those that touch what a run does wait for the one before, and throw Interrupted
/// when should_stop of the options says so meanwhile. Different runners run at the same time.
class Runner {
 public:
  enum class Afterwards : std::uint8_t { Stay, Detach };

  /// `arrays`: see host_arrays_of; they are read and written until the runner goes. Throws
  /// ValueError for replicas on another target than that of the executable, or another number.
  Runner(std::shared_ptr<const Executable> executable, HostArrays arrays, LocalReplicas replicas,
         const RunnerOptions& options);
  ~Runner();

  const Executable& executable() const { return *executable_; }
  /// Those that run here, ascending.
  const std::vector<int>& local_replicas() const { return replicas_.world().local_ranks(); }

  /// Allocates device memory and uploads constants. Throws OutOfMemory when this machine has too
  /// little.
  void attach();
  void detach();
  bool is_attached() const { return attached_; }

  /// The functions of the host that the program calls: all must be set before it runs.
  HostFunctionTable& host_functions() { return host_functions_; }

  /// Takes the buffers in the order of the executable's streams. Returns the streams whose array it
  /// went over more than once. Throws RuntimeFault with the number of the replica that failed, and
  /// Interrupted; variables keep what the replicas had written by then.
  std::vector<RepeatedStream> run(const std::vector<StreamBuffer>& inputs,
                                  const std::vector<StreamBuffer>& outputs);
  /// Host arrays -> device memory and remote buffers of every local replica for every variable, or
  /// for those with `ids` alone, then the weights-from-host program; what it brings of others is
  /// what devices have. Throws ValueError for an id that the program does not have, with those like
  /// it, before anything is moved.
  void weights_from_host(const std::optional<std::vector<std::string>>& ids = std::nullopt);
  /// The weights-to-host program, then device memory and remote buffers -> the entries of the host
  /// arrays that belong to local replicas or their groups; the other entries stay as they are.
  /// Afterwards::Detach detaches, also when this throws, and then variables that have left take
  /// memory once, not twice.
  void weights_to_host(const std::optional<std::vector<std::string>>& ids = std::nullopt,
                       Afterwards afterwards = Afterwards::Stay);

  /// Total times by instruction of the first local replica since the last attach; empty unless
  /// profiling.
  std::vector<InstructionTime> trace() const;
  /// What the first local replica did since the last attach, by phase of the main program and
  /// device; empty unless profiling.
  std::vector<PhaseProfile> phases() const;
  /// When its devices and I/O threads did what in the last run; empty unless profiling.
  std::vector<TimelineLane> timeline() const;
  /// Highest number of bytes of device memory actually held, of the replica that holds most.
  std::int64_t actual_peak_bytes() const;
  /// Remote transfers of the file tier since the last attach, of all local replicas together.
  IoReport io_report() const;
  /// How files of remote buffers are read and written, for people (FileIo::describe); empty when no
  /// buffer is in a file.
  std::string io_method() const { return replicas_.io_method(executable_->program()); }
  /// Which implementation each kernel uses and why not the ones preferred to it.
  std::string explain() const;

  /// The raw state of its replicas, for checkpoints; not to be used after the runner has gone.
  RunnerState state();

 private:
  friend class RunnerState;

  void require_attached(const char* what) const;
  /// Detaches in a call that has passed the gate.
  void release();

  std::shared_ptr<const Executable> executable_;
  LocalReplicas replicas_;
  VariableTransfers variables_;
  HostFunctionTable host_functions_;
  const bool profiles_, flushes_denormals_, checks_finite_;
  std::function<bool()> should_stop_;
  StopCheck stop_check_;  // of the calling thread
  // While attached; devices and engines one per local replica.
  std::unique_ptr<ReplicaTeam> team_;
  std::unique_ptr<RunFolder> run_folder_;  // of the file tier
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::atomic<bool> attached_ = false;
  /// Whether devices may have values that the weights-from-host program would not bring them.
  bool has_newer_values_ = false;
  mutable CallGate gate_;
};

}  // namespace pando
