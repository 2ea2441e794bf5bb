// Runs a program on the virtual devices of one replica.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "pando/program/program.hpp"
#include "pando/runtime/communicator.hpp"
#include "pando/runtime/device.hpp"
#include "pando/runtime/device_signals.hpp"
#include "pando/runtime/device_team.hpp"
#include "pando/runtime/executor.hpp"
#include "pando/runtime/finite_checks.hpp"
#include "pando/runtime/host_transfers.hpp"
#include "pando/runtime/persistent_transfers.hpp"
#include "pando/runtime/prepared_program.hpp"
#include "pando/runtime/program_collectives.hpp"
#include "pando/runtime/program_memory.hpp"
#include "pando/runtime/remote_buffers.hpp"
#include "pando/runtime/remote_transfers.hpp"
#include "pando/runtime/run_profile.hpp"
#include "pando/runtime/virtual_device.hpp"

namespace pando {

struct EngineSettings {
  bool profile = false;
  /// Whether denormals count as zero; else the calling thread's floating point state stays.
  bool flush_denormals = true;
  /// Whether a kernel that makes NaN or an infinity stops the run (FiniteChecks).
  bool check_finite = false;
  /// Asked on the thread that calls run, which runs device 0; other devices have threads of the
  /// engine's. May be empty.
  std::function<bool()> should_stop;
};

/// Owns the parts of a run and says in what order they begin and end.
class Engine {
 public:
  /// Keeps references to all but `remote`; all replicas make their engines in one run. Kernels are
  /// prepared here, by `target`, none at run time.
  Engine(const Program& program, Target& target, Device& device, Communicator& communicator,
         RemoteTier remote, const EngineSettings& settings);

  /// One array per program stream, in the order of Program::streams. Throws RuntimeFault (bad
  /// remote offset, failed or damaged remote memory) and Interrupted; device memory stays valid.
  /// All remote transfers have ended when it returns.
  /// `outputs_apart`: no stream to the host lies in the memory of one from the host, of no replica.
  void run(const std::vector<StreamCursor>& streams, bool outputs_apart);
  /// One for each of Program::host_calls, before the first run of a program that has such.
  void set_host_functions(const std::vector<std::shared_ptr<HostFunctionQueue>>& functions) {
    host_.set_functions(functions);
  }
  void run_weights_from_host();
  void run_weights_to_host() { run_entry(program_.weights_to_host_function); }
  /// The number of loads or stores that the last run did with each stream.
  const std::vector<std::int64_t>& stream_transfers() const { return host_.positions(); }

  /// Between runs, as all that follows.
  RemoteBuffers& remote() { return remote_; }
  PersistentTransfers& persistent() { return persistent_; }
  std::int64_t resident_bytes() const { return memory_.resident_bytes(); }
  /// nullptr unless profiling.
  const RunProfile* profile() const { return profile_.get(); }

 private:
  void run_entry(int function);
  void run_devices(int function);

  const Program& program_;
  const bool kernels_use_host_memory_;
  std::unique_ptr<RunProfile> profile_;  // when asked for
  std::unique_ptr<const FiniteChecks> finite_checks_;
  std::unique_ptr<DeviceTeam> team_;  // of several devices
  std::vector<std::unique_ptr<VirtualDevice>> devices_;
  PreparedProgram prepared_;
  ProgramMemory memory_;
  RemoteBuffers remote_;
  HostTransfers host_;
  RemoteTransfers remote_transfers_;
  ProgramCollectives collectives_;
  PersistentTransfers persistent_;
  std::unique_ptr<DeviceSignals> signals_;  // of several devices
  std::vector<std::unique_ptr<Executor>> executors_;
};

}  // namespace pando
