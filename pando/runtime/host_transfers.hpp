// What a program moves between its devices and the host: streams, prints, and calls of the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "pando/program/program.hpp"
#include "pando/runtime/host_function.hpp"
#include "pando/runtime/loaded_rows.hpp"
#include "pando/runtime/prepared_program.hpp"
#include "pando/runtime/run_profile.hpp"
#include "pando/runtime/transfer_queue.hpp"
#include "pando/runtime/virtual_device.hpp"

namespace pando {

/// A caller's array for one stream: `count` elements of the stream's shape in C order, `stride`
/// bytes apart. The k-th load or store of a run uses element k modulo count. Or a queue, of
/// which the replica has part `part`.
struct StreamCursor {
  std::byte* data = nullptr;
  std::int64_t count = 1;
  std::int64_t stride = 0;
  TransferQueue* queue = nullptr;
  std::int64_t part = 0;
};

class HostTransfers {
 public:
  /// `replica`: in titles of prints. `profile` may be nullptr.
  HostTransfers(const Program& program, int replica, LoadedRows& rows, RunProfile* profile)
      : program_(program),
        replica_(replica),
        rows_(rows),
        profile_(profile),
        calls_(program.host_calls.size()) {}

  /// The arrays of the next run; `may_read_in_place`: kernels may use input where it lies.
  void set_arrays(const std::vector<StreamCursor>& streams, bool may_read_in_place);
  /// One for each of Program::host_calls, for the runs that follow.
  void set_functions(std::vector<std::shared_ptr<HostFunctionQueue>> functions) {
    functions_ = std::move(functions);
  }
  void begin_run() { positions_.assign(program_.streams.size(), 0); }
  /// Per stream, the loads or stores of this run, or of the last one.
  const std::vector<std::int64_t>& positions() const { return positions_; }

  void load(const PreparedInstruction& load, std::byte* to, VirtualDevice& device);
  void store(const PreparedInstruction& store, const std::byte* from, VirtualDevice& device);
  void print(const Instruction& print, const std::byte* value, VirtualDevice& device) const;
  /// The outputs are there when it returns.
  void call(const Instruction& call, std::byte* const* operands, VirtualDevice& device);

 private:
  std::byte* next_element(const PreparedInstruction& transfer);
  /// One transfer of a queue, complete when it returns.
  void move_queued(const StreamCursor& cursor, const std::byte* from, std::byte* to,
                   std::size_t bytes, VirtualDevice& device);

  const Program& program_;
  const int replica_;
  LoadedRows& rows_;
  RunProfile* profile_;
  std::vector<StreamCursor> streams_;
  std::vector<std::int64_t> positions_;
  bool may_read_in_place_ = false;
  // By Program::host_calls. Each is made by one device, so its memory is used again.
  std::vector<std::shared_ptr<HostFunctionQueue>> functions_;
  std::vector<std::shared_ptr<HostCall>> calls_;
};

}  // namespace pando
