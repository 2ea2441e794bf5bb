#include "pando/backends/cpu/fused/chain_emitter.hpp"

#if defined(__x86_64__)

#include <algorithm>

#include "pando/backends/cpu/fused/compiled_chain.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

using Xbyak::Operand;

constexpr std::array kPointers = {Operand::RAX, Operand::RCX, Operand::RDX, Operand::R8,
                                  Operand::R9,  Operand::R10, Operand::R11, Operand::RBX,
                                  Operand::RBP, Operand::R12, Operand::R13, Operand::R14,
                                  Operand::R15};
constexpr std::size_t kCallerSaved = 7;  // of them
static_assert(kPointers.size() == ChainEmitter::kMostMovingSlots);

}  // namespace

ChainEmitter::ChainEmitter(std::span<std::uint8_t> buffer)
    : CodeGenerator(buffer.size(), buffer.data()) {}

std::span<const std::uint8_t> ChainEmitter::emit(const ChainCode& code) {
  code_ = code;
  invariant_registers_.clear();
  invariant_places_.clear();
  literals_.clear();
  reset();
  place_slots();
  emit_entry();
  emit_rows();
  emit_exit();
  emit_literals();
  return {getCode(), getSize()};
}

/// Invariants get the registers that are left, the most used first, then places on the stack.
void ChainEmitter::place_slots() {
  const std::vector<int>& moving = *code_.moving_slots;
  std::map<int, int> uses;
  for (const ChainStep& step : *code_.steps) {
    for (int operand : step.operands) {
      if (!is_block_in_slot(operand)) continue;
      const int slot = slot_of_block(operand);
      if (std::find(moving.begin(), moving.end(), slot) == moving.end()) ++uses[slot];
    }
  }
  std::vector<std::pair<int, int>> by_use;
  by_use.reserve(uses.size());
  for (const auto& [slot, count] : uses) by_use.emplace_back(-count, slot);
  std::sort(by_use.begin(), by_use.end());
  int reg = code_.plan->registers_used * code_.unroll;
  int place = code_.plan->spill_places * code_.unroll;
  for (const auto& [count, slot] : by_use) {
    if (reg < kPlanRegisters) {
      invariant_registers_[slot] = reg++;
    } else {
      invariant_places_[slot] = place++;
    }
  }
  places_bytes_ = place * kRegisterBytes;
  frame_bytes_ = places_bytes_ + 2 * kPointerBytes;
}

Xbyak::Reg64 ChainEmitter::pointer(int slot) const {
  const auto it = std::find(code_.moving_slots->begin(), code_.moving_slots->end(), slot);
  internal_check(it != code_.moving_slots->end(), "a slot that does not move has no pointer");
  return Reg64(kPointers[static_cast<std::size_t>(it - code_.moving_slots->begin())]);
}

void ChainEmitter::emit_entry() {
  for (std::size_t i = kCallerSaved; i < code_.moving_slots->size(); ++i) push(Reg64(kPointers[i]));
  sub(rsp, frame_bytes_);
  mov(rax, ptr[rdi + offsetof(ChainRun, rows)]);
  mov(rows_left(), rax);
  mov(rax, ptr[rdi + offsetof(ChainRun, row_steps)]);
  mov(row_steps(), rax);
  mov(end_, ptr[rdi + offsetof(ChainRun, lanes)]);
  mov(rdi, ptr[rdi + offsetof(ChainRun, slots)]);
  const auto slot_pointer = [&](int slot) { return ptr[rdi + slot * kPointerBytes]; };
  for (const auto& [slot, reg] : invariant_registers_) {
    mov(rax, slot_pointer(slot));
    vmovups(Ymm(reg), ptr[rax]);
  }
  for (const auto& [slot, place] : invariant_places_) {
    mov(rax, slot_pointer(slot));
    vmovups(Ymm(kLoaded), ptr[rax]);
    vmovups(stack_place(place), Ymm(kLoaded));
  }
  for (int slot : *code_.moving_slots) mov(pointer(slot), slot_pointer(slot));
}

void ChainEmitter::emit_rows() {
  Xbyak::Label row, block, end;
  L(row);
  xor_(index_, index_);
  L(block);
  if (code_.streams) prefetch_inputs();
  for (const RegisterAction& action : code_.plan->actions) {
    for (lane_ = 0; lane_ < code_.unroll; ++lane_) emit_action(action);
  }
  add(index_, kLanes * code_.unroll);
  cmp(index_, end_);
  jb(block, T_NEAR);
  dec(rows_left());
  jz(end, T_NEAR);
  mov(index_, row_steps());
  for (int slot : *code_.moving_slots) add(pointer(slot), ptr[index_ + slot * kPointerBytes]);
  jmp(row, T_NEAR);
  L(end);
}

/// The processor's own prefetching ends at every page; more in flight than it asks for gains too.
void ChainEmitter::prefetch_inputs() {
  constexpr int kBytesAhead = 2048;
  for (int slot : *code_.moving_slots) {
    const bool is_output =
        std::any_of(code_.steps->begin(), code_.steps->end(), [&](const ChainStep& step) {
          return step.kind != ChainStep::Kind::Compute && step.output_slot == slot;
        });
    if (!is_output) prefetcht0(ptr[pointer(slot) + index_ * 4 + kBytesAhead]);
  }
}

void ChainEmitter::emit_exit() {
  if (code_.streams) sfence();  // other threads see the stores before what this one says next
  vzeroupper();
  add(rsp, frame_bytes_);
  for (std::size_t i = code_.moving_slots->size(); i-- > kCallerSaved;) pop(Reg64(kPointers[i]));
  ret();
}

void ChainEmitter::emit_literals() {
  align(kRegisterBytes);
  for (auto& [bits, label] : literals_) {
    L(label);
    for (int i = 0; i < kLanes; ++i) dd(bits);
  }
}

void ChainEmitter::emit_action(const RegisterAction& action) {
  switch (action.kind) {
    case RegisterAction::Kind::Load:
      return vmovups(reg(action.reg), lanes_of(action.place));
    case RegisterAction::Kind::Spill:
      return vmovups(stack_place(action.place * code_.unroll + lane_), reg(action.reg));
    case RegisterAction::Kind::Reload:
      return vmovups(reg(action.reg), stack_place(action.place * code_.unroll + lane_));
    case RegisterAction::Kind::Step:
      break;
  }
  const ChainStep& step = (*code_.steps)[static_cast<std::size_t>(action.place)];
  operands_ = action.operands;
  literal_ = step.literal;
  memory_is_used_ = false;
  for (const OperandPlace& place : operands_) {
    memory_is_used_ = memory_is_used_ || place.kind == OperandPlace::Kind::Memory;
  }
  switch (step.kind) {
    case ChainStep::Kind::Compute:
      return compute(step.op, reg(action.reg));
    case ChainStep::Kind::Store:
      return code_.streams ? vmovntps(lanes_of(step.output_slot), in_register(0))
                           : vmovups(lanes_of(step.output_slot), in_register(0));
    case ChainStep::Kind::StoreHalf:
      return vcvtps2ph(half_lanes_of(step.output_slot), in_register(0), kHalfToNearest);
  }
}

Xbyak::Ymm ChainEmitter::in_register(int k) {
  const OperandPlace& place = operands_[static_cast<std::size_t>(k)];
  if (place.kind == OperandPlace::Kind::Register) return reg(place.index);
  if (place.kind == OperandPlace::Kind::Literal) {
    vmovups(Ymm(kLoaded), literal(literal_));
    return Ymm(kLoaded);
  }
  internal_check(place.kind == OperandPlace::Kind::Invariant, "a chain operand is in no register");
  const auto it = invariant_registers_.find(place.index);
  if (it != invariant_registers_.end()) return Ymm(it->second);
  vmovups(Ymm(kLoaded), stack_place(invariant_places_.at(place.index)));
  return Ymm(kLoaded);
}

bool ChainEmitter::is_on_stack(int k) const {
  const OperandPlace& place = operands_[static_cast<std::size_t>(k)];
  return place.kind == OperandPlace::Kind::Invariant && invariant_places_.contains(place.index);
}

bool ChainEmitter::is_in_memory(int k) const {
  return operands_[static_cast<std::size_t>(k)].kind == OperandPlace::Kind::Memory ||
         ((is_on_stack(k) || is_literal(k)) && !memory_is_used_);
}

}  // namespace pando::cpu

#endif
