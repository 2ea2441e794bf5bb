#include "pando/compile/coalesce_copies.hpp"

#include <algorithm>
#include <memory_resource>
#include <set>
#include <utility>

#include "pando/compile/copied_bytes.hpp"
#include "pando/compile/merged_storages.hpp"

namespace pando {
namespace {

using Kind = Instruction::Kind;

/// The instructions that use a storage. What is asked of it takes no time for all of them.
struct StorageUses {
  using Positions = std::pmr::set<std::size_t>;

  explicit StorageUses(std::pmr::memory_resource* memory) : all(memory), writes(memory) {}

  static constexpr std::int32_t kNoDevice = -2;
  static constexpr std::int32_t kSeveralDevices = -3;

  Positions all, writes;
  bool is_loaded = false;        // from a remote buffer
  bool is_loaded_early = false;  // in two steps
  bool is_destination = false;   // of a load
  bool is_passed = false;        // to a function
  std::int32_t device = kNoDevice;

  std::size_t first() const { return *all.begin(); }
  std::size_t last() const { return *all.rbegin(); }
  bool is_written_first() const { return !writes.empty() && *writes.begin() == first(); }
  bool is_written_within(std::size_t begin, std::size_t end) const {
    const auto next = writes.lower_bound(begin);
    return next != writes.end() && *next <= end;
  }

  void add(std::size_t at, bool does_write) {
    all.insert(all.end(), at);
    if (does_write) writes.insert(writes.end(), at);
  }
  void add_device(std::int32_t next) {
    if (device == kNoDevice) device = next;
    if (next != kNoDevice && device != next) device = kSeveralDevices;
  }
  void forget(std::size_t at) {
    all.erase(at);
    writes.erase(at);
  }
  /// Those of `other`, which has none then.
  void take(StorageUses& other) {
    take(all, other.all);
    take(writes, other.writes);
    is_loaded |= other.is_loaded;
    is_loaded_early |= other.is_loaded_early;
    is_destination |= other.is_destination;
    is_passed |= other.is_passed;
    add_device(other.device);
  }

 private:
  /// The fewer go to the more, so that each position goes few times.
  static void take(Positions& to, Positions& from) {
    if (to.size() < from.size()) to.swap(from);
    to.merge(from);
    from.clear();
  }
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
    find_uses(candidates);
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
    merged_.rename(function_);
  }

 private:
  StepInstruction& at(std::size_t i) { return function_.instructions[i]; }
  Storage& storage(std::int32_t index) {
    return function_.storages[static_cast<std::size_t>(index)];
  }
  StorageUses& uses(std::int32_t storage) { return uses_[static_cast<std::size_t>(storage)]; }

  CopiedBytes copied_by(const StepInstruction& in) const {
    if (in.kind == Kind::Copy) return {in.count};
    if (in.kind != Kind::Kernel) return {};
    return copied_[static_cast<std::size_t>(in.target)];
  }
  StepOperand from(std::size_t copy) {
    return merged_.now(at(copy).operands[copied_by(at(copy)).from]);
  }
  StepOperand to(std::size_t copy) {
    return merged_.now(at(copy).operands[copied_by(at(copy)).to]);
  }

  /// Looks only at storages that copies read or write.
  void find_uses(const std::vector<std::size_t>& copies) {
    uses_.reserve(function_.storages.size());
    for (std::size_t i = 0; i < function_.storages.size(); ++i) uses_.emplace_back(&memory_);
    std::vector<bool> is_copied(function_.storages.size());
    for (const std::size_t copy : copies) {
      for (const StepOperand& operand : {from(copy), to(copy)}) {
        if (operand.storage >= 0) is_copied[static_cast<std::size_t>(operand.storage)] = true;
      }
    }
    for (std::size_t i = 0; i < function_.instructions.size(); ++i) {
      const auto use = [&](std::int32_t storage, bool writes) {
        if (storage < 0 || !is_copied[static_cast<std::size_t>(storage)]) return;
        uses(storage).add(i, writes);
        note_kind(at(i), storage);
      };
      for (const StepOperand& operand : at(i).operands) use(operand.storage, !operand.read_only);
      for (const std::int32_t frame : at(i).callee_frames) use(frame, true);
    }
  }

  void note_kind(const StepInstruction& in, std::int32_t storage) {
    StorageUses& own = uses(storage);
    const bool is_wait = in.kind == Kind::RemoteLoadWait;
    own.is_loaded |= in.kind == Kind::RemoteLoad || is_wait;
    own.is_loaded_early |= in.kind == Kind::RemoteLoadStart || is_wait;
    own.is_destination |= in.is_load() && in.destination().storage == storage;
    own.is_passed |= in.is_call();
    own.add_device(in.device);
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
    const StorageUses& made = uses(source);
    if (made.first() >= copy || made.is_loaded_early || !made.is_written_first()) return false;
    return !made.is_destination ||
           (made.all.size() == 2 && storage(target).kind == Storage::Kind::Local &&
            storage(target).bytes == storage(source).bytes && uses(target).first() == copy);
  }

  /// Whether the destination is memory of its own, and no more of it is needed for longer.
  bool has_room_for(std::size_t copy) {
    const Storage& target = storage(to(copy).storage);
    if (target.row >= 0) return false;
    // Inputs may be the same memory as each other or as a variable.
    if (target.kind == Storage::Kind::Argument) return target.slot >= function_.num_inputs;
    if (target.kind == Storage::Kind::Global) return function_.num_inputs == 0;
    const StorageUses &made = uses(from(copy).storage), &own = uses(to(copy).storage);
    return target.bytes == storage(from(copy).storage).bytes ||
           (own.first() <= made.first() && made.last() <= own.last());
  }

  /// Whether source and destination are never both needed with different values.
  bool keeps_values(std::size_t copy) {
    const StorageUses &made = uses(from(copy).storage), &own = uses(to(copy).storage);
    return *made.writes.rbegin() <= copy && *own.all.lower_bound(made.first()) == copy &&
           !own.is_written_within(copy + 1, made.last());
  }

  /// Whether others may see it when a run is stopped.
  bool is_kept(std::int32_t target) {
    return storage(target).kind == Storage::Kind::Global || uses(target).is_loaded;
  }

  /// Whether the source has no value but the one that is copied.
  bool is_made_at_once(std::size_t copy) {
    const StorageUses& made = uses(from(copy).storage);
    const bool ends = made.last() == copy || !uses(to(copy).storage).is_loaded;
    return made.writes.size() == 1 && ends && at(made.first()).kind == Kind::Kernel;
  }

  /// Devices have values of their own, so that none waits until another has done with it.
  bool is_on_one_device(std::size_t copy) {
    const auto is_here = [&](const StorageUses& uses) {
      return uses.device == at(copy).device && !uses.is_passed;
    };
    return at(copy).device >= 0 && is_here(uses(from(copy).storage)) &&
           is_here(uses(to(copy).storage));
  }

  void merge(std::size_t copy) {
    const std::int32_t source = from(copy).storage;
    const StepOperand target = to(copy);
    is_removed_[copy] = true;
    Storage& merged = storage(target.storage);
    merged.starts_undefined = merged.starts_undefined || storage(source).starts_undefined;
    uses(source).forget(copy);
    uses(target.storage).forget(copy);
    uses(target.storage).take(uses(source));
    merged_.join(source, target);
  }

  bool has_several_devices_;
  StepFunction& function_;
  const std::vector<CopiedBytes>& copied_;
  std::pmr::monotonic_buffer_resource memory_;
  std::vector<StorageUses> uses_;  // by storage, of those that are copied from or to
  MergedStorages merged_;
  std::vector<bool> is_removed_;
};

}  // namespace

void coalesce_copies(StepProgram& program) {
  std::vector<CopiedBytes> copied;
  copied.reserve(program.tables.kernels.size());
  for (const KernelSpec& spec : program.tables.kernels) copied.push_back(copied_bytes(spec));
  for (StepFunction& function : program.functions) CopyCoalescer(program, function, copied).run();
}

}  // namespace pando
