#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "pando/steps/step_checker.hpp"

namespace pando {

using Kind = Instruction::Kind;

void OrderChecker::check_storages() const {
  require(function_.num_inputs >= 0 && function_.num_inputs <= function_.num_arguments,
          "it has more inputs than arguments");
  require(std::is_sorted(function_.devices.begin(), function_.devices.end()) &&
              std::adjacent_find(function_.devices.begin(), function_.devices.end()) ==
                  function_.devices.end(),
          "its devices are not in ascending order");
  for (const std::int32_t device : function_.devices) {
    require(device >= 0 && static_cast<std::size_t>(device) < program_.device_numbers.size(),
            "there is no device ", device);
  }
  if (function_.is_planned()) {
    require(!function_.devices.empty(), "it is planned without devices");
    require(function_.frame_bytes.size() == program_.device_numbers.size(), "it has ",
            function_.frame_bytes.size(), " sizes of a frame for ", program_.device_numbers.size(),
            " devices");
  }
  for (const std::int64_t bytes : function_.frame_bytes) {
    require(bytes <= program_check::kMostBytes, "its frame is larger than any memory");
  }
  require(static_cast<std::size_t>(function_.num_arguments) <= function_.storages.size(), "it has ",
          function_.num_arguments, " arguments and ", function_.storages.size(), " storages");
  std::int64_t frame = 0;
  std::vector<bool> is_bound(static_cast<std::size_t>(function_.num_arguments));
  for (std::size_t i = 0; i < function_.storages.size(); ++i) {
    check_storage(i);
    const Storage& s = function_.storages[i];
    frame += s.kind == Storage::Kind::Local ? s.bytes : 0;
    require(frame <= program_check::kMostBytes, "its storages are larger than any memory");
    if (s.kind != Storage::Kind::Argument) continue;
    const auto slot = static_cast<std::size_t>(s.slot);
    require(!is_bound[slot], "two storages are argument ", slot);
    is_bound[slot] = true;
  }
  const auto unbound = std::find(is_bound.begin(), is_bound.end(), false);
  require(unbound == is_bound.end(), "no storage is argument ", unbound - is_bound.begin());
}

void OrderChecker::check_storage(std::size_t index) const {
  using program_check::kMostBytes;
  const Storage& s = function_.storages[index];
  const auto num_instructions = static_cast<std::int64_t>(function_.instructions.size());
  const auto num_devices = static_cast<std::int64_t>(program_.device_numbers.size());
  require(s.bytes >= 0 && s.bytes <= kMostBytes, "%", index, " has ", s.bytes, " bytes");
  require(s.offset >= 0 && s.offset <= kMostBytes, "%", index, " lies at ", s.offset);
  require(s.slot >= 0 && (s.kind != Storage::Kind::Argument || s.slot < function_.num_arguments),
          "%", index, ": there is no argument ", s.slot);
  require(s.kind != Storage::Kind::Global || is_persistent(s), "%", index,
          " is no tensor of persistent memory");
  require(s.device >= 0 && s.device < num_devices, "%", index, ": there is no device ", s.device);
  require(s.first >= -1 && s.first <= s.last && s.last < num_instructions &&
              (s.first >= 0 || s.last == -1),
          "%", index, " is alive from instruction ", s.first, " to ", s.last);
  require(s.row == -1 || (s.row >= 0 && s.kind == Storage::Kind::Local), "%", index,
          " cannot be a row");
  if (s.callee == -1) return;
  require(s.callee >= 0 && static_cast<std::size_t>(s.callee) < index_, "%", index,
          " is the frame of function ", s.callee, ", which does not stand before this one");
  const StepFunction& callee = program_.functions[static_cast<std::size_t>(s.callee)];
  require(callee.is_planned() && s.bytes == callee.frame_bytes[static_cast<std::size_t>(s.device)],
          "%", index, " has another size than the frame of function ", s.callee, " on device ",
          s.device);
}

bool OrderChecker::is_persistent(const Storage& s) const {
  const std::vector<PersistentTensor>& tensors = program_.tables.persistent;
  auto at = std::lower_bound(
      tensors.begin(), tensors.end(), s, [](const PersistentTensor& tensor, const Storage& place) {
        return std::pair(tensor.device, tensor.offset) < std::pair(place.device, place.offset);
      });
  // Tensors without elements lie where the next one begins.
  for (; at != tensors.end() && at->device == s.device && at->offset == s.offset; ++at) {
    const bool has_room = !at->is_staged();
    if (has_room && program_check::checked_bytes(at->dtype, at->shape) == s.bytes) return true;
  }
  return false;
}

void OrderChecker::check_order(Numbers& numbers) {
  check_written();
  check_transfers(numbers.transfers);
  check_sends(numbers.sends);
  check_rows(numbers.rows);
  at_ = -1;
  if (!function_.is_planned()) {
    require(function_.streams.empty(), "it has streams before it is planned");
    return;
  }
  check_plan();
  at_ = -1;
  check_overlap();
  check_streams();
}

void OrderChecker::check_written() {
  std::vector<bool> written;
  for (const Storage& s : function_.storages) {
    const bool is_given = s.kind == Storage::Kind::Global || s.starts_undefined ||
                          (s.kind == Storage::Kind::Argument && s.slot < function_.num_inputs);
    written.push_back(is_given);
  }
  for (std::size_t i = 0; i < function_.instructions.size(); ++i) {
    const StepInstruction& in = function_.instructions[i];
    at_ = static_cast<std::int32_t>(i);
    for (const StepOperand& operand : in.operands) {
      if (operand.storage < 0 || !operand.read_only) continue;
      require(written[static_cast<std::size_t>(operand.storage)], "it reads %", operand.storage,
              ", which nothing has written");
    }
    for (const StepOperand& operand : in.operands) {
      if (operand.storage < 0 || operand.read_only) continue;
      written[static_cast<std::size_t>(operand.storage)] = true;
    }
  }
  at_ = -1;
  for (std::size_t i = 0; i < function_.storages.size(); ++i) {
    const Storage& s = function_.storages[i];
    require(s.kind != Storage::Kind::Argument || written[i], "nothing writes %", i,
            ", which is output argument ", s.slot);
  }
}

void OrderChecker::take_number(std::vector<bool>& numbers, std::int32_t number,
                               const char* what) const {
  // Numbers are given out in turn: there are no more than instructions.
  std::size_t most = 0;
  for (const StepFunction& function : program_.functions) most += function.instructions.size();
  const auto index = static_cast<std::size_t>(number);
  require(index < most, "there are fewer than ", number, " ", what, "s");
  if (index >= numbers.size()) numbers.resize(index + 1);
  require(!numbers[index], what, " ", number, " is there twice");
  numbers[index] = true;
}

void OrderChecker::check_transfers(std::vector<bool>& transfers) {
  std::map<std::int32_t, const StepInstruction*> under_way;  // by transfer
  for (std::size_t i = 0; i < function_.instructions.size(); ++i) {
    const StepInstruction& in = function_.instructions[i];
    at_ = static_cast<std::int32_t>(i);
    if (in.kind == Kind::RemoteLoadWait) {
      const auto it = under_way.find(in.other_target);
      require(it != under_way.end(), "transfer ", in.other_target, " has not started");
      const StepInstruction& start = *it->second;
      require(start.target == in.target && start.destination() == in.operands[0], "transfer ",
              in.other_target, " goes elsewhere");
      under_way.erase(it);
    }
    for (const auto& [transfer, start] : under_way) {
      require(!in.touches(start->destination().storage), "it touches %",
              start->destination().storage, ", which transfer ", transfer, " fills meanwhile");
    }
    if (in.kind != Kind::RemoteLoadStart) continue;
    take_number(transfers, in.other_target, "transfer");
    under_way[in.other_target] = &in;
  }
  require(under_way.empty(), "a transfer is not waited for");
}

void OrderChecker::check_sends(std::vector<bool>& sends) {
  std::map<std::int32_t, const StepInstruction*> under_way;  // by number
  for (std::size_t i = 0; i < function_.instructions.size(); ++i) {
    const StepInstruction& in = function_.instructions[i];
    at_ = static_cast<std::int32_t>(i);
    if (in.kind == Kind::Receive) {
      const auto it = under_way.find(in.other_target);
      require(it != under_way.end(), "nothing has sent number ", in.other_target);
      const StepInstruction& send = *it->second;
      require(send.device == in.target && send.target == in.device && send.count == in.count &&
                  send.operands[0] == in.operands[0],
              "number ", in.other_target, " was sent as another value or to another device");
      under_way.erase(it);
    }
    for (const auto& [number, send] : under_way) {
      const std::int32_t sent = send->operands[0].storage;
      const bool writes =
          std::any_of(in.operands.begin(), in.operands.end(), [&](const StepOperand& operand) {
            return operand.storage == sent && sent >= 0 && !operand.read_only;
          });
      require(!writes, "it writes %", sent, ", which number ", number, " has not brought yet");
    }
    if (in.kind != Kind::Send) continue;
    require(in.device >= 0 && in.target != in.device, "it sends to its own device");
    take_number(sends, in.other_target, "number");
    under_way[in.other_target] = &in;
  }
  require(under_way.empty(), "a value that is sent is not received");
}

void OrderChecker::check_rows(std::vector<bool>& rows) {
  std::size_t loads = 0;
  for (std::size_t i = 0; i < function_.instructions.size(); ++i) {
    const StepInstruction& in = function_.instructions[i];
    at_ = static_cast<std::int32_t>(i);
    if (in.row < 0) continue;
    ++loads;
    take_number(rows, in.row, "row");
    const Storage& s = function_.storage_of(in.destination());
    require(s.row == in.row && in.destination().offset == 0, "it fills %", in.destination().storage,
            ", which is not its row");
    check_row_writes(in);
  }
  at_ = -1;
  const auto storages = std::count_if(function_.storages.begin(), function_.storages.end(),
                                      [](const Storage& s) { return s.row >= 0; });
  require(static_cast<std::size_t>(storages) == loads, "wanted as many loads as rows (", storages,
          "), given ", loads);
}

void OrderChecker::check_row_writes(const StepInstruction& load) const {
  const std::int32_t row = load.destination().storage;
  for (const StepInstruction& in : function_.instructions) {
    for (const StepOperand& operand : in.operands) {
      if (&in == &load || operand.storage != row) continue;
      require(operand.read_only || load.writes_row, "its row %", row,
              " is written, and it does not say so");
    }
  }
}

void OrderChecker::check_plan() {
  for (std::size_t i = 0; i < function_.instructions.size(); ++i) {
    const StepInstruction& in = function_.instructions[i];
    at_ = static_cast<std::int32_t>(i);
    require(in.device >= 0, "it has no device");
    const auto require_alive = [&](std::int32_t index) {
      require(index < 0 || storage(index).is_alive_at(at_), "%", index, " is not alive");
    };
    for (const StepOperand& operand : in.operands) require_alive(operand.storage);
    for (const std::int32_t frame : in.callee_frames) require_alive(frame);
    if (in.is_call()) check_callee_frames(in);
  }
}

void OrderChecker::check_callee_frames(const StepInstruction& in) const {
  std::vector<std::int64_t> given(function_.frame_bytes.size());
  for (const std::int32_t index : in.callee_frames) {
    const Storage& frame = storage(index);
    const bool is_of_callee =
        frame.callee == in.target || (in.kind == Kind::If && frame.callee == in.other_target);
    std::int64_t& bytes = given[static_cast<std::size_t>(frame.device)];
    require(is_of_callee && bytes == 0, "%", index, " is not its callee's only frame on device ",
            frame.device);
    bytes = frame.bytes;
  }
  const auto require_room = [&](std::int32_t callee) {
    const StepFunction& called = program_.functions[static_cast<std::size_t>(callee)];
    require(called.is_planned(), "it calls function ", callee, ", which is not planned");
    for (std::size_t d = 0; d < given.size(); ++d) {
      require(given[d] >= called.frame_bytes[d], "it calls what needs a frame of ",
              called.frame_bytes[d], " bytes on device ", d, "; given ", given[d]);
    }
  };
  require_room(in.target);
  if (in.kind == Kind::If) require_room(in.other_target);
}

void OrderChecker::check_overlap() {
  struct Event {
    std::int32_t time;
    bool begins;
    std::size_t storage;
  };
  std::vector<Event> events;
  for (std::size_t i = 0; i < function_.storages.size(); ++i) {
    const Storage& s = function_.storages[i];
    if (s.kind != Storage::Kind::Local || s.first < 0 || s.bytes == 0) continue;
    const std::int64_t frame = function_.frame_bytes[static_cast<std::size_t>(s.device)];
    require(s.bytes <= frame - s.offset, "%", i, " is not within the frame of ", frame, " bytes");
    events.push_back({s.first, true, i});
    events.push_back({s.last + 1, false, i});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::pair(a.time, a.begins) < std::pair(b.time, b.begins);
  });
  using Place = std::pair<std::int32_t, std::int64_t>;  // device, offset
  std::map<Place, std::size_t> alive;
  for (const Event& event : events) {
    const Storage& s = function_.storages[event.storage];
    if (!event.begins) {
      alive.erase({s.device, s.offset});
      continue;
    }
    const auto next = alive.lower_bound({s.device, s.offset});
    const auto require_apart = [&](std::size_t low, std::size_t high) {
      const Storage& first = function_.storages[low];
      const Storage& second = function_.storages[high];
      require(first.device != second.device || first.offset + first.bytes <= second.offset, "%",
              low, " and %", high, " overlap while both are alive");
    };
    if (next != alive.end()) require_apart(event.storage, next->second);
    if (next != alive.begin()) require_apart(std::prev(next)->second, event.storage);
    alive[{s.device, s.offset}] = event.storage;
  }
}

void OrderChecker::check_streams() {
  if (function_.streams.empty()) return;
  require(function_.streams.size() == function_.devices.size(), "it has ", function_.streams.size(),
          " streams for ", function_.devices.size(), " devices");
  std::vector<bool> runs(function_.instructions.size());
  for (std::size_t d = 0; d < function_.streams.size(); ++d) {
    const std::int32_t device = function_.devices[d];
    std::int32_t last = -1;
    for (const StreamStep& step : function_.streams[d]) {
      if (step.kind != StreamStep::Kind::Run) {
        require(
            std::binary_search(function_.devices.begin(), function_.devices.end(), step.index) &&
                step.index != device,
            "device ", device, " signals to or waits for device ", step.index);
        continue;
      }
      require(step.index > last && static_cast<std::size_t>(step.index) < runs.size(), "device ",
              device, " runs instruction ", step.index, " after ", last);
      last = step.index;
      const auto index = static_cast<std::size_t>(step.index);
      const StepInstruction& in = function_.instructions[index];
      require(in.is_call() || in.device == device, "device ", device, " runs instruction ", last,
              " of device ", in.device);
      runs[index] = runs[index] || in.device == device;
    }
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    require(runs[i], "no stream runs instruction ", i);
  }
}

}  // namespace pando
