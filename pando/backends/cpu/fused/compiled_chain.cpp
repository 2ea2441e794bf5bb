#include "pando/backends/cpu/fused/compiled_chain.hpp"

#if defined(__x86_64__)

#include <xbyak/xbyak_util.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "pando/backends/cpu/fused/chain_emitter.hpp"
#include "pando/backends/cpu/fused/executable_memory.hpp"
#include "pando/base/hash.hpp"

namespace pando::cpu {
namespace {

bool has_instructions() {
  static const bool has = [] {
    const Xbyak::util::Cpu cpu;
    return cpu.has(Xbyak::util::Cpu::tAVX2) && cpu.has(Xbyak::util::Cpu::tFMA) &&
           cpu.has(Xbyak::util::Cpu::tF16C);
  }();
  return has;
}

bool has_wide_registers() {
  static const bool has = [] {
    const Xbyak::util::Cpu cpu;
    return cpu.has(Xbyak::util::Cpu::tAVX512F) && cpu.has(Xbyak::util::Cpu::tAVX512BW) &&
           cpu.has(Xbyak::util::Cpu::tAVX512DQ) && cpu.has(Xbyak::util::Cpu::tAVX512VL);
  }();
  return has;
}

/// Lanes that differ from row to row only: not worth code of its own.
bool reads_invariant_half(const ChainBody& chain, int id) {
  const FusedOp& op = chain.program.op(id);
  return op.kind == FusedOp::Kind::Chain && loads_half_precision(op.chain) &&
         !chain.is_moving_block(op.operands[0]);
}

std::vector<int> moving_slots_of(const ChainBody& chain) {
  std::vector<int> slots;
  const auto need = [&](int slot) {
    if (std::find(slots.begin(), slots.end(), slot) == slots.end()) slots.push_back(slot);
  };
  for (int id : chain.program.body) {
    for (int operand : chain.program.op(id).operands) {
      if (operand >= 0 && chain.is_moving_block(operand)) need(chain.slot(operand));
    }
    if (chain.program.op(id).is_store()) need(chain.slot(id));
  }
  return slots;
}

/// Empty where there is no room.
ExecutableCode write_code(const ChainCode& code) {
  // Making an emitter takes longer than most chains.
  constexpr std::size_t kMostBytes = std::size_t{1} << 16;
  thread_local std::vector<std::uint8_t> buffer(kMostBytes);
  thread_local ChainEmitter emitter(buffer);
  try {
    return make_executable(emitter.emit(code));
  } catch (const Xbyak::Error&) {
    return {};
  }
}

/// Neighbouring lanes in as many registers side by side as values need no place on the stack for,
/// so that their steps run at the same time.
ExecutableCode compile(ChainCode code) {
  const int registers = VectorRegisters(code.width).num_values();
  const bool is_wide = code.width == RegisterWidth::Bits512;
  RegisterPlan plan;
  for (code.unroll = is_wide ? 4 : 2;; code.unroll /= 2) {
    plan = plan_registers(*code.body, registers / code.unroll);
    if (plan.spill_places == 0 || code.unroll == 1) break;
  }
  // Longer reads of each array gain while there are few of them (decision 8).
  constexpr std::size_t kFewSlots = 5;
  const bool has_few = is_wide && code.moving_slots->size() <= kFewSlots;
  if (has_few && 2 * code.unroll * plan.registers_used <= registers) code.unroll *= 2;
  code.plan = &plan;
  return write_code(code);
}

class X86Chain final : public CompiledChain {
 public:
  X86Chain(RegisterWidth width, ExecutableCode code, ExecutableCode streaming)
      : width_(width), code_(std::move(code)), streaming_(std::move(streaming)) {}

  void run(const ChainRun& run) const override {
    if (run.lanes == 0) return;
    (run.streams ? streaming_ : code_).as<void (*)(const ChainRun*)>()(&run);
  }
  std::size_t code_bytes() const override { return code_.size() + streaming_.size(); }
  RegisterWidth width() const override { return width_; }

 private:
  RegisterWidth width_;
  ExecutableCode code_, streaming_;
};

std::shared_ptr<const CompiledChain> make_chain(const ChainBody& chain, bool may_stream,
                                                RegisterWidth width) {
  const std::vector<int>& body = chain.program.body;
  const std::vector<int> moving_slots = moving_slots_of(chain);
  const bool can = has_instructions() && moving_slots.size() <= ChainPlaces::kMostMovingSlots &&
                   std::none_of(body.begin(), body.end(),
                                [&](int id) { return reads_invariant_half(chain, id); });
  if (!can) return nullptr;
  ChainCode code = {.body = &chain, .moving_slots = &moving_slots, .width = width};
  ExecutableCode plain = compile(code), streaming;
  if (may_stream) {
    code.width = RegisterWidth::Bits256;
    code.streams = true;
    streaming = compile(code);
  }
  if (!plain || (may_stream && !streaming)) return nullptr;
  return std::make_shared<X86Chain>(width, std::move(plain), std::move(streaming));
}

/// Finds the code that a kernel with an equal chain has, or had not long ago.
class ChainTable {
 public:
  std::shared_ptr<const CompiledChain> get(ChainBody chain, bool may_stream, RegisterWidth width) {
    const std::uint64_t hash = hash_of(chain);
    const std::lock_guard lock(mutex_);
    const auto [begin, end] = made_.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
      const Made& made = it->second;
      if (made.may_stream != may_stream || made.width != width || made.chain != chain) continue;
      if (auto code = made.code.lock()) return code;
    }
    std::shared_ptr<const CompiledChain> code = make_chain(chain, may_stream, width);
    if (code == nullptr) return code;
    made_.emplace(hash, Made{std::move(chain), may_stream, width, code});
    kept_[next_kept_] = code;
    next_kept_ = (next_kept_ + 1) % kept_.size();
    if (made_.size() > 2 * used_) drop_unused();
    return code;
  }

 private:
  struct Made {
    ChainBody chain;
    bool may_stream = false;
    RegisterWidth width = RegisterWidth::Bits256;
    std::weak_ptr<const CompiledChain> code;
  };

  static std::uint64_t hash_of(const ChainBody& chain) {
    HashWriter hash;
    for (const FusedOp& op : chain.program.ops) {
      hash.value(op.kind);
      hash.value(op.chain);
      hash.value(op.index);
      for (int operand : op.operands) hash.value(operand);
    }
    for (const auto& [bits, bytes] : chain.program.constants) hash.value(bits);
    return std::move(hash).finish().low;
  }

  void drop_unused() {
    std::erase_if(made_, [](const auto& entry) { return entry.second.code.expired(); });
    used_ = std::max(kFewest, made_.size());
  }

  static constexpr std::size_t kFewest = 32;

  std::mutex mutex_;
  std::unordered_multimap<std::uint64_t, Made> made_;
  std::size_t used_ = kFewest;  // entries that drop_unused() left
  /// What was made last, for sessions of programs that others had before: some 100 KB.
  std::array<std::shared_ptr<const CompiledChain>, 64> kept_;
  std::size_t next_kept_ = 0;
};

}  // namespace

std::shared_ptr<const CompiledChain> compile_chain(ChainBody chain, bool may_stream,
                                                   RegisterWidth widest) {
  static ChainTable table;
  return table.get(std::move(chain), may_stream,
                   has_wide_registers() ? widest : RegisterWidth::Bits256);
}

}  // namespace pando::cpu

#else

namespace pando::cpu {

std::shared_ptr<const CompiledChain> compile_chain(ChainBody, bool, RegisterWidth) {
  return nullptr;
}

}  // namespace pando::cpu

#endif
