// What a runner did, for people.
#include <algorithm>

#include "pando/program/disassembly.hpp"
#include "pando/runtime/engine.hpp"
#include "pando/session/runner.hpp"

namespace pando {

std::vector<InstructionTime> Runner::trace() const {
  const CallGate::Pass pass(gate_, stop_check_);
  std::vector<InstructionTime> result;
  if (engines_.empty() || engines_[0]->profile() == nullptr) return result;
  const Program& program = executable_->program();
  const auto& profile = engines_[0]->profile()->instructions();
  for (std::size_t f = 0; f < profile.size(); ++f) {
    for (std::size_t i = 0; i < profile[f].size(); ++i) {
      const Instruction& instruction = program.functions[f].instructions[i];
      InstructionTime entry;
      entry.function = program.functions[f].name;
      if (instruction.source >= 0) {
        const SourceInfo source = program.sources[static_cast<std::size_t>(instruction.source)];
        entry.op = source.op;
        entry.location = source.location;
      }
      entry.kernel = instruction_name(program, instruction);
      entry.calls = profile[f][i].calls;
      entry.seconds = profile[f][i].seconds;
      result.push_back(std::move(entry));
    }
  }
  return result;
}

std::vector<PhaseProfile> Runner::phases() const {
  const CallGate::Pass pass(gate_, stop_check_);
  if (engines_.empty() || engines_[0]->profile() == nullptr) return {};
  return engines_[0]->profile()->phases();
}

std::vector<TimelineLane> Runner::timeline() const {
  const CallGate::Pass pass(gate_, stop_check_);
  if (engines_.empty() || engines_[0]->profile() == nullptr) return {};
  return engines_[0]->profile()->timeline();
}

std::int64_t Runner::actual_peak_bytes() const {
  const CallGate::Pass pass(gate_, stop_check_);
  std::int64_t most = 0;
  for (const auto& engine : engines_) most = std::max(most, engine->resident_bytes());
  return most;
}

IoReport Runner::io_report() const {
  const CallGate::Pass pass(gate_, stop_check_);
  IoReport total;
  for (const auto& engine : engines_) {
    const IoReport report = engine->remote().report();
    total.bytes_loaded += report.bytes_loaded;
    total.bytes_stored += report.bytes_stored;
    total.bytes_from_stores += report.bytes_from_stores;
    total.io_seconds += report.io_seconds;
    total.busy_seconds += report.busy_seconds;
    total.waiting_seconds += report.waiting_seconds;
  }
  return total;
}

std::string Runner::explain() const {
  const CallGate::Pass pass(gate_, stop_check_);
  std::string text;
  for (const KernelSpec& spec : executable_->program().kernels) {
    text += spec.kind + ": " + replicas_.target(0)->prepare(spec)->explain() + "\n";
  }
  const std::string method = io_method();
  if (!method.empty()) text += "remote buffers in files: " + method + "\n";
  return text;
}

}  // namespace pando
