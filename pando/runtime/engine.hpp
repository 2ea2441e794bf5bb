// Runs a Program on the devices of one replica: memory, instruction loops, host streams.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pando/program/program.hpp"
#include "pando/runtime/communicator.hpp"
#include "pando/runtime/device.hpp"
#include "pando/runtime/device_team.hpp"
#include "pando/runtime/host_staging.hpp"
#include "pando/runtime/io_queue.hpp"
#include "pando/runtime/program_collectives.hpp"
#include "pando/runtime/remote_memory.hpp"
#include "pando/runtime/run_profile.hpp"

namespace pando {

/// A caller's array for one stream: `count` elements of the stream's shape in C order, `stride`
/// elements apart. The k-th load or store of a run uses element k modulo count.
struct StreamCursor {
  std::byte* data = nullptr;
  std::int64_t count = 1;
  std::int64_t stride = 1;
};

/// The remote buffers of a replica; see Engine.
struct RemoteTier {
  std::vector<std::unique_ptr<RemoteMemory>> memories;
  int io_threads = 2;
  std::int64_t staging_bytes = std::int64_t{256} << 20;
};

class Engine {
 public:
  /// Keeps references to `program`, `device` and `communicator`, which may be nullptr in a program
  /// without collectives; all replicas make their engines in one run. Kernels are prepared here, by
  /// `target`, none at run time. `should_stop` is
  /// asked on the thread that calls run, which runs device 0; other devices have threads of the
  /// engine's. `remote`: one memory per remote buffer; without, all are in RAM. Slow ones get
  /// `io_threads` and room for `staging_bytes` of stores under way.
  Engine(const Program& program, Target& target, Device& device, bool profile,
         std::function<bool()> should_stop, Communicator* communicator = nullptr,
         RemoteTier remote = {});

  /// One array per program stream, in the order of Program::streams. Throws RuntimeFault (bad
  /// remote offset, failed or damaged remote memory) and Interrupted; device memory stays valid.
  /// All remote transfers have ended when it returns.
  /// `outputs_apart`: no stream to the host lies in the memory of one from the host, of no replica.
  void run(const std::vector<StreamCursor>& streams, bool outputs_apart);
  /// The number of loads or stores that the last run did with each stream.
  const std::vector<std::int64_t>& stream_transfers() const { return positions_; }
  void run_weights_from_host();
  void run_weights_to_host();

  /// The first `bytes` of slot `slot` of remote buffer `buffer`, an index into
  /// Program::remote_buffers. Between runs. Throws RuntimeFault and, as all that waits here, what
  /// `check` does.
  void load_remote(std::size_t buffer, std::int64_t slot, std::byte* to, std::size_t bytes,
                   const StopCheck& check);
  /// The rest of the slot becomes zero. May go on until finish_remote.
  void store_remote(std::size_t buffer, std::int64_t slot, const std::byte* from, std::size_t bytes,
                    const StopCheck& check);
  /// Waits for the stores; throws the first error of one.
  void finish_remote(const StopCheck& check);
  /// The rows of every remote buffer as they are now, between runs; see RowSnapshot. Throws
  /// RuntimeFault when a value could not be stored.
  std::vector<std::shared_ptr<RowSnapshot>> snapshot_remote(
      const std::shared_ptr<SnapshotRoom>& room, const StopCheck& check);
  IoReport io_report() const { return io_ == nullptr ? IoReport{} : io_->report(); }
  /// The first `bytes` of persistent tensor `index`. Between runs, as write_persistent.
  void read_persistent(std::size_t index, std::byte* to, std::size_t bytes,
                       const StopCheck& check) const;
  /// The rest of the tensor becomes zero.
  void write_persistent(std::size_t index, const std::byte* from, std::size_t bytes,
                        const StopCheck& check);
  std::int64_t resident_bytes() const { return memory_->resident_bytes(); }

  /// nullptr unless profiling. Between runs.
  const RunProfile* profile() const { return profile_.get(); }

 private:
  struct PreparedInstruction {
    const Instruction* instruction;
    const Kernel* kernel = nullptr;
    const HostKernel* host_kernel = nullptr;  // the same, if the queues are direct
    std::size_t stream_bytes = 0;
    int first_operand = 0;  // into PreparedFunction::pointers when resolved
    int num_operands = 0;
    int first_pointer = 0;  // into pointers_ of a device: operands, then arguments of the callee
    bool has_scratch = false;
    /// A loop on several devices has a place per device in loop_counters_ from here on.
    std::int32_t first_counter = -1;
  };
  /// Where what was loaded last lies, and what entry functions have resolved of it.
  struct LoadedRow {
    struct Use {
      std::size_t function = 0, pointer = 0;
      std::int64_t offset = 0;
    };
    std::byte* place = nullptr;
    std::vector<Use> uses;
  };
  struct PreparedFunction {
    std::vector<PreparedInstruction> instructions;
    /// Entry functions run in one place: operand addresses are resolved once.
    std::vector<std::byte*> pointers;
    bool resolved = false;
    /// On several devices: by device, nullptr where it has nothing to do. Else empty.
    std::vector<const std::vector<StreamStep>*> streams;
  };

  bool remote_is_slow() const;
  void prepare_remote(const RemoteTier& tier);
  void prepare_queues();
  void prepare_team();
  void prepare_function(std::size_t index);
  int pointers_of(const Instruction& instruction) const;
  void resolve_entry(int function);
  void run_entry(int function);
  /// The part of device `device`.
  void run_function(int function, std::byte* frame, std::byte* const* arguments, int device);
  void run_instruction(int function, std::size_t index, std::byte* frame,
                       std::byte* const* arguments, int device);
  void execute(const PreparedInstruction& prepared, std::byte* const* operands, std::byte* frame,
               int device);
  void run_kernel(const PreparedInstruction& prepared, std::byte* const* operands, int device);
  void run_loop(const PreparedInstruction& prepared, std::byte* const* operands, std::byte* frame,
                int device);
  void run_if(const PreparedInstruction& prepared, std::byte* const* operands, std::byte* frame,
              int device);
  std::byte** arguments_of(const PreparedInstruction& prepared, int device) {
    return pointers_[static_cast<std::size_t>(device)].data() + prepared.first_pointer +
           prepared.num_operands;
  }
  Queue& queue_of(int device) const { return *queues_[static_cast<std::size_t>(device)]; }
  /// Returns when all that the device was asked for is done.
  void finish_device(int device);
  void signal_device(int device, int other);
  void take_signal(int device, int other);
  /// For the first iteration of a loop, which has none before it to wait for.
  void send_first_signals(const Function& body, int device);
  /// Takes the signals of a loop's last iteration, which has none after it to take them.
  void take_last_signals(const Function& body, int device);
  /// Between runs: all that `ask` asks the queue for is done when it returns.
  void move_now(const std::function<void(Queue&)>& ask, const StopCheck& check) const;
  std::byte* next_element(const PreparedInstruction& prepared);
  void move_host(const PreparedInstruction& prepared, std::byte* memory, int device);
  void print(PrintDesc print, const std::byte* value, int device);
  std::int64_t remote_slot(const Instruction& transfer, std::uint32_t offset) const;
  void transfer(const PreparedInstruction& prepared, std::byte* const* operands, int device);
  void load_in_memory(const PreparedInstruction& prepared, std::byte* row, std::byte* to,
                      std::int64_t slot, int device);
  void store_in_memory(const PreparedInstruction& prepared, const std::byte* from, std::byte* row,
                       std::int64_t slot, int device);
  const StopCheck& check_of(int device) const {
    return stop_checks_[static_cast<std::size_t>(device)];
  }
  /// Says what the device does now: that is what the transfer belongs to.
  TransferTag tag_of(const Instruction& transfer, int device) const;
  void timed_transfer(const PreparedInstruction& prepared, std::byte* const* operands, int device);
  void load_slow(const PreparedInstruction& prepared, std::byte* to, std::int64_t slot, int device);
  void store_slow(const PreparedInstruction& prepared, const std::byte* from, std::int64_t slot,
                  int device);
  void finish_load(const PreparedInstruction& prepared, std::byte* to, int device);
  void exchange(const Instruction& collective, std::byte* const* operands, int device);
  /// `collective`: its index in the program.
  void run_collective(std::size_t collective, std::byte* const* operands, int device);
  void wait_for_device(int device, int other);
  RemoteMemory& remote_of(const Instruction& transfer) const;
  /// From now on `slot` is at `place`.
  void place_row(std::int32_t slot, std::byte* place);
  std::byte* address(const OperandRef& ref, std::byte* frame, std::byte* const* arguments) const;
  void poll_stop(int device);
  /// Throws Interrupted, DeviceStopped or ReplicaStopped when the run is to end.
  void check_stop(int device) const;

  const Program& program_;
  Device& device_;
  const bool kernels_use_host_memory_;
  std::unique_ptr<MemoryBlock> memory_;         // persistent, then the frame
  std::unique_ptr<MemoryBlock> loop_counters_;  // of loops on several devices, if there are any
  std::int32_t num_counters_ = 0;
  std::byte* persistent_ = nullptr;
  std::byte* frame_ = nullptr;
  std::vector<std::shared_ptr<const Kernel>> kernels_;
  std::vector<PreparedFunction> functions_;
  /// By virtual device. Functions do not call themselves: one place for each instruction's is
  /// enough.
  std::vector<std::vector<std::byte*>> pointers_;
  std::vector<std::unique_ptr<Queue>> queues_;  // by virtual device
  /// By virtual device: its queue's latest point that was signalled to another one.
  std::vector<std::atomic<Queue::Event>> signalled_;
  /// By virtual device, for what is done when its instruction ends.
  std::vector<HostStaging> to_host_, from_host_;
  std::vector<HostStaging> loads_;  // by transfer, of slow memory
  std::vector<StreamCursor> streams_;
  std::vector<std::int64_t> positions_;  // per stream, within the run
  std::unique_ptr<RunProfile> profile_;  // when asked for
  std::vector<std::unique_ptr<RemoteMemory>> remote_;
  std::unique_ptr<IoQueue> io_;           // if any of them is slow
  std::vector<IoQueue::Ticket> tickets_;  // by transfer
  std::vector<LoadedRow> rows_;           // by Instruction::row
  bool may_read_host_in_place_ = false;   // in this run
  Communicator* communicator_;
  std::unique_ptr<ProgramCollectives> collectives_;  // if the program has any
  std::function<bool()> should_stop_;
  std::vector<StopCheck> stop_checks_;  // by device, for what it waits for
  int polls_ = 0;                       // of device 0
  double last_poll_ = 0;
  std::unique_ptr<DeviceTeam> device_team_;  // of several devices; last: its threads use the rest
};

}  // namespace pando
