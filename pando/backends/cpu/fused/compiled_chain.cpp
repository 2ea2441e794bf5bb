#include "pando/backends/cpu/fused/compiled_chain.hpp"

#if defined(__x86_64__)

#include <xbyak/xbyak.h>
#include <xbyak/xbyak_util.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>

#include "pando/backends/cpu/fused/register_plan.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

using Xbyak::Address;
using Xbyak::Operand;
using Xbyak::Reg64;
using Xbyak::Xmm;
using Xbyak::Ymm;

constexpr int kLanes = 8;  // of a register
constexpr int kRegisterBytes = 32;
constexpr int kPointerBytes = 8;
/// Beside the registers of the plan: two for steps of several instructions, one for an invariant
/// that has to be loaded.
constexpr int kPlanRegisters = 13;
constexpr int kLoadedInvariant = 15;

enum Comparison : std::uint8_t { kEqual = 0, kUnordered = 3, kLess = 17, kLessEqual = 18 };
enum Rounding : std::uint8_t { kNearest = 8, kDown = 9, kUp = 10 };
constexpr std::uint8_t kHalfToNearest = 0;

constexpr std::uint32_t kSignBit = 0x80000000U, kMagnitudeBits = 0x7fffffffU;
constexpr std::uint32_t kInfinityBits = 0x7f800000U;
constexpr std::uint32_t kOne = 0x3f800000U, kMinusOne = 0xbf800000U;

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

/// The plan with as many registers side by side as hold all values: steps of neighbouring lanes run
/// at the same time.
struct UnrolledPlan {
  int unroll = 1;
  RegisterPlan plan;
};
UnrolledPlan unrolled_plan(const std::vector<ChainStep>& steps, const std::vector<bool>& moves) {
  constexpr int kUnroll = 2;
  RegisterPlan plan = plan_registers(steps, moves, kPlanRegisters / kUnroll);
  if (plan.spill_places == 0) return {kUnroll, std::move(plan)};
  return {1, plan_registers(steps, moves, kPlanRegisters)};
}

class ChainCode final : public Xbyak::CodeGenerator {
 public:
  ChainCode(const std::vector<ChainStep>& steps, const std::vector<bool>& moves,
            const UnrolledPlan& unrolled, bool streams)
      : CodeGenerator(most_bytes(unrolled), Xbyak::DontSetProtectRWE),
        steps_(steps),
        unroll_(unrolled.unroll),
        plan_(unrolled.plan),
        streams_(streams) {
    find_slots(moves);
    emit_entry();
    emit_rows();
    emit_exit();
    emit_literals();
    setProtectModeRE();
  }

  static bool has_room(const std::vector<ChainStep>& steps, const std::vector<bool>& moves) {
    return moving_slots(steps, moves).size() <= kPointers.size();
  }

 private:
  static constexpr std::array kPointers = {Operand::RAX, Operand::RCX, Operand::RDX, Operand::R8,
                                           Operand::R9,  Operand::R10, Operand::R11, Operand::RBX,
                                           Operand::RBP, Operand::R12, Operand::R13, Operand::R14,
                                           Operand::R15};
  static constexpr std::size_t kCallerSaved = 7;  // of them

  /// The most that actions take, the code around them and constants.
  static std::size_t most_bytes(const UnrolledPlan& unrolled) {
    return 1024 + 80 * unrolled.plan.actions.size() * static_cast<std::size_t>(unrolled.unroll);
  }

  static std::vector<int> moving_slots(const std::vector<ChainStep>& steps,
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

  /// Invariants get the registers that are left, the most used first, then places on the stack.
  void find_slots(const std::vector<bool>& moves) {
    const std::vector<int> moving = moving_slots(steps_, moves);
    for (std::size_t i = 0; i < moving.size(); ++i) pointers_[moving[i]] = Reg64(kPointers[i]);
    std::map<int, int> uses;
    for (const ChainStep& step : steps_) {
      for (int operand : step.operands) {
        if (!is_block_in_slot(operand)) continue;
        const int slot = slot_of_block(operand);
        if (!moves[static_cast<std::size_t>(slot)]) ++uses[slot];
      }
    }
    std::vector<std::pair<int, int>> by_use;
    for (const auto& [slot, count] : uses) by_use.emplace_back(-count, slot);
    std::sort(by_use.begin(), by_use.end());
    int reg = plan_.registers_used * unroll_;
    int place = plan_.spill_places * unroll_;
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
  Address rows_left() { return qword[rsp + places_bytes_]; }
  Address row_steps() { return qword[rsp + places_bytes_ + kPointerBytes]; }

  void emit_entry() {
    for (std::size_t i = kCallerSaved; i < pointers_.size(); ++i) push(Reg64(kPointers[i]));
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
      vmovups(Ymm(kLoadedInvariant), ptr[rax]);
      vmovups(ptr[rsp + place * kRegisterBytes], Ymm(kLoadedInvariant));
    }
    for (const auto& [slot, pointer] : pointers_) mov(pointer, slot_pointer(slot));
  }

  void emit_rows() {
    Xbyak::Label row, block, end;
    L(row);
    xor_(index_, index_);
    L(block);
    if (streams_) prefetch_inputs();
    for (const RegisterAction& action : plan_.actions) {
      for (lane_ = 0; lane_ < unroll_; ++lane_) emit(action);
    }
    add(index_, kLanes * unroll_);
    cmp(index_, end_);
    jb(block, T_NEAR);
    dec(rows_left());
    jz(end, T_NEAR);
    mov(index_, row_steps());
    for (const auto& [slot, pointer] : pointers_) add(pointer, ptr[index_ + slot * kPointerBytes]);
    jmp(row, T_NEAR);
    L(end);
  }

  /// The processor's own prefetching ends at every page; more in flight than it asks for gains too.
  void prefetch_inputs() {
    constexpr int kBytesAhead = 2048;
    for (const auto& [slot, pointer] : pointers_) {
      const bool is_output = std::any_of(steps_.begin(), steps_.end(), [&](const ChainStep& step) {
        return step.kind != ChainStep::Kind::Compute && step.output_slot == slot;
      });
      if (!is_output) prefetcht0(ptr[pointer + index_ * 4 + kBytesAhead]);
    }
  }

  void emit_exit() {
    if (streams_) sfence();  // other threads see the stores before what this one says next
    vzeroupper();
    add(rsp, frame_bytes_);
    for (std::size_t i = pointers_.size(); i-- > kCallerSaved;) pop(Reg64(kPointers[i]));
    ret();
  }

  Address literal(std::uint32_t bits) { return ptr[rip + literals_[bits]]; }

  void emit_literals() {
    align(kRegisterBytes);
    for (auto& [bits, label] : literals_) {
      L(label);
      for (int i = 0; i < kLanes; ++i) dd(bits);
    }
  }

  Ymm reg(int number) const { return Ymm(number * unroll_ + lane_); }
  Address lanes_of(int slot) {
    return ptr[pointers_.at(slot) + index_ * 4 + lane_ * kRegisterBytes];
  }
  Address half_lanes_of(int slot) {
    return ptr[pointers_.at(slot) + index_ * 2 + lane_ * kRegisterBytes / 2];
  }
  Address spill_place(int place) { return ptr[rsp + (place * unroll_ + lane_) * kRegisterBytes]; }

  void emit(const RegisterAction& action) {
    switch (action.kind) {
      case RegisterAction::Kind::Load:
        return vmovups(reg(action.reg), lanes_of(action.place));
      case RegisterAction::Kind::Spill:
        return vmovups(spill_place(action.place), reg(action.reg));
      case RegisterAction::Kind::Reload:
        return vmovups(reg(action.reg), spill_place(action.place));
      case RegisterAction::Kind::Step:
        break;
    }
    const ChainStep& step = steps_[static_cast<std::size_t>(action.place)];
    operands_ = action.operands;
    memory_is_used_ = false;
    for (const OperandPlace& place : operands_) {
      memory_is_used_ = memory_is_used_ || place.kind == OperandPlace::Kind::Memory;
    }
    switch (step.kind) {
      case ChainStep::Kind::Compute:
        return compute(step.op, reg(action.reg));
      case ChainStep::Kind::Store:
        return store(lanes_of(step.output_slot), in_register(0));
      case ChainStep::Kind::StoreHalf:
        return vcvtps2ph(half_lanes_of(step.output_slot), in_register(0), kHalfToNearest);
    }
  }

  void store(const Address& to, const Ymm& value) {
    streams_ ? vmovntps(to, value) : vmovups(to, value);
  }

  Ymm in_register(int k) {
    const OperandPlace& place = operands_[static_cast<std::size_t>(k)];
    if (place.kind == OperandPlace::Kind::Register) return reg(place.index);
    internal_check(place.kind == OperandPlace::Kind::Invariant,
                   "a chain operand is in no register");
    const auto it = invariant_registers_.find(place.index);
    if (it != invariant_registers_.end()) return Ymm(it->second);
    vmovups(Ymm(kLoadedInvariant), ptr[rsp + invariant_places_.at(place.index) * kRegisterBytes]);
    return Ymm(kLoadedInvariant);
  }

  bool is_on_stack(int k) const {
    const OperandPlace& place = operands_[static_cast<std::size_t>(k)];
    return place.kind == OperandPlace::Kind::Invariant && invariant_places_.contains(place.index);
  }
  bool is_in_memory(int k) const {
    return operands_[static_cast<std::size_t>(k)].kind == OperandPlace::Kind::Memory ||
           (is_on_stack(k) && !memory_is_used_);
  }

  /// In memory if it is there; the instruction has this one operand that may be.
  void with_source(int k, const auto& body) {
    const OperandPlace& place = operands_[static_cast<std::size_t>(k)];
    if (place.kind == OperandPlace::Kind::Memory) return body(lanes_of(place.index));
    if (is_on_stack(k) && !memory_is_used_) {
      return body(ptr[rsp + invariant_places_.at(place.index) * kRegisterBytes]);
    }
    body(in_register(k));
  }

  /// The operand that may come from memory is the second.
  void commutative(const auto& body) {
    const bool swapped = is_in_memory(0) && !is_in_memory(1);
    const Ymm first = in_register(swapped ? 1 : 0);
    with_source(swapped ? 0 : 1, [&](const Operand& second) { body(first, second); });
  }
  void ordered(const auto& body) {
    const Ymm first = in_register(0);
    with_source(1, [&](const Operand& second) { body(first, second); });
  }
  /// body(operand 1, operand 0).
  void reversed(const auto& body) {
    const Ymm first = in_register(1);
    with_source(0, [&](const Operand& second) { body(first, second); });
  }

  void compute(ChainOp op, const Ymm& to);
  void compute_float(ChainOp op, const Ymm& to);
  void compute_integer(ChainOp op, const Ymm& to);
  void sign(const Ymm& to);
  void float_to_int(const Ymm& to);
  void fused_multiply_add(const Ymm& to);
  void select(const Ymm& to);

  const Ymm first_temporary_{13}, second_temporary_{14};
  const Reg64 index_ = rdi, end_ = rsi;
  const std::vector<ChainStep>& steps_;
  int unroll_;
  const RegisterPlan& plan_;
  bool streams_;
  std::map<int, Reg64> pointers_;  // by slot
  std::map<int, int> invariant_registers_, invariant_places_;
  std::map<std::uint32_t, Xbyak::Label> literals_;
  int places_bytes_ = 0, frame_bytes_ = 0;
  int lane_ = 0;
  std::array<OperandPlace, 3> operands_ = {};
  bool memory_is_used_ = false;
};

void ChainCode::compute(ChainOp op, const Ymm& to) {
  switch (op) {
    case ChainOp::Move:
      return vmovaps(to, in_register(0));
    case ChainOp::LoadHalf:
      return vcvtph2ps(to, half_lanes_of(operands_[0].index));
    case ChainOp::RoundHalf:
      vcvtps2ph(Xmm(first_temporary_.getIdx()), in_register(0), kHalfToNearest);
      return vcvtph2ps(to, Xmm(first_temporary_.getIdx()));
    case ChainOp::FloatToInt:
      return float_to_int(to);
    case ChainOp::IntToFloat:
      return with_source(0, [&](const Operand& a) { vcvtdq2ps(to, a); });
    case ChainOp::NegI:
      vpxor(first_temporary_, first_temporary_, first_temporary_);
      return vpsubd(to, first_temporary_, in_register(0));
    case ChainOp::AbsI:
      return vpabsd(to, in_register(0));
    case ChainOp::FmaF:
      return fused_multiply_add(to);
    case ChainOp::SelectI:
      return select(to);
    case ChainOp::SignF:
      return sign(to);
    default:
      break;
  }
  if (op >= ChainOp::AddI && op <= ChainOp::XorI) return compute_integer(op, to);
  compute_float(op, to);
}

void ChainCode::compute_float(ChainOp op, const Ymm& to) {
  const Ymm& t = first_temporary_;
  const auto compare = [&](const Ymm& a, const Operand& b, Comparison comparison) {
    vcmpps(t, a, b, comparison);
    vandps(to, t, literal(1));
  };
  const auto round = [&](Rounding rounding) {
    with_source(0, [&](const Operand& a) { vroundps(to, a, rounding); });
  };
  // The instruction gives its second operand for NaN.
  const auto extreme = [&](bool largest, const Ymm& result) {
    reversed([&](const Ymm& b, const Operand& a) {
      largest ? vmaxps(result, b, a) : vminps(result, b, a);
    });
  };
  switch (op) {
    case ChainOp::Square:
      return vmulps(to, in_register(0), in_register(0));
    case ChainOp::NegF:
      return vxorps(to, in_register(0), literal(kSignBit));
    case ChainOp::AbsF:
      return vandps(to, in_register(0), literal(kMagnitudeBits));
    case ChainOp::SqrtF:
      return with_source(0, [&](const Operand& a) { vsqrtps(to, a); });
    case ChainOp::FloorF:
      return round(kDown);
    case ChainOp::CeilF:
      return round(kUp);
    case ChainOp::RoundEvenF:
      return round(kNearest);
    case ChainOp::IsNanF:
      return compare(in_register(0), in_register(0), kUnordered);
    case ChainOp::IsInfF:
      vandps(t, in_register(0), literal(kMagnitudeBits));
      vpcmpeqd(t, t, literal(kInfinityBits));
      return vandps(to, t, literal(1));
    case ChainOp::AddF:
      return commutative([&](const Ymm& a, const Operand& b) { vaddps(to, a, b); });
    case ChainOp::MulF:
      return commutative([&](const Ymm& a, const Operand& b) { vmulps(to, a, b); });
    case ChainOp::SubF:
      return ordered([&](const Ymm& a, const Operand& b) { vsubps(to, a, b); });
    case ChainOp::DivF:
      return ordered([&](const Ymm& a, const Operand& b) { vdivps(to, a, b); });
    case ChainOp::EqualF:
      return commutative([&](const Ymm& a, const Operand& b) { compare(a, b, kEqual); });
    case ChainOp::LessF:
      return ordered([&](const Ymm& a, const Operand& b) { compare(a, b, kLess); });
    case ChainOp::LessEqualF:
      return ordered([&](const Ymm& a, const Operand& b) { compare(a, b, kLessEqual); });
    case ChainOp::MinNumberF:
      return extreme(false, to);
    case ChainOp::MaxNumberF:
      return extreme(true, to);
    case ChainOp::MinF:
    case ChainOp::MaxF: {
      extreme(op == ChainOp::MaxF, second_temporary_);
      const Ymm b = in_register(1);
      vcmpps(t, b, b, kUnordered);
      return vblendvps(to, second_temporary_, b, t);
    }
    default:
      throw InternalError(str_cat("no machine code for chain op ", chain_op_name(op)));
  }
}

void ChainCode::compute_integer(ChainOp op, const Ymm& to) {
  const Ymm& t = first_temporary_;
  switch (op) {
    case ChainOp::AddI:
      return commutative([&](const Ymm& a, const Operand& b) { vpaddd(to, a, b); });
    case ChainOp::SubI:
      return ordered([&](const Ymm& a, const Operand& b) { vpsubd(to, a, b); });
    case ChainOp::MulI:
      return commutative([&](const Ymm& a, const Operand& b) { vpmulld(to, a, b); });
    case ChainOp::MinI:
      return commutative([&](const Ymm& a, const Operand& b) { vpminsd(to, a, b); });
    case ChainOp::MaxI:
      return commutative([&](const Ymm& a, const Operand& b) { vpmaxsd(to, a, b); });
    case ChainOp::AndI:
      return commutative([&](const Ymm& a, const Operand& b) { vpand(to, a, b); });
    case ChainOp::OrI:
      return commutative([&](const Ymm& a, const Operand& b) { vpor(to, a, b); });
    case ChainOp::XorI:
      return commutative([&](const Ymm& a, const Operand& b) { vpxor(to, a, b); });
    case ChainOp::EqualI:
      commutative([&](const Ymm& a, const Operand& b) { vpcmpeqd(t, a, b); });
      return vpand(to, t, literal(1));
    case ChainOp::LessI:
      reversed([&](const Ymm& b, const Operand& a) { vpcmpgtd(t, b, a); });
      return vpand(to, t, literal(1));
    case ChainOp::LessEqualI:
      ordered([&](const Ymm& a, const Operand& b) { vpcmpgtd(t, a, b); });
      return vpandn(to, t, literal(1));
    default:
      throw InternalError(str_cat("no machine code for chain op ", chain_op_name(op)));
  }
}

void ChainCode::sign(const Ymm& to) {
  const Ymm &t = first_temporary_, &s = second_temporary_;
  const Ymm a = in_register(0);
  vxorps(t, t, t);
  vcmpps(s, t, a, kLess);
  vandps(s, s, literal(kOne));
  vcmpps(t, a, t, kLess);
  vandps(t, t, literal(kMinusOne));
  vorps(s, s, t);
  vcmpps(t, a, a, kUnordered);
  vblendvps(to, s, a, t);
}

/// Toward zero; the instruction gives the smallest integer for what is too large: that becomes the
/// largest one. NaN depends on its sign as in the micro-op.
void ChainCode::float_to_int(const Ymm& to) {
  const Ymm &t = first_temporary_, &s = second_temporary_;
  const Ymm a = in_register(0);
  vcvttps2dq(s, a);
  vpandn(t, a, s);
  vpsrad(t, t, 31);
  vpxor(to, s, t);
}

void ChainCode::fused_multiply_add(const Ymm& to) {
  const auto is_result = [&](int k) {
    const OperandPlace& place = operands_[static_cast<std::size_t>(k)];
    return place.kind == OperandPlace::Kind::Register && reg(place.index) == to;
  };
  const Ymm sum = is_result(1) || is_result(2) ? first_temporary_ : to;
  if (!is_result(0) || sum != to) vmovaps(sum, in_register(0));
  const Ymm b = in_register(1);
  with_source(2, [&](const Operand& c) { vfmadd213ps(sum, b, c); });
  if (sum != to) vmovaps(to, sum);
}

void ChainCode::select(const Ymm& to) {
  const Ymm& is_zero = first_temporary_;
  vpxor(is_zero, is_zero, is_zero);
  vpcmpeqd(is_zero, is_zero, in_register(0));
  const Ymm b = in_register(1);
  with_source(2, [&](const Operand& c) { vblendvps(to, b, c, is_zero); });
}

class X86Chain final : public CompiledChain {
 public:
  X86Chain(const std::vector<ChainStep>& steps, const std::vector<bool>& moves, bool may_stream) {
    const UnrolledPlan unrolled = unrolled_plan(steps, moves);
    code_ = std::make_unique<ChainCode>(steps, moves, unrolled, false);
    if (may_stream) streaming_ = std::make_unique<ChainCode>(steps, moves, unrolled, true);
  }

  void run(const ChainRun& run) const override {
    if (run.lanes == 0) return;
    const ChainCode& code = run.streams ? *streaming_ : *code_;
    code.getCode<void (*)(const ChainRun*)>()(&run);
  }
  std::size_t code_bytes() const override {
    return code_->getSize() + (streaming_ != nullptr ? streaming_->getSize() : 0);
  }

 private:
  std::unique_ptr<ChainCode> code_, streaming_;
};

}  // namespace

std::unique_ptr<CompiledChain> compile_chain(const std::vector<ChainStep>& steps,
                                             const std::vector<bool>& moves, bool may_stream) {
  const bool can = has_instructions() && ChainCode::has_room(steps, moves) &&
                   std::none_of(steps.begin(), steps.end(), [&](const ChainStep& step) {
                     return reads_invariant_half(step, moves);
                   });
  if (!can) return nullptr;
  try {
    return std::make_unique<X86Chain>(steps, moves, may_stream);
  } catch (const Xbyak::Error&) {
    return nullptr;  // no executable memory: the micro-ops do
  }
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
