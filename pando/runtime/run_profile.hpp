// What the devices and I/O threads of one replica did and when.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pando/program/program.hpp"

namespace pando {

struct InstructionProfile {
  std::int64_t calls = 0;
  double seconds = 0;
};

struct BufferTraffic {
  std::int64_t bytes_loaded = 0;
  std::int64_t bytes_stored = 0;
};

/// A phase of the main program on one device: see program/phases.hpp. All but `io_seconds` are
/// parts of the device's time.
struct PhaseProfile {
  std::string name;
  std::int32_t device = 0;
  double seconds = 0;           // from the begin to the end of its instructions
  double waiting_seconds = 0;   // in remote transfers: waiting for them, or copying (RAM tier)
  double exchange_seconds = 0;  // in collectives, and waiting for other devices
  double io_seconds = 0;        // of remote transfers of this phase, on whichever thread
  std::int64_t host_bytes_loaded = 0;
  std::int64_t host_bytes_stored = 0;
  std::map<std::int64_t, BufferTraffic> buffers;  // by buffer id

  double compute_seconds() const { return seconds - waiting_seconds - exchange_seconds; }
};

/// A box of the timeline; seconds since the run began.
struct TimelineEvent {
  double start = 0;
  double end = 0;
  std::int32_t depth = 0;  // calls around it
  std::string name;
  std::string phase;
};

struct TimelineLane {
  std::string name;  // `device 0`, `I/O thread 1`
  std::vector<TimelineEvent> events;
};

/// Which part of the program a remote transfer belongs to.
struct TransferTag {
  std::int32_t phase = 0;
  std::int32_t device = 0;
  std::int64_t buffer = 0;  // id
};

/// Instructions and phases are counted since it was made; the timeline is that of the last run, its
/// first kMostEvents events of every lane and those that phases go on in. Each device calls from
/// its own thread; `transferred` is called by one I/O thread at a time.
class RunProfile {
 public:
  static constexpr std::size_t kMostEvents = 100000;

  RunProfile(const Program& program, int io_threads);

  /// Only runs of the main function count for phases and timeline.
  void begin_run(bool is_main);
  void begin(int device, int function, std::size_t index);
  void end(int device);
  /// `bytes` of a remote transfer that a device asked for.
  void count_transfer(const TransferTag& tag, bool is_load, std::size_t bytes);
  void count_host(int device, bool is_load, std::size_t bytes);
  void waited(int device, double seconds);
  void exchanged(int device, double seconds);
  /// `waiting`: seconds after the last instruction, for stores.
  void end_run(double waiting);
  /// A transfer ended; `thread`: of the I/O threads, -1: of the program.
  void transferred(const TransferTag& tag, int thread, bool is_load, std::int64_t slot,
                   double start, double end);
  TransferTag tag(int device, std::int64_t buffer) const;

  const std::vector<std::vector<InstructionProfile>>& instructions() const { return instructions_; }
  /// Those that did something, in the order of the program. The empty name: what belongs to no
  /// phase.
  std::vector<PhaseProfile> phases() const;
  std::vector<TimelineLane> timeline() const;

 private:
  struct Open {
    double start;
    double counted;  // seconds of what it runs that have been given to phases
    std::int32_t function;
    std::int32_t index;
    std::int32_t phase;
    bool in_main;     // of the main program: not within a call or a loop
    bool has_phases;  // so is what it runs
  };
  struct Box {
    double start, end;
    std::int32_t depth, function, index, phase;
  };
  struct Transfer {
    double start, end;
    std::int32_t phase;
    bool is_load;
    std::int64_t buffer, slot;
  };
  struct Device {
    std::vector<Open> open;
    std::vector<Box> boxes;
    std::vector<PhaseProfile> phases;
    std::int32_t phase = 0;
  };

  const Instruction& instruction(int function, int index) const;
  std::int32_t phase_of(const Instruction& instruction) const;
  PhaseProfile& current(int device);

  const Program& program_;
  std::vector<std::string> phase_names_;       // 0: no phase; last: the end of the run
  std::vector<std::int32_t> phase_of_source_;  // by source
  std::vector<std::vector<InstructionProfile>> instructions_;
  std::vector<Device> devices_;
  std::vector<std::vector<Transfer>> transfers_;  // by I/O thread
  std::vector<std::vector<double>> io_seconds_;   // of I/O threads, by device and phase
  double origin_ = 0;
  bool counting_ = false;
};

/// Seconds of a clock that never goes back.
double steady_seconds();

}  // namespace pando
