#include "pando/backends/cpu/fused/fused_program.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "pando/backends/cpu/fused/op_order.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

bool is_float(LaneType lane) { return lane == LaneType::F32 || lane == LaneType::F64; }
int lane_bytes(LaneType lane) {
  return lane == LaneType::F32 || lane == LaneType::I32 || lane == LaneType::U32 ? 4 : 8;
}
/// Whether a conversion between the two keeps the bits.
bool same_bits(LaneType a, LaneType b) {
  return a == b || (!is_float(a) && !is_float(b) && lane_bytes(a) == lane_bytes(b));
}
/// Whether memory of `dtype` holds its lanes as they are.
bool holds_lanes(DType dtype) {
  return dtype_bytes(dtype) == static_cast<std::size_t>(lane_bytes(lane_of(dtype)));
}

class ProgramBuilder {
 public:
  explicit ProgramBuilder(const KernelSpec& spec) : spec_(spec) {}

  FusedProgram run() {
    const auto& instructions = spec_.scalar.instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      const ScalarInstruction& in = instructions[i];
      const int arity = scalar_arity(in.op);
      for (int k = 0; k < arity; ++k) {
        const ScalarValue value = k == 0 ? in.a : (k == 1 ? in.b : in.c);
        internal_check(value >= 0 && value < static_cast<ScalarValue>(i),
                       "an operand of a scalar program must come before its use");
      }
      node_of_.push_back(lower(in));
      lanes_.push_back(in.lane);
    }
    return std::move(program_);
  }

 private:
  int add(FusedOp node) {
    node.uniform = !node.is_store() && node.kind != FusedOp::Kind::Generated;
    if (node.kind == FusedOp::Kind::Input) {
      node.uniform = is_uniform(spec_.inputs[static_cast<std::size_t>(node.index)]);
    }
    for (int operand : node.operands) {
      if (operand >= 0) node.uniform = node.uniform && this->node(operand).uniform;
    }
    program_.ops.push_back(node);
    return static_cast<int>(program_.ops.size()) - 1;
  }
  const FusedOp& node(int id) const { return program_.ops[static_cast<std::size_t>(id)]; }
  int node_of(ScalarValue value) const { return node_of_[static_cast<std::size_t>(value)]; }
  LaneType lane(ScalarValue value) const { return lanes_[static_cast<std::size_t>(value)]; }

  int add_chain(ChainOp op, int a, int b = -1, int c = -1) {
    FusedOp node;
    node.kind = FusedOp::Kind::Chain;
    node.chain = op;
    node.operands = {a, b, c};
    return add(node);
  }
  int add_tile(TileFunction tile, ScalarOp op, LaneType result, int a, int b = -1, int c = -1) {
    if (tile == nullptr) {
      throw NotSupported(str_cat("pointwise ", scalar_op_name(op),
                                 " is not defined for this element type in\n",
                                 scalar_program_text(spec_.scalar)));
    }
    FusedOp node;
    node.kind = FusedOp::Kind::Tile;
    node.tile = tile;
    node.op = op;
    node.lane_bytes = lane_bytes(result);
    node.operands = {a, b, c};
    return add(node);
  }

  int lower(const ScalarInstruction& in) {
    switch (in.op) {
      case ScalarOp::Load:
        return load(in);
      case ScalarOp::Constant:
        return constant(in);
      case ScalarOp::Iota:
        return generated({}, {-1, -1});
      case ScalarOp::Convert:
        return convert(node_of(in.a), lane(in.a), in.lane);
      case ScalarOp::Round:
        return round(in);
      case ScalarOp::Philox:
        return philox(in);
      case ScalarOp::Store:
        return store(in);
      default:
        return arithmetic(in);
    }
  }

  int load(const ScalarInstruction& in) {
    internal_check(in.index >= 0 && static_cast<std::size_t>(in.index) < spec_.num_loaded_inputs(),
                   "a scalar program loads an input that its kernel does not have");
    internal_check(spec_.inputs[static_cast<std::size_t>(in.index)].dtype == in.dtype,
                   "a scalar program loads an input with another dtype");
    if (traits(in.dtype).is_complex) {
      throw NotSupported(str_cat("pointwise arithmetic on ", in.dtype));
    }
    FusedOp input;
    input.kind = FusedOp::Kind::Input;
    input.index = in.index;
    input.lane_bytes = lane_bytes(in.lane);
    const int raw = add(input);
    if (holds_lanes(in.dtype)) return raw;
    if (in.dtype == DType::Float16) return add_chain(ChainOp::LoadHalf, raw);
    if (in.dtype == DType::BFloat16) return add_chain(ChainOp::LoadBFloat16, raw);
    return add_tile(tile_machine().load(in.dtype), ScalarOp::Load, in.lane, raw);
  }

  int constant(const ScalarInstruction& in) {
    std::uint64_t bits = static_cast<std::uint64_t>(in.integer_immediate);
    if (in.lane == LaneType::F32) {
      bits = std::bit_cast<std::uint32_t>(static_cast<float>(in.immediate));
    } else if (in.lane == LaneType::F64) {
      bits = std::bit_cast<std::uint64_t>(in.immediate);
    } else if (lane_bytes(in.lane) == 4) {
      bits = static_cast<std::uint32_t>(bits);
    }
    const std::pair<std::uint64_t, std::size_t> entry{
        bits, static_cast<std::size_t>(lane_bytes(in.lane))};
    const auto it = std::find(program_.constants.begin(), program_.constants.end(), entry);
    FusedOp node;
    node.kind = FusedOp::Kind::Constant;
    node.index = static_cast<int>(it - program_.constants.begin());
    node.lane_bytes = lane_bytes(in.lane);
    if (it == program_.constants.end()) program_.constants.push_back(entry);
    return add(node);
  }

  int generated(const GeneratedOperand& operand, std::array<int, 2> keys) {
    FusedOp node;
    node.kind = FusedOp::Kind::Generated;
    node.index = static_cast<int>(program_.generated.size());
    program_.generated.push_back(operand);
    program_.keys.push_back(keys);
    return add(node);
  }

  int philox(const ScalarInstruction& in) {
    const int key0 = node_of(in.a), key1 = node_of(in.b), index = node_of(in.c);
    const bool index_is_iota =
        node(index).kind == FusedOp::Kind::Generated &&
        !program_.generated[static_cast<std::size_t>(node(index).index)].is_philox;
    if (index_is_iota && node(key0).uniform && node(key1).uniform) {
      GeneratedOperand operand;
      operand.is_philox = true;
      operand.stream = static_cast<std::uint32_t>(in.index);
      return generated(operand, {key0, key1});
    }
    const int id = add_tile(tile_machine().function(ScalarOp::Philox, LaneType::U32), in.op,
                            in.lane, key0, key1, index);
    program_.ops.back().index = in.index;
    return id;
  }

  int convert(int value, LaneType from, LaneType to) {
    if (same_bits(from, to)) return value;
    if (from == LaneType::F32 && to == LaneType::I32) {
      return add_chain(ChainOp::FloatToInt, value);
    }
    if (from == LaneType::I32 && to == LaneType::F32) {
      return add_chain(ChainOp::IntToFloat, value);
    }
    return add_tile(tile_machine().convert(from, to), ScalarOp::Convert, to, value);
  }

  int round(const ScalarInstruction& in) {
    internal_check(same_bits(lane(in.a), lane_of(in.dtype)),
                   "Round takes a value in the lane type of its dtype");
    if (holds_lanes(in.dtype)) return node_of(in.a);
    if (in.dtype == DType::Float16) return add_chain(ChainOp::RoundHalf, node_of(in.a));
    if (in.dtype == DType::BFloat16) return add_chain(ChainOp::RoundBFloat16, node_of(in.a));
    return add_tile(tile_machine().round(in.dtype), in.op, in.lane, node_of(in.a));
  }

  int store(const ScalarInstruction& in) {
    internal_check(in.index >= 0 && static_cast<std::size_t>(in.index) < spec_.outputs.size(),
                   "a scalar program stores to an output that its kernel does not have");
    internal_check(spec_.outputs[static_cast<std::size_t>(in.index)].dtype == in.dtype,
                   "a scalar program stores to an output with another dtype");
    FusedOp node;
    node.index = in.index;
    node.op = ScalarOp::Store;
    int value = node_of(in.a);
    if (in.dtype == DType::Bool) {
      node.kind = FusedOp::Kind::StoreTile;
      node.tile = tile_machine().store(in.dtype, lane(in.a));
    } else {
      value = convert(value, lane(in.a), lane_of(in.dtype));
      node.lane_bytes = lane_bytes(lane_of(in.dtype));
      node.kind = is_half_precision(in.dtype) ? FusedOp::Kind::StoreHalfPrecision
                  : holds_lanes(in.dtype)     ? FusedOp::Kind::StoreRaw
                                              : FusedOp::Kind::StoreTile;
      node.format = in.dtype;
      node.tile = tile_machine().store(in.dtype, lane_of(in.dtype));
    }
    node.operands = {value, -1, -1};
    const int id = add(node);
    program_.stores.push_back(id);
    return id;
  }

  /// A float32 constant other than NaN.
  bool is_number(int id) const {
    const FusedOp& n = program_.ops[static_cast<std::size_t>(id)];
    if (n.kind != FusedOp::Kind::Constant) return false;
    const std::uint64_t bits = program_.constants[static_cast<std::size_t>(n.index)].first;
    return !std::isnan(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }

  int arithmetic(const ScalarInstruction& in) {
    const LaneType type = lane(in.op == ScalarOp::Select ? in.b : in.a);
    const auto operand = [&](ScalarValue v) { return v == kNoValue ? -1 : node_of(v); };
    const int a = operand(in.a), b = operand(in.b), c = operand(in.c);
    if (in.op == ScalarOp::Mul && type == LaneType::F32 && a == b) {
      return add_chain(ChainOp::Square, a);
    }
    const bool extreme = in.op == ScalarOp::Min || in.op == ScalarOp::Max;
    if (extreme && type == LaneType::F32 && (is_number(a) || is_number(b))) {
      const ChainOp op = in.op == ScalarOp::Min ? ChainOp::MinNumberF : ChainOp::MaxNumberF;
      return is_number(b) ? add_chain(op, a, b) : add_chain(op, b, a);
    }
    if (const auto op = chain_op_of(in.op, type)) return add_chain(*op, a, b, c);
    return add_tile(tile_machine().function(in.op, type), in.op, in.lane, a, b, c);
  }

  const KernelSpec& spec_;
  FusedProgram program_;
  std::vector<int> node_of_;  // by scalar value
  std::vector<LaneType> lanes_;
};

void count_uses(FusedProgram& program) {
  std::vector<int> pending = program.stores;
  const auto use = [&](int id) {
    if (id >= 0 && program.ops[static_cast<std::size_t>(id)].uses++ == 0) pending.push_back(id);
  };
  std::vector<bool> keyed(program.generated.size());
  while (!pending.empty()) {
    const FusedOp node = program.ops[static_cast<std::size_t>(pending.back())];
    pending.pop_back();
    for (int operand : node.operands) use(operand);
    if (node.kind != FusedOp::Kind::Generated) continue;
    const auto index = static_cast<std::size_t>(node.index);
    if (keyed[index]) continue;
    keyed[index] = true;
    for (int key : program.keys[index]) use(key);
  }
}

}  // namespace

bool is_uniform(const OperandDesc& operand) {
  for (std::size_t d = 0; d < operand.shape.size(); ++d) {
    if (operand.shape[d] != 1 && operand.strides[d] != 0) return false;
  }
  return true;
}

FusedProgram build_program(const KernelSpec& spec) {
  FusedProgram program = ProgramBuilder(spec).run();
  count_uses(program);
  program.body = body_order(program);
  return program;
}

}  // namespace pando::cpu
