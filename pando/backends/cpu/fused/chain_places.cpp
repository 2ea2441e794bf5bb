#include "pando/backends/cpu/fused/chain_places.hpp"

#if defined(__x86_64__)

#include <algorithm>
#include <array>
#include <utility>

#include "pando/backends/cpu/fused/compiled_chain.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

using Xbyak::Operand;
using namespace Xbyak::util;

constexpr std::array kPointers = {Operand::RAX, Operand::RCX, Operand::RDX, Operand::R8,
                                  Operand::R9,  Operand::R10, Operand::R11, Operand::RBX,
                                  Operand::RBP, Operand::R12, Operand::R13, Operand::R14,
                                  Operand::R15};
constexpr std::size_t kCallerSaved = 7;  // of them
static_assert(kPointers.size() == ChainPlaces::kMostMovingSlots);

}  // namespace

/// Invariants get the registers that are left, the most used first, then places on the stack.
void ChainPlaces::begin(const ChainCode& chain) {
  chain_ = &chain;
  invariant_registers_.clear();
  invariant_places_.clear();
  literals_.clear();
  int reg = chain.plan->registers_used * chain.unroll;
  int place = chain.plan->spill_places * chain.unroll;
  for (int slot : invariants_by_use()) {
    if (reg < kPlanRegisters) {
      invariant_registers_[slot] = reg++;
    } else {
      invariant_places_[slot] = place++;
    }
  }
  places_bytes_ = place * kRegisterBytes;
  frame_bytes_ = places_bytes_ + 2 * kPointerBytes;
}

std::vector<int> ChainPlaces::invariants_by_use() const {
  const std::vector<int>& moving = *chain_->moving_slots;
  std::map<int, int> uses;
  for (const ChainStep& step : *chain_->steps) {
    for (int operand : step.operands) {
      if (!is_block_in_slot(operand)) continue;
      const int slot = slot_of_block(operand);
      if (std::find(moving.begin(), moving.end(), slot) == moving.end()) ++uses[slot];
    }
  }
  std::vector<int> slots;
  slots.reserve(uses.size());
  for (const auto& [slot, count] : uses) slots.push_back(slot);
  std::stable_sort(slots.begin(), slots.end(), [&](int a, int b) { return uses[a] > uses[b]; });
  return slots;
}

void ChainPlaces::emit_entry() {
  for (std::size_t i = kCallerSaved; i < chain_->moving_slots->size(); ++i) {
    code_.push(Reg64(kPointers[i]));
  }
  code_.sub(rsp, frame_bytes_);
  code_.mov(rax, ptr[rdi + offsetof(ChainRun, rows)]);
  code_.mov(rows_left(), rax);
  code_.mov(rax, ptr[rdi + offsetof(ChainRun, row_steps)]);
  code_.mov(row_steps(), rax);
  code_.mov(end, ptr[rdi + offsetof(ChainRun, lanes)]);
  code_.mov(rdi, ptr[rdi + offsetof(ChainRun, slots)]);
  const auto slot_pointer = [&](int slot) { return ptr[rdi + slot * kPointerBytes]; };
  for (const auto& [slot, reg] : invariant_registers_) {
    code_.mov(rax, slot_pointer(slot));
    code_.vmovups(Ymm(reg), ptr[rax]);
  }
  for (const auto& [slot, place] : invariant_places_) {
    code_.mov(rax, slot_pointer(slot));
    code_.vmovups(Ymm(kLoaded), ptr[rax]);
    code_.vmovups(stack_place(place), Ymm(kLoaded));
  }
  for (int slot : *chain_->moving_slots) code_.mov(pointer(slot), slot_pointer(slot));
}

void ChainPlaces::emit_next_row(const Xbyak::Label& row) {
  Xbyak::Label done;
  code_.dec(rows_left());
  code_.jz(done, Xbyak::CodeGenerator::T_NEAR);
  code_.mov(index, row_steps());
  for (int slot : *chain_->moving_slots) {
    code_.add(pointer(slot), ptr[index + slot * kPointerBytes]);
  }
  code_.jmp(row, Xbyak::CodeGenerator::T_NEAR);
  code_.L(done);
}

void ChainPlaces::emit_exit() {
  code_.vzeroupper();
  code_.add(rsp, frame_bytes_);
  for (std::size_t i = chain_->moving_slots->size(); i-- > kCallerSaved;) {
    code_.pop(Reg64(kPointers[i]));
  }
  code_.ret();
}

void ChainPlaces::emit_literals() {
  code_.align(kRegisterBytes);
  for (auto& [bits, label] : literals_) {
    code_.L(label);
    for (int i = 0; i < kLanes; ++i) code_.dd(bits);
  }
}

Xbyak::Reg64 ChainPlaces::pointer(int slot) const {
  const std::vector<int>& moving = *chain_->moving_slots;
  const auto it = std::find(moving.begin(), moving.end(), slot);
  internal_check(it != moving.end(), "a slot that does not move has no pointer");
  return Reg64(kPointers[static_cast<std::size_t>(it - moving.begin())]);
}

Xbyak::Address ChainPlaces::lanes_of(int slot) const {
  return ptr[pointer(slot) + index * 4 + side_ * kRegisterBytes];
}

Xbyak::Address ChainPlaces::half_lanes_of(int slot) const {
  return ptr[pointer(slot) + index * 2 + side_ * kRegisterBytes / 2];
}

Xbyak::Address ChainPlaces::ahead_of(int slot, int bytes) const {
  return ptr[pointer(slot) + index * 4 + bytes];
}

Xbyak::Address ChainPlaces::stack_place(int place) const {
  return ptr[rsp + place * kRegisterBytes];
}

Xbyak::Address ChainPlaces::literal(std::uint32_t bits) { return ptr[rip + literals_[bits]]; }

Xbyak::Address ChainPlaces::rows_left() const { return qword[rsp + places_bytes_]; }

Xbyak::Address ChainPlaces::row_steps() const { return qword[rsp + places_bytes_ + kPointerBytes]; }

std::optional<Xbyak::Ymm> ChainPlaces::invariant_register(int slot) const {
  const auto it = invariant_registers_.find(slot);
  return it == invariant_registers_.end() ? std::nullopt : std::optional(Ymm(it->second));
}

}  // namespace pando::cpu

#endif
