// What the functions of a program name by index: kernels, streams, sources, ...
#pragma once

#include <map>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pando/compile/fused_step_cache.hpp"
#include "pando/compile/kernel_numbers.hpp"
#include "pando/ir/graph.hpp"
#include "pando/ir/numbered_map.hpp"
#include "pando/program/target.hpp"
#include "pando/steps/step_function.hpp"

namespace pando {

/// The texts of source locations, each made once. Names of files must stay where they are.
class LocationTexts {
 public:
  /// `add_text`: puts a text into the table that this one belongs to, for its index.
  template <class AddText>
  TextTable::Index of(const Op& op, AddText add_text) {
    const SourceLocation& at = op.context.location;
    if (last_ && at.line == last_->line && at.file.is_shared_with(last_->file)) return last_text_;
    const Key key = at.known() ? Key(at.file, at.line) : Key("", 0);
    const auto [text, is_new] = known_.try_emplace(key);
    if (is_new) {
      text->second = at.known() ? add_text(str_cat(at.file, ":", at.line)) : add_text("");
    }
    last_ = at;
    return last_text_ = text->second;
  }

 private:
  using Key = std::pair<std::string_view, int>;
  std::map<Key, TextTable::Index> known_;
  // Ops of one line are neighbours.
  std::optional<SourceLocation> last_;
  TextTable::Index last_text_ = 0;
};

/// Fills the tables of a program while its graphs are lowered, with one entry for each thing.
class ProgramTables {
 public:
  ProgramTables(StepProgram& steps, const Ir& ir, Target& target);
  ProgramTables(const ProgramTables&) = delete;
  ProgramTables& operator=(const ProgramTables&) = delete;

  const Target& target() const { return target_; }
  FusedStepCache& fused_steps() { return fused_steps_; }

  /// Equal ones are one. None is prepared yet.
  std::int32_t kernel(const KernelSpec& spec) { return kernels_.of(spec); }
  std::int32_t stream(const Op& op);
  std::int32_t remote_buffer(const Op& op);
  /// -1: there is none with the number.
  std::int32_t remote_buffer(std::int64_t id);
  /// `collective` gets its name here.
  std::int32_t collective(CollectiveDesc collective, const Op& op);
  std::int32_t print(PrintDesc print);
  std::int32_t host_call(HostCallDesc call);
  std::int32_t source(const Op& op);
  std::int32_t device(const Op& op) const;
  /// What is asked about is a variable, a constant, or what outlives a run.
  std::int64_t global_offset(const Tensor& root);
  TextTable::Index storage_name(std::string_view name) { return steps_.texts.add(name); }
  TextTable::Index storage_location(const Op& op);
  TextTable::Index phase(const std::string& phase);

 private:
  StepProgram& steps_;
  Program& program_;
  Target& target_;
  std::unordered_map<std::string_view, const Stream*> ir_streams_;
  std::unordered_map<std::int64_t, const RemoteBuffer*> ir_buffers_;
  KernelNumbers kernels_;
  std::unordered_map<std::string_view, std::int32_t> streams_;
  std::unordered_map<std::int64_t, std::int32_t> buffers_;
  std::pmr::monotonic_buffer_resource memory_;  // of what is made for most ops and tensors
  std::unordered_map<const Graph*, OpMap<std::int32_t>> sources_;  // -1: not added yet
  std::unordered_map<std::string, TextTable::Index> phases_;
  std::optional<SharedText> last_phase_;  // ops of one phase are neighbours
  TextTable::Index last_phase_text_ = 0;
  std::pmr::unordered_map<const Tensor*, std::int64_t> globals_{&memory_};
  LocationTexts source_locations_;
  LocationTexts storage_locations_;
  FusedStepCache fused_steps_;
};

}  // namespace pando
