#include "pando/backends/cpu/fused/chain_emitter.hpp"

#if defined(__x86_64__)

#include <algorithm>

namespace pando::cpu {

std::span<const std::uint8_t> ChainEmitter::emit(const ChainCode& chain) {
  code_.reset();
  places_.begin(chain);
  places_.emit_entry();
  emit_rows(chain);
  if (chain.streams) code_.sfence();  // other threads see the stores before what this one says next
  places_.emit_exit();
  places_.literals().emit();
  return {code_.getCode(), code_.getSize()};
}

void ChainEmitter::emit_rows(const ChainCode& chain) {
  Xbyak::Label row;
  code_.L(row);
  code_.xor_(places_.index, places_.index);
  if (places_.has_rest()) {
    emit_blocks_and_rest(chain);
  } else {
    emit_blocks(chain, chain.unroll, places_.end);
  }
  places_.emit_next_row(row);
}

void ChainEmitter::emit_blocks_and_rest(const ChainCode& chain) {
  Xbyak::Label done;
  for (int registers = chain.unroll; registers > 1; registers /= 2) {
    Xbyak::Label fewer;
    code_.cmp(places_.index, places_.blocks_end(registers));
    code_.jae(fewer, Xbyak::CodeGenerator::T_NEAR);
    emit_blocks(chain, registers, places_.blocks_end(registers));
    code_.L(fewer);
    code_.cmp(places_.index, places_.end);
    code_.jae(done, Xbyak::CodeGenerator::T_NEAR);
  }
  emit_blocks(chain, 1, places_.end);
  code_.L(done);
}

void ChainEmitter::emit_blocks(const ChainCode& chain, int registers, const Xbyak::Operand& end) {
  Xbyak::Label block;
  code_.L(block);
  if (chain.streams) prefetch_inputs(chain);
  for (const RegisterAction& action : chain.plan->actions) {
    for (int side = 0; side < registers; ++side) {
      places_.go_to_lanes_of(side);
      emit_action(chain, action);
    }
  }
  code_.add(places_.index, places_.registers().lanes() * registers);
  code_.cmp(places_.index, end);
  code_.jb(block, Xbyak::CodeGenerator::T_NEAR);
}

/// The processor's own prefetching ends at every page; more in flight than it asks for gains too.
void ChainEmitter::prefetch_inputs(const ChainCode& chain) {
  constexpr int kBytesAhead = 2048;
  for (int slot : *chain.moving_slots) {
    const std::vector<int>& stores = chain.body->program.stores;
    const bool is_output = std::any_of(stores.begin(), stores.end(),
                                       [&](int id) { return chain.body->slot(id) == slot; });
    if (!is_output) code_.prefetcht0(places_.ahead_of(slot, kBytesAhead));
  }
}

void ChainEmitter::emit_action(const ChainCode& chain, const RegisterAction& action) {
  const Xbyak::Ymm reg = places_.reg(action.reg);
  switch (action.kind) {
    case RegisterAction::Kind::Load:
      return code_.vmovups(reg, places_.lanes_of(action.place));
    case RegisterAction::Kind::Spill:
      return code_.vmovups(places_.spill_place(action.place), reg);
    case RegisterAction::Kind::Reload:
      return code_.vmovups(reg, places_.spill_place(action.place));
    case RegisterAction::Kind::Op:
      return emit_op(chain, action);
  }
}

void ChainEmitter::emit_op(const ChainCode& chain, const RegisterAction& action) {
  const FusedOp& op = chain.body->program.op(action.place);
  operands_.begin(action.operands);
  if (!op.is_store()) return encoder_.encode(op.chain, places_.reg(action.reg));
  const int slot = chain.body->slot(action.place);
  const Xbyak::Ymm value = operands_.in_register(0);
  if (op.kind == FusedOp::Kind::StoreHalfPrecision) {
    return encoder_.store(op.format, value, places_.half_lanes_of(slot));
  }
  const Xbyak::Address lanes = places_.lanes_of(slot);
  chain.streams ? code_.vmovntps(lanes, value) : code_.vmovups(lanes, value);
}

}  // namespace pando::cpu

#endif
