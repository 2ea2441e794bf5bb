// Which instruction runs on which virtual device, and where devices wait for each other.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "pando/ir/graph.hpp"
#include "pando/program/program.hpp"

namespace pando {

/// The virtual device where `op` runs: of a DeviceCopy its destination, of an op
/// without one device 0.
std::int64_t device_of(const Op& op);

/// The virtual devices of all ops of `ir`, ascending; never empty.
std::vector<std::int64_t> devices_of(const Ir& ir);

/// Whether the ops of `graph` itself run on several devices.
bool is_on_several_devices(const Graph& graph);

/// Something that instructions share: a range of memory, a stream, a remote buffer, ...
struct AccessSpace {
  enum class Kind : std::uint8_t { Frame, Argument, Global, Effect };
  Kind kind = Kind::Frame;
  std::int32_t index = 0;   // Frame, Global: device; Argument: slot; Effect: instruction kind
  std::int32_t target = 0;  // Effect: stream, remote buffer
  auto operator<=>(const AccessSpace&) const = default;
};

/// How one instruction uses [begin, end) of a space.
struct Access {
  AccessSpace space;
  std::int64_t begin = 0;
  std::int64_t end = 1;
  bool write = true;
};

/// Turns a sequence of instructions into one stream per device that keeps the order of all
/// conflicting accesses (a write and any other one).
///
/// The body of a loop is added kLoopPasses times, as that many iterations: the streams are those of
/// the last one, which waits for what it must of the iteration before it, and for nothing else.
///
/// A wait takes the oldest signal of the other device that has not been taken, so signals and
/// waits of two devices come in the same order. An instruction of several devices (a call) may
/// contain signals of its own: its devices first wait for all that the others did before it, so
/// that no older signal is left over.
class DeviceStreams {
 public:
  /// By the third iteration of a loop nothing new happens: what an iteration carries on is in two
  /// places in turns.
  static constexpr int kLoopPasses = 3;

  explicit DeviceStreams(std::vector<std::int32_t> devices);

  /// The next iteration starts.
  void begin_pass();
  /// The next instruction, on `devices` (ascending, some of the constructor's).
  void add(const std::vector<std::int32_t>& devices, const std::vector<Access>& accesses);
  /// One stream per device of the constructor.
  std::vector<std::vector<StreamStep>> finish() const;
  /// The signals of the last pass but one that the last one waits for.
  std::vector<CarriedSignals> carried_signals() const;

 private:
  /// What one device tells another one after an instruction.
  struct Signal {
    int sender = 0, waiter = 0;
    bool in_next_pass = false;  // only the next iteration waits for it
  };
  /// The last accesses by device position; -1: none.
  struct History {
    std::vector<int> writes, reads;
  };
  using Spans = std::map<std::int64_t, History>;  // by begin, each up to the next

  int position_of(std::int32_t device) const;
  Spans::iterator split(Spans& spans, std::int64_t at) const;
  void record(const Access& access, const std::vector<int>& positions, std::vector<int>& needed);
  void require(int device, int other, int instruction, int by);

  std::vector<std::int32_t> devices_;
  std::map<AccessSpace, Spans> spaces_;
  std::vector<std::vector<int>> positions_;              // of the devices of each instruction
  std::vector<std::vector<std::pair<int, int>>> waits_;  // by instruction: waiter, other
  std::vector<std::vector<Signal>> signals_;             // by instruction
  std::vector<std::vector<int>> known_;                  // [waiter][other]: last one waited for
  std::vector<int> last_;                                // last instruction of each device
  int pass_begin_ = 0;                                   // first instruction of this pass
  int previous_begin_ = 0;                               // of the one before it
  std::vector<int> last_of_previous_;                    // as last_ was when this pass began
};

}  // namespace pando
