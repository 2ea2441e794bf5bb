#include "pando/runtime/run_profile.hpp"

#include <algorithm>
#include <chrono>

#include "pando/base/error.hpp"
#include "pando/program/disassembly.hpp"
#include "pando/program/phases.hpp"

namespace pando {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

RunProfile::RunProfile(const Program& program, int io_threads)
    : program_(program), phase_names_(1), transfers_(static_cast<std::size_t>(io_threads)) {
  std::map<std::string_view, std::int32_t> indices = {{"", 0}};
  for (std::size_t i = 0; i < program.sources.size(); ++i) {
    const SourceInfo source = program.sources[i];
    const auto next = static_cast<std::int32_t>(phase_names_.size());
    const auto [it, is_new] = indices.try_emplace(source.phase, next);
    if (is_new) phase_names_.emplace_back(source.phase);
    phase_of_source_.push_back(it->second);
  }
  phase_names_.emplace_back("end of the run");
  for (const Function& function : program.functions) {
    instructions_.emplace_back(function.instructions.size());
  }
  devices_.resize(static_cast<std::size_t>(program.devices));
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    for (const std::string& name : phase_names_) {
      PhaseProfile phase;
      phase.name = name;
      phase.device = static_cast<std::int32_t>(d);
      devices_[d].phases.push_back(std::move(phase));
    }
  }
  io_seconds_.assign(devices_.size(), std::vector<double>(phase_names_.size(), 0));
}

const Instruction& RunProfile::instruction(int function, int index) const {
  return program_.functions[static_cast<std::size_t>(function)]
      .instructions[static_cast<std::size_t>(index)];
}

std::int32_t RunProfile::phase_of(const Instruction& instruction) const {
  return instruction.source < 0 ? 0
                                : phase_of_source_[static_cast<std::size_t>(instruction.source)];
}

PhaseProfile& RunProfile::current(int device) {
  Device& state = devices_[static_cast<std::size_t>(device)];
  return state.phases[static_cast<std::size_t>(state.phase)];
}

void RunProfile::begin_run(bool is_main) {
  counting_ = is_main;
  for (Device& device : devices_) {
    device.open.clear();  // of a run that failed
    device.phase = 0;
    if (is_main) device.boxes.clear();
  }
  if (is_main) {
    for (auto& transfers : transfers_) transfers.clear();
  }
  origin_ = steady_seconds();
}

void RunProfile::begin(int device, int function, std::size_t index) {
  Device& state = devices_[static_cast<std::size_t>(device)];
  const Instruction& next = instruction(function, static_cast<int>(index));
  const bool in_main = state.open.empty() || state.open.back().has_phases;
  if (in_main) state.phase = phase_of(next);
  state.open.push_back({steady_seconds(), 0, function, static_cast<std::int32_t>(index),
                        state.phase, in_main,
                        in_main && has_phases_inside(program_, next.kind, next.source)});
}

void RunProfile::end(int device) {
  Device& state = devices_[static_cast<std::size_t>(device)];
  const Open open = state.open.back();
  state.open.pop_back();
  const double now = steady_seconds();
  const double seconds = now - open.start;
  // What several devices run is counted by the first of them.
  if (instruction(open.function, open.index).device == device) {
    InstructionProfile& entry = instructions_[static_cast<std::size_t>(open.function)]
                                             [static_cast<std::size_t>(open.index)];
    entry.seconds += seconds;
    ++entry.calls;
  }
  if (!counting_) return;
  const auto depth = static_cast<std::int32_t>(state.open.size());
  if (open.in_main) {
    state.phases[static_cast<std::size_t>(open.phase)].seconds += seconds - open.counted;
    if (depth > 0) state.open.back().counted += seconds;
  }
  // What phases go on in is kept: without it, it is not known that what it ran is the main program.
  if (state.boxes.size() < kMostEvents || open.has_phases) {
    state.boxes.push_back(
        {open.start - origin_, now - origin_, depth, open.function, open.index, open.phase});
  }
}

void RunProfile::count_transfer(const TransferTag& tag, bool is_load, std::size_t bytes) {
  if (!counting_) return;
  BufferTraffic& traffic = devices_[static_cast<std::size_t>(tag.device)]
                               .phases[static_cast<std::size_t>(tag.phase)]
                               .buffers[tag.buffer];
  (is_load ? traffic.bytes_loaded : traffic.bytes_stored) += static_cast<std::int64_t>(bytes);
}

void RunProfile::count_host(int device, bool is_load, std::size_t bytes) {
  if (!counting_) return;
  PhaseProfile& phase = current(device);
  (is_load ? phase.host_bytes_loaded : phase.host_bytes_stored) += static_cast<std::int64_t>(bytes);
}

void RunProfile::waited(int device, double seconds) {
  if (counting_) current(device).waiting_seconds += seconds;
}

void RunProfile::exchanged(int device, double seconds) {
  if (!counting_) return;
  PhaseProfile& phase = current(device);
  phase.exchange_seconds += seconds;
  // Between instructions of the main program the phase goes on that was before.
  std::vector<Open>& open = devices_[static_cast<std::size_t>(device)].open;
  if (!open.empty() && !open.back().has_phases) return;
  phase.seconds += seconds;
  if (!open.empty()) open.back().counted += seconds;
}

void RunProfile::end_run(double waiting) {
  if (counting_) {
    PhaseProfile& end = devices_[0].phases.back();
    end.seconds += waiting;
    end.waiting_seconds += waiting;
  }
  counting_ = false;
}

void RunProfile::transferred(const TransferTag& tag, int thread, bool is_load, std::int64_t slot,
                             double start, double end) {
  if (!counting_) return;
  const auto device = static_cast<std::size_t>(tag.device);
  const auto phase = static_cast<std::size_t>(tag.phase);
  if (thread < 0) {
    devices_[device].phases[phase].io_seconds += end - start;
    return;
  }
  io_seconds_[device][phase] += end - start;
  std::vector<Transfer>& lane = transfers_[static_cast<std::size_t>(thread)];
  if (lane.size() >= kMostEvents) return;
  lane.push_back({start - origin_, end - origin_, tag.phase, is_load, tag.buffer, slot});
}

TransferTag RunProfile::tag(int device, std::int64_t buffer) const {
  return {devices_[static_cast<std::size_t>(device)].phase, device, buffer};
}

std::vector<PhaseProfile> RunProfile::phases() const {
  std::vector<PhaseProfile> result;
  for (std::size_t p = 0; p < phase_names_.size(); ++p) {
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      PhaseProfile phase = devices_[d].phases[p];
      phase.io_seconds += io_seconds_[d][p];
      if (phase.seconds > 0 || !phase.buffers.empty()) result.push_back(std::move(phase));
    }
  }
  return result;
}

std::vector<TimelineLane> RunProfile::timeline() const {
  std::vector<TimelineLane> lanes;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    TimelineLane lane{str_cat("device ", d), {}};
    for (const Box& box : devices_[d].boxes) {
      const Instruction& done = instruction(box.function, box.index);
      const std::string_view source =
          done.source < 0 ? "" : program_.sources[static_cast<std::size_t>(done.source)].op;
      const bool calls =
          done.kind == Instruction::Kind::Call || done.kind == Instruction::Kind::Loop;
      const std::string name =
          calls ? program_.functions[static_cast<std::size_t>(done.target)].name
                : (source.empty() ? instruction_name(program_, done) : std::string(source));
      const auto phase = static_cast<std::size_t>(box.phase);
      lane.events.push_back({box.start, box.end, box.depth, name, phase_names_[phase]});
    }
    std::stable_sort(lane.events.begin(), lane.events.end(),
                     [](const TimelineEvent& a, const TimelineEvent& b) {
                       return a.start != b.start ? a.start < b.start : a.depth < b.depth;
                     });
    lanes.push_back(std::move(lane));
  }
  for (std::size_t t = 0; t < transfers_.size(); ++t) {
    TimelineLane lane{str_cat("I/O thread ", t), {}};
    for (const Transfer& done : transfers_[t]) {
      const std::string name =
          str_cat(done.is_load ? "load" : "store", " buffer ", done.buffer, " row ", done.slot);
      const auto phase = static_cast<std::size_t>(done.phase);
      lane.events.push_back({done.start, done.end, 0, name, phase_names_[phase]});
    }
    lanes.push_back(std::move(lane));
  }
  return lanes;
}

}  // namespace pando
