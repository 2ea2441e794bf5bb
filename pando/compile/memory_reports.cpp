#include "pando/compile/memory_reports.hpp"

#include <algorithm>
#include <map>

#include "pando/base/alignment.hpp"
#include "pando/program/phases.hpp"

namespace pando {
namespace {

bool is_planned(const Storage& storage) {
  return storage.kind == Storage::Kind::Local && storage.first >= 0;
}

/// Bytes alive while each instruction runs, of what is in the frame on `device`.
std::vector<std::int64_t> alive_bytes(const StepFunction& function, std::int32_t device) {
  std::vector<std::int64_t> bytes(function.instructions.size() + 1);
  for (const Storage& storage : function.storages) {
    if (!is_planned(storage) || storage.device != device) continue;
    bytes[static_cast<std::size_t>(storage.first)] += align_bytes(storage.bytes);
    bytes[static_cast<std::size_t>(storage.last) + 1] -= align_bytes(storage.bytes);
  }
  for (std::size_t i = 1; i < bytes.size(); ++i) bytes[i] += bytes[i - 1];
  bytes.pop_back();
  return bytes;
}

/// Which source the larger need of two branches (MemoryReport or DeviceMemoryUse) has; `unknown`
/// if nobody knows.
template <class Memory>
std::int32_t source_of_larger(const Memory& one, const Memory& other, std::int32_t unknown) {
  const Memory& larger = one.peak_frame_bytes >= other.peak_frame_bytes ? one : other;
  return larger.source_at_peak < 0 ? unknown : larger.source_at_peak;
}

class MemoryReports {
 public:
  explicit MemoryReports(const StepProgram& program) : program_(program) {
    reports_.reserve(program.functions.size());
    for (const StepFunction& function : program.functions) {
      reports_.push_back(of_function(function));
      reports_.back().devices = of_devices(function, reports_.back());
    }
  }

  MemoryReport of_program() {
    MemoryReport report = std::move(of(program_.tables.main_function));
    const std::int32_t main = program_.tables.main_function;
    list_alive(main, kAllDevices, report.alive_at_peak);
    for (std::size_t d = 0; d < report.devices.size(); ++d) {
      LiveTensorTable& alive = report.devices[d].alive_at_peak;
      if (report.devices.size() == 1) {
        alive = report.alive_at_peak;
      } else {
        list_alive(main, static_cast<std::int32_t>(d), alive);
      }
      report.devices[d].device = program_.device_numbers[d];
      report.devices[d].persistent_bytes = program_.tables.persistent_bytes[d];
      report.persistent_bytes += report.devices[d].persistent_bytes;
    }
    return report;
  }

 private:
  static constexpr std::int32_t kAllDevices = -1;
  /// The instructions that run when most is alive; -1: there are none.
  struct Peaks {
    std::int32_t all = -1;
    std::vector<std::int32_t> by_device;
  };

  MemoryReport& of(std::int32_t function) { return reports_[static_cast<std::size_t>(function)]; }
  const MemoryReport& of(std::int32_t function) const {
    return reports_[static_cast<std::size_t>(function)];
  }
  const DeviceMemoryUse& of(std::int32_t function, std::int32_t device) const {
    return of(function).devices[static_cast<std::size_t>(device)];
  }

  /// All but what is alive at the peak: that is asked of the main function alone.
  MemoryReport of_function(const StepFunction& function) {
    MemoryReport report;
    peaks_.emplace_back().by_device.resize(function.frame_bytes.size(), -1);
    std::vector<std::int64_t> alive(function.instructions.size());
    for (std::size_t device = 0; device < function.frame_bytes.size(); ++device) {
      report.peak_frame_bytes += function.frame_bytes[device];
      if (function.frame_bytes[device] == 0) continue;
      const std::vector<std::int64_t> own =
          alive_bytes(function, static_cast<std::int32_t>(device));
      const auto most = std::max_element(own.begin(), own.end());
      peaks_.back().by_device[device] = static_cast<std::int32_t>(most - own.begin());
      report.frame_lower_bound_bytes += *most;
      for (std::size_t i = 0; i < own.size(); ++i) alive[i] += own[i];
    }
    report.timeline = timeline_with_branches(function, alive);
    if (alive.empty()) return report;
    const auto peak = std::max_element(alive.begin(), alive.end()) - alive.begin();
    peaks_.back().all = static_cast<std::int32_t>(peak);
    report.source_at_peak = source_at_peak(function.instructions[static_cast<std::size_t>(peak)]);
    return report;
  }

  /// The storages of a function at its peak, largest first; of a device, those in its frame.
  std::vector<const Storage*> alive_at_peak(std::int32_t function, std::int32_t device) const {
    std::vector<const Storage*> alive;
    const Peaks& peaks = peaks_[static_cast<std::size_t>(function)];
    const std::int32_t peak =
        device == kAllDevices ? peaks.all : peaks.by_device[static_cast<std::size_t>(device)];
    if (peak < 0) return alive;
    for (const Storage& storage : program_.functions[static_cast<std::size_t>(function)].storages) {
      const bool is_here = device == kAllDevices || storage.device == device;
      if (is_here && is_planned(storage) && storage.is_alive_at(peak)) alive.push_back(&storage);
    }
    std::sort(alive.begin(), alive.end(),
              [](const Storage* a, const Storage* b) { return a->bytes > b->bytes; });
    return alive;
  }

  /// What is in the frame of a callee comes after it. Calls may be thousands deep.
  void list_alive(std::int32_t function, std::int32_t device, LiveTensorTable& table) const {
    struct Level {
      std::vector<const Storage*> alive;
      std::size_t next = 0;
    };
    std::map<TextTable::Index, TextTable::Index> locations;
    std::vector<Level> levels = {{alive_at_peak(function, device)}};
    while (!levels.empty()) {
      Level& level = levels.back();
      if (level.next == level.alive.size()) {
        levels.pop_back();
        continue;
      }
      const Storage& storage = *level.alive[level.next++];
      const TextTable::Index name = table.add_text(program_.name_of(storage));
      const auto [location, is_new] = locations.try_emplace(storage.location);
      if (is_new) location->second = table.add_text(program_.location_of(storage));
      table.add(
          {storage.bytes, name, location->second, static_cast<std::int32_t>(levels.size()) - 1});
      if (storage.callee >= 0) levels.push_back({alive_at_peak(storage.callee, storage.device)});
    }
  }

  /// In place of a choice the timeline of its larger branch.
  std::vector<std::int64_t> timeline_with_branches(const StepFunction& function,
                                                   const std::vector<std::int64_t>& alive) const {
    std::vector<std::int64_t> timeline;
    timeline.reserve(alive.size());
    for (std::size_t i = 0; i < alive.size(); ++i) {
      const StepInstruction& in = function.instructions[i];
      if (in.kind != Instruction::Kind::If || in.callee_frames.empty()) {
        timeline.push_back(alive[i]);
        continue;
      }
      std::int64_t outside = alive[i];
      for (const std::int32_t frame : in.callee_frames) {
        outside -= align_bytes(function.storage_of({frame}).bytes);
      }
      const MemoryReport &then = of(in.target), &otherwise = of(in.other_target);
      const MemoryReport& larger =
          then.peak_frame_bytes >= otherwise.peak_frame_bytes ? then : otherwise;
      for (const std::int64_t inside : larger.timeline) timeline.push_back(outside + inside);
    }
    return timeline;
  }

  /// The source of what runs while `in` needs most on all devices: `in`, or what does so in the
  /// larger one of the branches that phases go on in.
  std::int32_t source_at_peak(const StepInstruction& in) const {
    if (!has_phases_inside(program_.tables, in.kind, in.source)) return in.source;
    return source_of_larger(of(in.target), of(in.other_target), in.source);
  }
  /// The same on one device.
  std::int32_t source_at_peak(const StepInstruction& in, std::int32_t device) const {
    if (!has_phases_inside(program_.tables, in.kind, in.source)) return in.source;
    return source_of_larger(of(in.target, device), of(in.other_target, device), in.source);
  }

  std::vector<DeviceMemoryUse> of_devices(const StepFunction& function,
                                          const MemoryReport& whole) const {
    std::vector<DeviceMemoryUse> devices(program_.device_numbers.size());
    if (devices.size() == 1) {
      devices[0].peak_frame_bytes = whole.peak_frame_bytes;
      devices[0].source_at_peak = whole.source_at_peak;
      return devices;
    }
    for (std::size_t d = 0; d < devices.size(); ++d) {
      devices[d] = of_device(function, d);
    }
    return devices;
  }

  DeviceMemoryUse of_device(const StepFunction& function, std::size_t device) const {
    DeviceMemoryUse memory;
    memory.peak_frame_bytes = function.frame_bytes[device];
    const std::int32_t peak = peaks_.back().by_device[device];
    if (peak < 0) return memory;
    memory.source_at_peak = source_at_peak(function.instructions[static_cast<std::size_t>(peak)],
                                           static_cast<std::int32_t>(device));
    return memory;
  }

  const StepProgram& program_;
  std::vector<MemoryReport> reports_;  // by function
  std::vector<Peaks> peaks_;           // by function
};

}  // namespace

MemoryReport measure_memory(const StepProgram& program) {
  return MemoryReports(program).of_program();
}

}  // namespace pando
