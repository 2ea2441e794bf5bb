#include "pando/compile/device_streams.hpp"

#include <algorithm>
#include <set>

#include "pando/base/error.hpp"

namespace pando {

std::int64_t device_of(const Op& op) {
  if (op.def().moves_devices) return op.attributes.integer("destination");
  return op.context.device.value_or(0);
}

std::vector<std::int64_t> devices_of(const Ir& ir) {
  std::set<std::int64_t> devices;
  for (const Graph* graph : ir.graphs()) {
    for (const Op* op : graph->ops()) devices.insert(device_of(*op));
  }
  if (devices.empty()) devices.insert(0);
  return {devices.begin(), devices.end()};
}

bool is_on_several_devices(const Graph& graph) {
  return std::any_of(graph.ops().begin(), graph.ops().end(), [&](const Op* op) {
    return device_of(*op) != device_of(*graph.ops().front());
  });
}

DeviceStreams::DeviceStreams(std::vector<std::int32_t> devices)
    : devices_(std::move(devices)),
      known_(devices_.size(), std::vector<int>(devices_.size(), -1)),
      last_(devices_.size(), -1),
      last_of_previous_(last_) {}

void DeviceStreams::begin_pass() {
  previous_begin_ = pass_begin_;
  pass_begin_ = static_cast<int>(positions_.size());
  last_of_previous_ = last_;
}

int DeviceStreams::position_of(std::int32_t device) const {
  const auto it = std::lower_bound(devices_.begin(), devices_.end(), device);
  internal_check(it != devices_.end() && *it == device, "a device of the function is not listed");
  return static_cast<int>(it - devices_.begin());
}

DeviceStreams::Spans::iterator DeviceStreams::split(Spans& spans, std::int64_t at) const {
  const auto next = spans.lower_bound(at);
  if (next != spans.end() && next->first == at) return next;
  History history{std::vector<int>(devices_.size(), -1), std::vector<int>(devices_.size(), -1)};
  if (next != spans.begin()) history = std::prev(next)->second;
  return spans.emplace_hint(next, at, std::move(history));
}

void DeviceStreams::record(const Access& access, const std::vector<int>& positions,
                           std::vector<int>& needed) {
  if (access.begin >= access.end) return;
  Spans& spans = spaces_[access.space];
  const auto end = split(spans, access.end);
  const int instruction = static_cast<int>(positions_.size());
  for (auto span = split(spans, access.begin); span != end; ++span) {
    History& history = span->second;
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      needed[d] = std::max(needed[d], history.writes[d]);
      if (access.write) needed[d] = std::max(needed[d], history.reads[d]);
    }
    if (access.write) {
      // Whoever waits for this write has waited for all before it.
      std::fill(history.writes.begin(), history.writes.end(), -1);
      std::fill(history.reads.begin(), history.reads.end(), -1);
    }
    std::vector<int>& latest = access.write ? history.writes : history.reads;
    for (int position : positions) latest[static_cast<std::size_t>(position)] = instruction;
  }
}

void DeviceStreams::require(int device, int other, int instruction, int by) {
  int& known = known_[static_cast<std::size_t>(device)][static_cast<std::size_t>(other)];
  if (device == other || instruction < 0) return;
  // Signals are carried over one iteration: all of the last one follows on what was before it.
  if (instruction < previous_begin_) {
    instruction = last_of_previous_[static_cast<std::size_t>(other)];
  }
  if (instruction <= known) return;
  known = instruction;
  signals_[static_cast<std::size_t>(instruction)].push_back(
      {other, device, instruction < pass_begin_});
  waits_[static_cast<std::size_t>(by)].emplace_back(device, other);
}

void DeviceStreams::add(const std::vector<std::int32_t>& devices,
                        const std::vector<Access>& accesses) {
  std::vector<int> positions;
  positions.reserve(devices.size());
  for (std::int32_t device : devices) positions.push_back(position_of(device));
  const int instruction = static_cast<int>(positions_.size());
  waits_.emplace_back();
  signals_.emplace_back();
  // An instruction may touch one span twice: what it did itself is no reason to wait.
  std::vector<int> needed(devices_.size(), -1);
  for (const Access& access : accesses) record(access, positions, needed);
  for (int position : positions) {
    for (std::size_t other = 0; other < devices_.size(); ++other) {
      if (needed[other] < instruction) {
        require(position, static_cast<int>(other), needed[other], instruction);
      }
    }
    for (int other : positions) {
      require(position, other, last_[static_cast<std::size_t>(other)], instruction);
    }
  }
  for (int position : positions) last_[static_cast<std::size_t>(position)] = instruction;
  positions_.push_back(std::move(positions));
}

std::vector<std::vector<StreamStep>> DeviceStreams::finish() const {
  std::vector<std::vector<StreamStep>> streams(devices_.size());
  const auto device = [&](int position) { return devices_[static_cast<std::size_t>(position)]; };
  const auto stream = [&](int position) -> std::vector<StreamStep>& {
    return streams[static_cast<std::size_t>(position)];
  };
  const auto signal = [&](std::size_t instruction, bool in_next_pass) {
    for (const Signal& s : signals_[instruction]) {
      if (s.in_next_pass != in_next_pass) continue;
      stream(s.sender).push_back({StreamStep::Kind::Signal, device(s.waiter)});
    }
  };
  const auto first = static_cast<std::size_t>(pass_begin_);
  const std::size_t count = positions_.size() - first;
  for (std::size_t i = first; i < positions_.size(); ++i) {
    for (const auto& [waiter, other] : waits_[i]) {
      stream(waiter).push_back({StreamStep::Kind::Wait, device(other)});
    }
    for (int position : positions_[i]) {
      stream(position).push_back({StreamStep::Kind::Run, static_cast<std::int32_t>(i - first)});
    }
    signal(i, false);
    if (first > 0) signal(i - count, true);
  }
  return streams;
}

std::vector<CarriedSignals> DeviceStreams::carried_signals() const {
  std::map<std::pair<int, int>, std::int32_t> counts;
  for (int i = previous_begin_; i < pass_begin_; ++i) {
    for (const Signal& s : signals_[static_cast<std::size_t>(i)]) {
      if (s.in_next_pass) ++counts[{s.sender, s.waiter}];
    }
  }
  std::vector<CarriedSignals> result;
  result.reserve(counts.size());
  for (const auto& [pair, count] : counts) {
    result.push_back({devices_[static_cast<std::size_t>(pair.first)],
                      devices_[static_cast<std::size_t>(pair.second)], count});
  }
  return result;
}

}  // namespace pando
