#include "pando/backends/cpu/fused/chain_places.hpp"

#if defined(__x86_64__)

#include <algorithm>
#include <array>
#include <bit>
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

/// Invariants get the registers that are left, the most used first; then slots get places on the
/// stack, and literals stay behind the code.
void ChainPlaces::begin(const ChainCode& chain) {
  chain_ = &chain;
  registers_ = VectorRegisters(chain.width);
  invariant_registers_.clear();
  invariant_places_.clear();
  literal_registers_.clear();
  literals_.begin(registers_.is_wide());
  int reg = chain.plan->registers_used * chain.unroll;
  int place = chain.plan->spill_places * chain.unroll;
  for (const Invariant& invariant : invariants_by_use()) {
    const bool has_register = reg < registers_.num_values();
    if (invariant.is_literal) {
      if (has_register) literal_registers_[invariant.name] = reg++;
    } else if (has_register) {
      invariant_registers_[static_cast<int>(invariant.name)] = reg++;
    } else {
      invariant_places_[static_cast<int>(invariant.name)] = place++;
    }
  }
  places_bytes_ = place * registers_.bytes();
  frame_bytes_ = places_bytes_ + (2 + num_block_ends()) * kPointerBytes;
}

std::vector<ChainPlaces::Invariant> ChainPlaces::invariants_by_use() const {
  const ChainBody& body = *chain_->body;
  std::map<std::pair<bool, std::uint32_t>, int> uses;
  for (int id : body.program.body) {
    for (int operand : body.program.op(id).operands) {
      if (operand < 0 || body.is_made(operand) || body.is_moving_block(operand)) continue;
      const bool is_literal = body.program.op(operand).kind == FusedOp::Kind::Constant;
      ++uses[{is_literal, is_literal ? body.constant_bits(operand)
                                     : static_cast<std::uint32_t>(body.slot(operand))}];
    }
  }
  std::vector<Invariant> found;
  found.reserve(uses.size());
  for (const auto& [key, count] : uses) found.push_back({key.first, key.second, count});
  std::stable_sort(found.begin(), found.end(),
                   [](const Invariant& a, const Invariant& b) { return a.uses > b.uses; });
  return found;
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
  for (int i = 0, registers = chain_->unroll; i < num_block_ends(); ++i, registers /= 2) {
    code_.mov(rax, end);
    code_.and_(rax, -registers_.lanes() * registers);
    code_.mov(blocks_end(registers), rax);
  }
  code_.mov(rdi, ptr[rdi + offsetof(ChainRun, slots)]);
  const auto slot_pointer = [&](int slot) { return ptr[rdi + slot * kPointerBytes]; };
  for (const auto& [slot, reg] : invariant_registers_) {
    code_.mov(rax, slot_pointer(slot));
    code_.vmovups(registers_.reg(reg), ptr[rax]);
  }
  for (const auto& [slot, place] : invariant_places_) {
    code_.mov(rax, slot_pointer(slot));
    code_.vmovups(registers_.loaded(), ptr[rax]);
    code_.vmovups(stack_place(place), registers_.loaded());
  }
  for (const auto& [bits, reg] : literal_registers_) literals_.load(bits, registers_.reg(reg));
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

Xbyak::Reg64 ChainPlaces::pointer(int slot) const {
  const std::vector<int>& moving = *chain_->moving_slots;
  const auto it = std::find(moving.begin(), moving.end(), slot);
  internal_check(it != moving.end(), "a slot that does not move has no pointer");
  return Reg64(kPointers[static_cast<std::size_t>(it - moving.begin())]);
}

Xbyak::Address ChainPlaces::lanes_of(int slot) const {
  return ptr[pointer(slot) + index * 4 + side_ * registers_.bytes()];
}

Xbyak::Address ChainPlaces::half_lanes_of(int slot) const {
  return ptr[pointer(slot) + index * 2 + side_ * registers_.bytes() / 2];
}

Xbyak::Address ChainPlaces::ahead_of(int slot, int bytes) const {
  return ptr[pointer(slot) + index * 4 + bytes];
}

Xbyak::Address ChainPlaces::stack_place(int place) const {
  return ptr[rsp + place * registers_.bytes()];
}

Xbyak::Address ChainPlaces::rows_left() const { return qword[rsp + places_bytes_]; }

Xbyak::Address ChainPlaces::row_steps() const { return qword[rsp + places_bytes_ + kPointerBytes]; }

int ChainPlaces::num_block_ends() const {
  int count = 0;
  for (int r = chain_->unroll; registers_.lanes() * r > kChainRowLanes; r /= 2) ++count;
  return count;
}

Xbyak::Address ChainPlaces::blocks_end(int registers) const {
  const int halvings = std::countr_zero(static_cast<unsigned>(chain_->unroll / registers));
  return qword[rsp + places_bytes_ + (2 + halvings) * kPointerBytes];
}

std::optional<Xbyak::Ymm> ChainPlaces::literal_register(std::uint32_t bits) const {
  const auto it = literal_registers_.find(bits);
  return it == literal_registers_.end() ? std::nullopt : std::optional(registers_.reg(it->second));
}

std::optional<Xbyak::Ymm> ChainPlaces::invariant_register(int slot) const {
  const auto it = invariant_registers_.find(slot);
  return it == invariant_registers_.end() ? std::nullopt
                                          : std::optional(registers_.reg(it->second));
}

}  // namespace pando::cpu

#endif
