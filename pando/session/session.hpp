// A compiled program with its state: what front ends run.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pando/backends/cpu/machine_code.hpp"
#include "pando/base/log.hpp"
#include "pando/ir/graph.hpp"
#include "pando/runtime/remote_settings.hpp"
#include "pando/runtime/run_profile.hpp"
#include "pando/runtime/world.hpp"
#include "pando/session/call_gate.hpp"
#include "pando/session/executable.hpp"

namespace pando {

class Device;
class Engine;
class FileIo;
class ReplicaTeam;
class RowSnapshot;
class RunFolder;
class Target;
struct DeviceKind;
struct DeviceSettings;
struct RemoteTier;
struct StepProgram;

struct SessionOptions {
  /// What runs the program: the kind of device, with an argument after a colon if the kind takes
  /// one (device_table.hpp).
  std::string device = "cpu";
  /// 0: no limit. Else bytes of device memory (persistent + frame) of one replica; a program that
  /// needs more is refused with OutOfMemory.
  std::int64_t memory_limit_bytes = 0;
  /// The same for what each virtual device of a replica needs.
  std::int64_t device_memory_limit_bytes = 0;
  /// Of all devices of all local replicas together, which share them evenly (at least one each).
  /// 0: every core.
  int num_threads = 0;
  /// How long a replica waits for another one in a collective.
  double collective_timeout_seconds = 600;
  /// Whether a write in place is refused when nothing orders it and other accesses of the tensor.
  bool check_inplace_ambiguity = true;
  /// Whether a log2 scale outside [-32, 32) of a float8 op stops the run with ApplicationFault;
  /// otherwise the scale is used as it is.
  bool check_log2_scales = true;
  /// Whether Softmax subtracts the maximum first (see use_plain_softmax).
  bool stable_softmax = true;
  /// Results are the same in any case.
  MachineCode machine_code = MachineCode::Automatic;
  /// Where remote buffers live.
  RemoteSettings remote = {};
  /// Record the time of every instruction (Session::trace).
  bool profile = false;
  /// Called between instructions every few milliseconds; returning true stops the run with
  /// Interrupted (weights stay as they are).
  std::function<bool()> should_stop = {};
  /// Folder where compiled programs are kept for later processes (executable_cache.hpp); empty:
  /// none are kept.
  std::string cache_folder = {};
  /// What the names of its files end with; empty: the usual one.
  std::string cache_suffix = {};
  /// Of all programs in that folder together, in bytes; those not used for longest go. 0: no limit.
  std::int64_t cache_limit_bytes = std::int64_t{1} << 30;
  /// Makes the world whose ranks are the replicas, while the session is made; empty: all are
  /// threads of this process. A session in each process of a world, made of the same program, has
  /// the same methods called in the same order: whatever runs replicas waits for the others.
  WorldFactory world = {};
  /// Told, while the session is made, that its program is compiled and what is wrong with the
  /// cache.
  LogFunction log = {};
  /// Called after every stage of compilation: see CompileOptions. Not for a program from the cache.
  std::function<void(const std::string& stage, const Ir& ir)> after_stage = {};
  std::function<void(const std::string& stage, const StepProgram& steps)> after_steps = {};
};

/// CompileOptions::prefetch_bytes to begin with.
inline std::int64_t prefetch_bytes_of(const SessionOptions& options) {
  return options.remote.uses_files() ? options.remote.prefetch_bytes : 0;
}

/// One array the caller gives for a stream, in C order: `count` transfers, each of one element of
/// the stream's shape for every local replica, in the order of their ranks. The k-th load or store
/// of a run uses transfer k modulo count.
struct StreamBuffer {
  std::byte* data = nullptr;
  std::int64_t count = 1;
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

struct StepReport {
  double compile_seconds = 0;
  std::vector<std::pair<std::string, double>> stages;  // compile stage, seconds
  std::string cache_file;  // that the program was read from; empty: it was compiled
};

/// What a session held at one moment. Methods may be called from any thread, also while the session
/// runs.
class StateSnapshot {
 public:
  /// The state of one replica: its tensors by index, the rows of its remote buffers.
  struct Replica {
    std::int64_t rank = 0;
    std::map<std::int64_t, std::vector<std::byte>> persistent;
    std::vector<std::shared_ptr<RowSnapshot>> remote;
  };
  StateSnapshot(std::vector<Replica> replicas, std::size_t row_bytes);
  /// Cancels it.
  ~StateSnapshot();
  StateSnapshot(const StateSnapshot&) = delete;
  StateSnapshot& operator=(const StateSnapshot&) = delete;

  /// The value of a state tensor of one replica. ValueError.
  const std::vector<std::byte>& persistent(std::int64_t replica, std::int64_t index) const;
  /// A row of a remote buffer, an index into Program::remote_buffers.
  struct Row {
    std::int64_t replica = 0;
    std::int64_t buffer = 0;
    std::int64_t slot = 0;
  };
  /// Reads one more row, in any order, to the beginning of `to`, where the largest must fit;
  /// nullopt when none is left. Throws ValueError and RuntimeFault (a damaged row, a detached
  /// session).
  std::optional<Row> next_row(std::byte* to, std::size_t bytes) const;
  void cancel() const;

 private:
  std::vector<Replica> replicas_;
  std::size_t row_bytes_;
};

/// Compiles an Ir (which it clones), or reads what an earlier session compiled, and runs its local
/// replicas (all of them unless SessionOptions::world says otherwise), each on a thread of its own
/// or, if its ops are on several virtual devices, one thread per device. Methods may be called from
/// any thread; those that touch what a run does wait for the one before, and throw Interrupted when
/// options.should_stop says so meanwhile. Different sessions run at the same time.
class Session {
 public:
  /// Errors: Error (ambiguity, invalid graph), OutOfMemory, NotSupported.
  explicit Session(const Ir& ir, SessionOptions options = {});
  ~Session();

  /// Streams in use, in a fixed order; `run` takes its buffers in the order of these lists.
  const std::vector<StreamDesc>& input_streams() const { return input_streams_; }
  const std::vector<StreamDesc>& output_streams() const { return output_streams_; }

  /// Allocates device memory and uploads constants and variables from their host arrays. Throws
  /// OutOfMemory when this machine has too little.
  void attach();
  void detach();
  bool is_attached() const { return attached_; }

  /// Returns the streams whose array it went over more than once. Throws RuntimeFault with the
  /// number of the replica that failed, and Interrupted; variables keep what the replicas had
  /// written by then.
  std::vector<RepeatedStream> run(const std::vector<StreamBuffer>& inputs,
                                  const std::vector<StreamBuffer>& outputs);
  /// Host arrays -> device memory and remote buffers of every local replica for every variable,
  /// then the weights-from-host program.
  void weights_from_host();
  /// The weights-to-host program, then device memory and remote buffers -> the entries of the host
  /// arrays that belong to local replicas or their groups; the other entries stay as they are.
  void weights_to_host();

  const Program& program() const { return program_; }
  const StepReport& compile_report() const { return compile_report_; }
  std::int64_t num_replicas() const { return program_.replicas; }
  /// Those that this session runs, ascending.
  const std::vector<int>& local_replicas() const { return world_->local_ranks(); }
  /// Total times by instruction of the first local replica since the last attach; empty unless
  /// options.profile.
  std::vector<InstructionTime> trace() const;
  /// What the first local replica did since the last attach, by phase of the main program and
  /// device; empty unless options.profile.
  std::vector<PhaseProfile> phases() const;
  /// When its devices and I/O threads did what in the last run; empty unless options.profile.
  std::vector<TimelineLane> timeline() const;
  /// Highest number of bytes of device memory actually held, of the replica that holds most.
  std::int64_t actual_peak_bytes() const;
  /// Remote transfers of the file tier since the last attach, of all local replicas together.
  IoReport io_report() const;
  /// How files of remote buffers are read and written, for people (FileIo::describe); empty when no
  /// buffer is in a file.
  std::string io_method() const;

  /// Checksum of the compiled program, without where its ops were made.
  std::uint64_t fingerprint() const;

  // Raw device state of one local replica, for checkpoints. Errors: ValueError (no such tensor,
  // buffer, slot or local replica, or a wrong size), RuntimeFault (file tier).

  /// Indices of Program::persistent without the constants.
  std::vector<std::int64_t> state_tensors() const;
  /// The state as it is now. Values of persistent tensors are copied; remote rows are read while
  /// the session goes on, with `room_bytes` for copies of rows that are stored
  /// meanwhile. A snapshot before it is cancelled. Throws RuntimeFault when a remote value could
  /// not be stored.
  std::shared_ptr<StateSnapshot> snapshot(std::int64_t room_bytes) const;
  /// Persistent tensor `index` of Program::persistent.
  void write_persistent(std::int64_t replica, std::int64_t index, const std::byte* from,
                        std::size_t bytes);
  /// Slot `slot` of the `buffer`-th of Program::remote_buffers; waits until it is written.
  void write_remote(std::int64_t replica, std::int64_t buffer, std::int64_t slot,
                    const std::byte* from, std::size_t bytes);
  void read_remote(std::int64_t replica, std::int64_t buffer, std::int64_t slot, std::byte* to,
                   std::size_t bytes) const;

  /// One line per instruction.
  std::string disassembly() const;
  /// Which implementation each kernel uses and why not the ones preferred to it.
  std::string explain() const;

 private:
  /// A variable and the host array it shares with the caller's Ir.
  struct HostVariable {
    std::shared_ptr<HostArray> data;
    VariableSettings settings;
    std::size_t bytes = 0;            // of one entry of the host array
    std::size_t part_bytes = 0;       // of what one replica keeps
    std::int64_t remote_buffer = -1;  // index; -1: persistent tensor `persistent`
    std::size_t persistent = 0;
  };

  void make_world(const Ir& ir);
  void make_targets(const Ir& ir);
  Executable build(const Ir& ir);
  Executable build_or_load(const Ir& ir);
  void collect_variables(const Ir& ir);
  void require_attached(const char* what) const;
  void upload_constants(Engine& engine, const StopCheck& check) const;
  /// Whether the program keeps to the memory limit.
  bool fits(const Program& program) const;
  [[noreturn]] void refuse(const Program& program) const;
  RemoteTier make_remote(std::int64_t replica, Device& device) const;
  std::size_t num_local() const { return world_->local_ranks().size(); }
  /// Of an index into what there is one of per local replica.
  std::int64_t replica_of(std::size_t local) const { return world_->local_ranks()[local]; }
  /// Throws ValueError when `replica` is not local, or does not exist.
  Engine& engine_of(std::int64_t replica, const char* what) const;
  std::size_t checked_persistent(std::int64_t index, std::size_t bytes) const;
  std::size_t checked_slot(std::int64_t buffer, std::int64_t slot, std::size_t bytes) const;
  /// The first `bytes` of what a local replica keeps.
  void read_device(const HostVariable& variable, std::size_t local, std::byte* to,
                   std::size_t bytes, const StopCheck& check) const;
  /// For what the thread of a local replica waits for.
  StopCheck stop_check_of(std::size_t local) const;
  void upload(const HostVariable& variable, std::size_t local) const;
  void download(const HostVariable& variable) const;
  /// The same of a variable whose parts are on replicas of several processes, on the thread of each
  /// local replica: the members of a group bring them together.
  void download_parts(const HostVariable& variable, std::size_t local) const;
  bool has_parts_elsewhere(const HostVariable& variable) const;
  /// The entry of the host array that a replica starts with.
  std::byte* host_entry(const HostVariable& variable, std::int64_t replica) const;
  /// Whether no output lies in the memory of an input.
  bool are_outputs_apart(const std::vector<StreamBuffer>& buffers) const;
  std::vector<RepeatedStream> repeated_streams(const std::vector<StreamBuffer>& buffers) const;
  std::vector<StreamBuffer> buffers_by_stream(const std::vector<StreamBuffer>& inputs,
                                              const std::vector<StreamBuffer>& outputs) const;

  SessionOptions options_;
  Program program_;
  StepReport compile_report_;
  std::unique_ptr<DeviceKind> device_kind_;
  std::unique_ptr<DeviceSettings> device_settings_;
  std::unique_ptr<World> world_;
  std::vector<std::shared_ptr<Target>> targets_;  // one per local replica
  std::unique_ptr<ReplicaTeam> team_;             // while attached
  std::unique_ptr<RunFolder> run_folder_;         // while attached, of the file tier
  std::shared_ptr<FileIo> file_io_;               // of the file tier
  std::vector<std::unique_ptr<Device>> devices_;  // while attached, one per local replica
  std::vector<std::unique_ptr<Engine>> engines_;  // while attached, one per local replica
  std::vector<StreamDesc> input_streams_;
  std::vector<StreamDesc> output_streams_;
  std::vector<HostVariable> variables_;
  std::vector<ProgramConstant> constants_;
  StopCheck stop_check_;  // of the calling thread
  std::atomic<bool> attached_ = false;
  mutable CallGate gate_;
};

}  // namespace pando
