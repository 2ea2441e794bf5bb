// The timetable of a pipeline: which stage works on which micro-batch when.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pando {

/// Cycles are counted from 0. With S stages, S - 1 cycles of ramp up, in which later stages have
/// nothing to do yet, are followed by main cycles, in which all work, and S - 1 cycles of ramp
/// down.
struct PipelineSchedule {
  struct Stage {
    std::string graph;                  // id of the graph of its ops
    std::vector<std::int64_t> devices;  // virtual devices that compute them, ascending
  };

  std::string graph;  // id of the graph that runs the cycles
  std::vector<Stage> stages;
  std::int64_t steps = 0;  // micro-batches

  std::int64_t num_stages() const { return static_cast<std::int64_t>(stages.size()); }
  std::int64_t num_cycles() const { return steps + num_stages() - 1; }
  std::int64_t main_begin() const { return num_stages() - 1; }
  /// The first cycle of the ramp down.
  std::int64_t main_end() const { return steps; }
  /// What `stage` works on in `cycle`; nullopt: nothing.
  std::optional<std::int64_t> micro_batch(std::int64_t stage, std::int64_t cycle) const;

  /// The columns of a picture with room for about `most`: the cycles in order. One nullopt stands
  /// for main cycles that are left out, all of them like their neighbours.
  std::vector<std::optional<std::int64_t>> shown_cycles(std::int64_t most) const;
  /// A table with a row per stage and a column per cycle: the micro-batch, or `.` for nothing.
  std::string text() const;
};

}  // namespace pando
