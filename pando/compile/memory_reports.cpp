#include "pando/compile/memory_reports.hpp"

#include <algorithm>
#include <map>
#include <set>

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
    report.persistent_bytes = program_.tables.persistent_bytes;
    list_alive(program_.tables.main_function, report.alive_at_peak);
    if (report.devices.size() == 1) report.devices[0].alive_at_peak = report.alive_at_peak;
    const std::vector<std::int64_t> persistent = persistent_bytes();
    for (std::size_t d = 0; d < report.devices.size(); ++d) {
      report.devices[d].device = program_.device_numbers[d];
      report.devices[d].persistent_bytes = persistent[d];
    }
    return report;
  }

 private:
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
    peaks_.push_back(-1);
    report.peak_frame_bytes = function.frame_bytes;
    std::vector<std::int64_t> alive(function.instructions.size());
    for (std::int32_t device = 0; device <= function.devices.back(); ++device) {
      const std::vector<std::int64_t> own = alive_bytes(function, device);
      if (own.empty()) continue;
      report.frame_lower_bound_bytes += *std::max_element(own.begin(), own.end());
      for (std::size_t i = 0; i < own.size(); ++i) alive[i] += own[i];
    }
    report.timeline = timeline_with_branches(function, alive);
    if (alive.empty()) return report;
    const auto peak = std::max_element(alive.begin(), alive.end()) - alive.begin();
    peaks_.back() = static_cast<std::int32_t>(peak);
    report.source_at_peak = source_at_peak(function.instructions[static_cast<std::size_t>(peak)]);
    return report;
  }

  /// The storages of a function at its peak, largest first.
  std::vector<const Storage*> alive_at_peak(std::int32_t function) const {
    std::vector<const Storage*> alive;
    const std::int32_t peak = peaks_[static_cast<std::size_t>(function)];
    if (peak < 0) return alive;
    for (const Storage& storage : program_.functions[static_cast<std::size_t>(function)].storages) {
      if (is_planned(storage) && storage.is_alive_at(peak)) alive.push_back(&storage);
    }
    std::sort(alive.begin(), alive.end(),
              [](const Storage* a, const Storage* b) { return a->bytes > b->bytes; });
    return alive;
  }

  /// What is in the frame of a callee comes after it. Calls may be thousands deep.
  void list_alive(std::int32_t function, LiveTensorTable& table) const {
    struct Level {
      std::vector<const Storage*> alive;
      std::size_t next = 0;
    };
    std::map<TextTable::Index, TextTable::Index> locations;
    std::vector<Level> levels = {{alive_at_peak(function)}};
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
      if (storage.callee >= 0) levels.push_back({alive_at_peak(storage.callee)});
    }
  }

  /// In place of a choice the timeline of its larger branch.
  std::vector<std::int64_t> timeline_with_branches(const StepFunction& function,
                                                   const std::vector<std::int64_t>& alive) const {
    std::vector<std::int64_t> timeline;
    timeline.reserve(alive.size());
    for (std::size_t i = 0; i < alive.size(); ++i) {
      const StepInstruction& in = function.instructions[i];
      if (in.kind != Instruction::Kind::If || in.callee_frame < 0) {
        timeline.push_back(alive[i]);
        continue;
      }
      const Storage& frame = function.storages[static_cast<std::size_t>(in.callee_frame)];
      for (const std::int64_t inside : of(frame.callee).timeline) {
        timeline.push_back(alive[i] - frame.bytes + inside);
      }
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
      devices[d] = of_device(function, static_cast<std::int32_t>(d));
    }
    return devices;
  }

  /// What a device has in memory from instruction `first` to `last`.
  struct Use {
    const Storage* storage;
    std::int64_t bytes;
    std::int32_t first, last;
  };

  /// The frame of a callee counts as far as the callee's temporaries are this device's.
  std::vector<Use> uses_on(const StepFunction& function, std::int32_t device) const {
    std::vector<Use> uses;
    std::set<const Storage*> frames;
    for (std::size_t i = 0; i < function.instructions.size(); ++i) {
      const StepInstruction& in = function.instructions[i];
      if (in.callee_frame < 0) continue;
      const Storage& frame = function.storages[static_cast<std::size_t>(in.callee_frame)];
      frames.insert(&frame);
      std::int64_t bytes = of(in.target, device).peak_frame_bytes;
      if (in.kind == Instruction::Kind::If) {
        bytes = std::max(bytes, of(in.other_target, device).peak_frame_bytes);
      }
      const auto time = static_cast<std::int32_t>(i);
      if (bytes > 0) uses.push_back({&frame, bytes, time, time});
    }
    for (const Storage& storage : function.storages) {
      if (!is_planned(storage) || storage.device != device || frames.contains(&storage)) continue;
      uses.push_back({&storage, storage.bytes, storage.first, storage.last});
    }
    return uses;
  }

  DeviceMemoryUse of_device(const StepFunction& function, std::int32_t device) const {
    const std::vector<Use> uses = uses_on(function, device);
    std::vector<std::int64_t> change(function.instructions.size() + 1);
    for (const Use& use : uses) {
      change[static_cast<std::size_t>(use.first)] += align_bytes(use.bytes);
      change[static_cast<std::size_t>(use.last) + 1] -= align_bytes(use.bytes);
    }
    DeviceMemoryUse memory;
    std::int64_t alive = 0;
    std::int32_t peak = -1;
    for (std::size_t i = 0; i < function.instructions.size(); ++i) {
      alive += change[i];
      if (alive <= memory.peak_frame_bytes) continue;
      memory.peak_frame_bytes = alive;
      peak = static_cast<std::int32_t>(i);
    }
    if (peak < 0) return memory;
    memory.source_at_peak =
        source_at_peak(function.instructions[static_cast<std::size_t>(peak)], device);
    std::vector<const Use*> alive_at_peak;
    for (const Use& use : uses) {
      if (use.first <= peak && peak <= use.last) alive_at_peak.push_back(&use);
    }
    std::sort(alive_at_peak.begin(), alive_at_peak.end(),
              [](const Use* a, const Use* b) { return a->bytes > b->bytes; });
    for (const Use* use : alive_at_peak) {
      memory.alive_at_peak.add({std::string(program_.name_of(*use->storage)), use->bytes,
                                std::string(program_.location_of(*use->storage)), 0});
    }
    return memory;
  }

  /// Variables belong to the device whose instruction is the first to name them.
  std::vector<std::int64_t> persistent_bytes() const {
    const std::vector<PersistentTensor>& tensors = program_.tables.persistent;
    std::vector<std::int64_t> bytes(program_.device_numbers.size());
    if (bytes.size() == 1) return {program_.tables.persistent_bytes};
    std::vector<bool> counted(tensors.size());
    const auto count = [&](std::size_t i, std::int32_t device) {
      if (counted[i]) return;
      counted[i] = true;
      const auto size =
          num_elements(tensors[i].shape) * std::int64_t(dtype_bytes(tensors[i].dtype));
      bytes[static_cast<std::size_t>(device)] += align_bytes(size);
    };
    for (const StepFunction& function : program_.functions) {
      for (const StepInstruction& in : function.instructions) {
        for (const StepOperand& operand : in.operands) {
          if (operand.storage < 0) continue;
          const Storage& storage = function.storage_of(operand);
          if (storage.kind != Storage::Kind::Global) continue;
          const auto after = std::upper_bound(
              tensors.begin(), tensors.end(), storage.offset,
              [](std::int64_t at, const PersistentTensor& tensor) { return at < tensor.offset; });
          count(static_cast<std::size_t>(after - tensors.begin()) - 1, in.device);
        }
      }
    }
    for (std::size_t i = 0; i < counted.size(); ++i) count(i, 0);
    return bytes;
  }

  const StepProgram& program_;
  std::vector<MemoryReport> reports_;  // by function
  std::vector<std::int32_t> peaks_;    // the instruction that runs then; -1: there is none
};

}  // namespace

MemoryReport measure_memory(const StepProgram& program) {
  return MemoryReports(program).of_program();
}

}  // namespace pando
