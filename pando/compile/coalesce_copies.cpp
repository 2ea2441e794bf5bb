#include "pando/compile/coalesce_copies.hpp"

#include <algorithm>

#include "pando/program/check_tables.hpp"

namespace pando {
namespace {

using Kind = Instruction::Kind;

/// What a kernel or a Copy copies: `bytes` from operand `from` to operand `to`; 0: nothing.
struct CopiedBytes {
  std::int64_t bytes = 0;
  std::size_t from = 0;
  std::size_t to = 1;
};

/// The load whose value, as it is, is all that `program` stores; nullptr: there is none.
const ScalarInstruction* stored_load(const ScalarProgram& program) {
  const ScalarInstruction* stored = nullptr;
  for (const ScalarInstruction& in : program.instructions) {
    if (in.op != ScalarOp::Store) continue;
    if (stored != nullptr) return nullptr;
    stored = &in;
  }
  if (stored == nullptr) return nullptr;
  const ScalarInstruction* value = stored;
  do {
    value = &program.instructions[static_cast<std::size_t>(value->a)];
  } while (value->op == ScalarOp::Round && value->dtype == stored->dtype);
  return value->op == ScalarOp::Load && value->dtype == stored->dtype ? value : nullptr;
}

/// Where the output of the kernel is an input, both contiguous.
CopiedBytes copied_by(const KernelSpec& spec) {
  if (spec.outputs.size() != 1) return {};
  std::size_t input = 0;
  if (spec.kind == "Fused") {
    const ScalarInstruction* load = stored_load(spec.scalar);
    if (load == nullptr) return {};
    input = static_cast<std::size_t>(load->index);
  } else if (spec.kind != "Copy") {
    return {};
  }
  const OperandDesc &from = spec.inputs[input], &to = spec.outputs[0];
  const bool is_plain = from.dtype == to.dtype && from.shape == to.shape && from.is_contiguous() &&
                        to.is_contiguous();
  if (!is_plain) return {};
  return {program_check::checked_bytes(to.dtype, to.shape), input, spec.inputs.size()};
}

/// How one instruction uses a storage.
struct Use {
  std::size_t at = 0;
  bool writes = false;
};

class CopyCoalescer {
 public:
  /// `copied`: by kernel.
  CopyCoalescer(const StepProgram& program, StepFunction& function,
                const std::vector<CopiedBytes>& copied)
      : has_several_devices_(program.device_numbers.size() > 1),
        function_(function),
        copied_(copied) {}

  void run() {
    std::vector<std::size_t> candidates;
    for (std::size_t i = 0; i < function_.instructions.size(); ++i) {
      if (copied_by(at(i)).bytes > 0) candidates.push_back(i);
    }
    if (candidates.empty()) return;
    find_uses();
    is_removed_.resize(function_.instructions.size());
    for (const std::size_t copy : candidates) {
      if (from(copy) == to(copy).as_read_only()) {
        is_removed_[copy] = true;
      } else if (may_merge(copy)) {
        merge(copy);
      }
    }
    std::size_t next = 0;
    std::erase_if(function_.instructions,
                  [&](const StepInstruction&) { return is_removed_[next++]; });
  }

 private:
  using Uses = std::vector<Use>;  // in order

  StepInstruction& at(std::size_t i) { return function_.instructions[i]; }
  Storage& storage(std::int32_t index) {
    return function_.storages[static_cast<std::size_t>(index)];
  }
  Uses& uses(std::int32_t storage) { return uses_[static_cast<std::size_t>(storage)]; }

  CopiedBytes copied_by(const StepInstruction& in) const {
    if (in.kind == Kind::Copy) return {in.count};
    if (in.kind != Kind::Kernel) return {};
    return copied_[static_cast<std::size_t>(in.target)];
  }
  StepOperand from(std::size_t copy) { return at(copy).operands[copied_by(at(copy)).from]; }
  StepOperand to(std::size_t copy) { return at(copy).operands[copied_by(at(copy)).to]; }

  void find_uses() {
    uses_.resize(function_.storages.size());
    for (std::size_t i = 0; i < function_.instructions.size(); ++i) {
      const auto use = [&](std::int32_t storage, bool writes) {
        if (storage < 0) return;
        Uses& all = uses(storage);
        if (all.empty() || all.back().at != i) all.push_back({i});
        all.back().writes = all.back().writes || writes;
      };
      for (const StepOperand& operand : at(i).operands) use(operand.storage, !operand.read_only);
      use(at(i).callee_frame, true);
    }
  }

  bool may_merge(std::size_t copy) {
    const StepOperand source = from(copy), target = to(copy);
    if (source.storage < 0 || target.storage < 0 || source.storage == target.storage) return false;
    const Storage& made = storage(source.storage);
    const bool is_whole = source.offset == 0 && made.bytes == copied_by(at(copy)).bytes;
    if (made.kind != Storage::Kind::Local || made.row >= 0 || !is_whole) return false;
    return is_made_by_steps(copy) && has_room_for(copy) && keeps_values(copy) &&
           (!is_kept(target.storage) || is_made_at_once(copy)) &&
           (!has_several_devices_ || is_on_one_device(copy));
  }

  /// Whether something writes the source before the copy, and no transfer that other passes could
  /// let begin early or use in place does, unless the copy alone reads what it loads.
  bool is_made_by_steps(std::size_t copy) {
    const std::int32_t source = from(copy).storage, target = to(copy).storage;
    const Uses& made = uses(source);
    if (made.front().at >= copy || !made.front().writes) return false;
    return std::all_of(made.begin(), made.end(), [&](const Use& use) {
      const StepInstruction& in = at(use.at);
      if (in.kind == Kind::RemoteLoadStart || in.kind == Kind::RemoteLoadWait) return false;
      if (!in.is_load() || in.destination().storage != source) return true;
      return made.size() == 2 && storage(target).kind == Storage::Kind::Local &&
             storage(target).bytes == storage(source).bytes && uses(target).front().at == copy;
    });
  }

  /// Whether the destination is memory of its own, and no more of it is needed for longer.
  bool has_room_for(std::size_t copy) {
    const Storage& target = storage(to(copy).storage);
    if (target.row >= 0) return false;
    // Inputs may be the same memory as each other or as a variable.
    if (target.kind == Storage::Kind::Argument) return target.slot >= function_.num_inputs;
    if (target.kind == Storage::Kind::Global) return function_.num_inputs == 0;
    const Uses &made = uses(from(copy).storage), &own = uses(to(copy).storage);
    return target.bytes == storage(from(copy).storage).bytes ||
           (own.front().at <= made.front().at && made.back().at <= own.back().at);
  }

  /// Whether source and destination are never both needed with different values.
  bool keeps_values(std::size_t copy) {
    const Uses &made = uses(from(copy).storage), &own = uses(to(copy).storage);
    const auto after_copy = [&](const Use& use) { return use.at > copy; };
    const std::size_t first = made.front().at, last = made.back().at;
    if (std::any_of(std::find_if(made.begin(), made.end(), after_copy), made.end(),
                    [](const Use& use) { return use.writes; })) {
      return false;
    }
    auto it = std::lower_bound(own.begin(), own.end(), first,
                               [](const Use& use, std::size_t i) { return use.at < i; });
    if (it->at != copy) return false;
    for (++it; it != own.end() && it->at <= last; ++it) {
      if (it->writes) return false;
    }
    return true;
  }

  /// Whether others may see it when a run is stopped.
  bool is_kept(std::int32_t target) {
    if (storage(target).kind == Storage::Kind::Global) return true;
    return is_loaded(target);
  }

  bool is_loaded(std::int32_t target) {
    return std::any_of(uses(target).begin(), uses(target).end(), [&](const Use& use) {
      return at(use.at).kind == Kind::RemoteLoad || at(use.at).kind == Kind::RemoteLoadWait;
    });
  }

  /// Whether the source has no value but the one that is copied.
  bool is_made_at_once(std::size_t copy) {
    const Uses& made = uses(from(copy).storage);
    const bool is_written_once =
        std::none_of(made.begin() + 1, made.end(), [](const Use& use) { return use.writes; });
    const bool ends = made.back().at == copy || !is_loaded(to(copy).storage);
    return is_written_once && ends && at(made.front().at).kind == Kind::Kernel;
  }

  /// Devices have values of their own, so that none waits until another has done with it.
  bool is_on_one_device(std::size_t copy) {
    const auto is_here = [&](const Use& use) {
      return at(use.at).device == at(copy).device && !at(use.at).is_call();
    };
    const Uses &made = uses(from(copy).storage), &own = uses(to(copy).storage);
    return at(copy).device >= 0 && std::all_of(made.begin(), made.end(), is_here) &&
           std::all_of(own.begin(), own.end(), is_here);
  }

  void merge(std::size_t copy) {
    const std::int32_t source = from(copy).storage;
    const StepOperand target = to(copy);
    is_removed_[copy] = true;
    Uses& made = uses(source);
    for (const Use& use : made) {
      for (StepOperand& operand : at(use.at).operands) {
        if (operand.storage != source) continue;
        operand.storage = target.storage;
        operand.offset += target.offset;
      }
    }
    Storage& merged = storage(target.storage);
    merged.starts_undefined = merged.starts_undefined || storage(source).starts_undefined;
    Uses all;
    all.reserve(made.size() + uses(target.storage).size());
    const auto add = [&](const Use& use) {
      if (use.at == copy) return;
      if (all.empty() || all.back().at != use.at) all.push_back({use.at});
      all.back().writes = all.back().writes || use.writes;
    };
    auto next = made.begin();
    for (const Use& use : uses(target.storage)) {
      for (; next != made.end() && next->at <= use.at; ++next) add(*next);
      add(use);
    }
    std::for_each(next, made.end(), add);
    uses(target.storage) = std::move(all);
    made.clear();
  }

  bool has_several_devices_;
  StepFunction& function_;
  const std::vector<CopiedBytes>& copied_;
  std::vector<Uses> uses_;  // by storage
  std::vector<bool> is_removed_;
};

}  // namespace

void coalesce_copies(StepProgram& program) {
  std::vector<CopiedBytes> copied;
  copied.reserve(program.tables.kernels.size());
  for (const KernelSpec& spec : program.tables.kernels) copied.push_back(copied_by(spec));
  for (StepFunction& function : program.functions) CopyCoalescer(program, function, copied).run();
}

}  // namespace pando
