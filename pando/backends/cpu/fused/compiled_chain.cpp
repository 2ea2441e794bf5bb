#include "pando/backends/cpu/fused/compiled_chain.hpp"

#if defined(__x86_64__)

#include <xbyak/xbyak_util.h>

#include <algorithm>

#include "pando/backends/cpu/fused/chain_emitter.hpp"
#include "pando/backends/cpu/fused/executable_memory.hpp"

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

/// Lanes that differ from row to row only: not worth code of its own.
bool reads_invariant_half(const ChainStep& step, const std::vector<bool>& moves) {
  return step.kind == ChainStep::Kind::Compute && step.op == ChainOp::LoadHalf &&
         !moves[static_cast<std::size_t>(slot_of_block(step.operands[0]))];
}

std::vector<int> moving_slots_of(const std::vector<ChainStep>& steps,
                                 const std::vector<bool>& moves) {
  std::vector<int> slots;
  const auto need = [&](int slot) {
    if (!moves[static_cast<std::size_t>(slot)]) return;
    if (std::find(slots.begin(), slots.end(), slot) == slots.end()) slots.push_back(slot);
  };
  for (const ChainStep& step : steps) {
    for (int operand : step.operands) {
      if (is_block_in_slot(operand)) need(slot_of_block(operand));
    }
    if (step.kind != ChainStep::Kind::Compute) need(step.output_slot);
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

class X86Chain final : public CompiledChain {
 public:
  X86Chain(ExecutableCode code, ExecutableCode streaming)
      : code_(std::move(code)), streaming_(std::move(streaming)) {}

  void run(const ChainRun& run) const override {
    if (run.lanes == 0) return;
    (run.streams ? streaming_ : code_).as<void (*)(const ChainRun*)>()(&run);
  }
  std::size_t code_bytes() const override { return code_.size() + streaming_.size(); }

 private:
  ExecutableCode code_, streaming_;
};

}  // namespace

std::unique_ptr<CompiledChain> compile_chain(const std::vector<ChainStep>& steps,
                                             const std::vector<bool>& moves, bool may_stream) {
  const std::vector<int> moving_slots = moving_slots_of(steps, moves);
  const bool can = has_instructions() && moving_slots.size() <= ChainPlaces::kMostMovingSlots &&
                   std::none_of(steps.begin(), steps.end(), [&](const ChainStep& step) {
                     return reads_invariant_half(step, moves);
                   });
  if (!can) return nullptr;
  ChainCode code = {.steps = &steps, .moving_slots = &moving_slots, .unroll = 2};
  RegisterPlan plan = plan_registers(steps, moves, ChainPlaces::kPlanRegisters / code.unroll);
  if (plan.spill_places > 0) {
    code.unroll = 1;
    plan = plan_registers(steps, moves, ChainPlaces::kPlanRegisters);
  }
  code.plan = &plan;
  ExecutableCode plain = write_code(code), streaming;
  if (may_stream) {
    code.streams = true;
    streaming = write_code(code);
  }
  if (!plain || (may_stream && !streaming)) return nullptr;
  return std::make_unique<X86Chain>(std::move(plain), std::move(streaming));
}

}  // namespace pando::cpu

#else

namespace pando::cpu {

std::unique_ptr<CompiledChain> compile_chain(const std::vector<ChainStep>&,
                                             const std::vector<bool>&, bool) {
  return nullptr;
}

}  // namespace pando::cpu

#endif
