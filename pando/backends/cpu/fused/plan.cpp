#include "pando/backends/cpu/fused/plan.hpp"

#include <algorithm>
#include <limits>

#include "pando/backends/cpu/fused/node_order.hpp"
#include "pando/backends/cpu/fused/uniform_division.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

constexpr int kNone = -1;

/// Where the block of a node lies; kNone: nowhere, it only passes through the vector registers.
using Homes = std::vector<int>;

/// One micro-op before slots are known.
struct Step {
  int node = kNone;
  int from_chain = kNone;      // operand that is the passed block
  bool loads_operand = false;  // a store whose value has to be loaded first
};

/// Whether equal elements stand at equal places, if both begin at the same one.
bool same_layout(const KernelSpec& spec, int input, int output) {
  const OperandDesc& a = spec.inputs[static_cast<std::size_t>(input)];
  const OperandDesc& b = spec.outputs[static_cast<std::size_t>(output)];
  for (std::size_t d = 0; d < a.shape.size(); ++d) {
    if (a.shape[d] != 1 && a.strides[d] != b.strides[d]) return false;
  }
  return dtype_bytes(a.dtype) == dtype_bytes(b.dtype);
}

/// Turns an order into micro-ops.
class Emitter {
 public:
  /// `uniform`: the prologue.
  Emitter(const NodeGraph& graph, const KernelSpec& spec, FusedPlan& plan, Homes& homes,
          bool uniform)
      : graph_(graph), spec_(spec), plan_(plan), homes_(homes), uniform_(uniform) {}

  /// `kept`: nodes that need a home for good.
  std::vector<MicroOp> run(const std::vector<int>& order, const std::vector<bool>& kept) {
    kept_ = kept;
    last_use_.assign(graph_.nodes.size(), kNone);
    direct_output_.assign(graph_.nodes.size(), kNone);
    std::vector<int> remaining = fold_stores(order);
    form_steps(remaining);
    for (std::size_t i = 0; i < steps_.size(); ++i) emit(static_cast<int>(i));
    MicroOp end;
    end.code = chain_machine().end;
    ops_.push_back(end);
    find_hazards();
    return std::move(ops_);
  }

 private:
  const Node& node(int id) const { return graph_.nodes[static_cast<std::size_t>(id)]; }
  int& home(int id) { return homes_[static_cast<std::size_t>(id)]; }

  /// A value that an output holds as it is goes there directly.
  std::vector<int> fold_stores(const std::vector<int>& order) {
    std::vector<bool> made_here(graph_.nodes.size());
    std::vector<int> remaining;
    for (int id : order) {
      const Node& n = node(id);
      made_here[static_cast<std::size_t>(id)] = true;
      if (n.kind == Node::Kind::StoreRaw) {
        const auto value = static_cast<std::size_t>(n.operands[0]);
        if (made_here[value] && direct_output_[value] == kNone) {
          direct_output_[value] = n.index;
          continue;
        }
      }
      remaining.push_back(id);
    }
    return remaining;
  }

  static bool takes_passed(const Node& n, int position) {
    if (n.kind == Node::Kind::StoreHalf) return position == 0;
    if (n.kind == Node::Kind::StoreRaw) return n.lane_bytes == 4 && position == 0;
    if (n.kind != Node::Kind::Chain || n.chain == ChainOp::LoadHalf) return false;
    const bool simple = n.chain < ChainOp::AddThenAdd;
    return position == 0 || (simple && position < chain_facts(n.chain).arity);
  }

  void form_steps(const std::vector<int>& order) {
    int passed = kNone;
    for (int id : order) {
      const Node& n = node(id);
      Step step;
      step.node = id;
      for (int k = 0; k < 3 && step.from_chain == kNone; ++k) {
        const int operand = n.operands[static_cast<std::size_t>(k)];
        if (operand >= 0 && operand == passed && takes_passed(n, k)) step.from_chain = k;
      }
      for (int k = 0; k < 3; ++k) {
        const int operand = n.operands[static_cast<std::size_t>(k)];
        if (operand < 0 || k == step.from_chain) continue;
        last_use_[static_cast<std::size_t>(operand)] = static_cast<int>(steps_.size());
      }
      const bool chain_store =
          n.kind == Node::Kind::StoreHalf || (n.kind == Node::Kind::StoreRaw && n.lane_bytes == 4);
      step.loads_operand = chain_store && step.from_chain == kNone;
      if (n.kind == Node::Kind::Chain) {
        passed = id;
      } else if (chain_store) {
        passed = n.operands[0];
      } else {
        passed = kNone;
      }
      steps_.push_back(step);
    }
  }

  void allocate_home(int id) {
    const Node& n = node(id);
    if (n.is_store()) return;
    const auto index = static_cast<std::size_t>(id);
    if (direct_output_[index] != kNone) {
      home(id) = static_cast<int>(plan_.first_output()) + direct_output_[index];
    } else if (n.kind == Node::Kind::Tile || last_use_[index] != kNone || kept_[index]) {
      home(id) = new_tile();
    }
  }

  int new_tile() {
    if (!free_tiles_.empty()) {
      const int tile = free_tiles_.back();
      free_tiles_.pop_back();
      return tile;
    }
    const std::size_t slot = plan_.num_slots();
    internal_check(slot < std::numeric_limits<std::uint16_t>::max(),
                   "a pointwise program needs too many blocks");
    ++plan_.num_tiles;
    return static_cast<int>(slot);
  }

  /// Blocks whose last reader was step `position` may be written again.
  void release(int position) {
    const Node& n = node(steps_[static_cast<std::size_t>(position)].node);
    for (std::size_t k = 0; k < n.operands.size(); ++k) {
      const int operand = n.operands[k];
      if (operand < 0 || std::find(n.operands.begin(), n.operands.begin() + k, operand) !=
                             n.operands.begin() + k) {
        continue;
      }
      const auto index = static_cast<std::size_t>(operand);
      const bool temporary = !node(operand).is_block() && !kept_[index] &&
                             node(operand).uniform == uniform_ && direct_output_[index] == kNone;
      if (temporary && last_use_[index] == position) free_tiles_.push_back(home(operand));
    }
  }

  std::uint16_t slot(int id) {
    const Node& n = node(id);
    std::size_t result = 0;
    switch (n.kind) {
      case Node::Kind::Input:
        result = static_cast<std::size_t>(n.index);
        break;
      case Node::Kind::Generated:
        result = plan_.first_generated() + static_cast<std::size_t>(n.index);
        break;
      case Node::Kind::Constant:
        result = plan_.first_constant() + static_cast<std::size_t>(n.index);
        break;
      default:
        internal_check(home(id) != kNone, "a block is read that was not kept");
        result = static_cast<std::size_t>(home(id));
    }
    return static_cast<std::uint16_t>(result);
  }

  void emit(int position) {
    const Step& step = steps_[static_cast<std::size_t>(position)];
    const Node& n = node(step.node);
    allocate_home(step.node);
    if (step.loads_operand && n.kind == Node::Kind::StoreHalf) {
      MicroOp load;
      load.code = chain_machine().function(ChainOp::Move, kNone, false);
      load.in[0] = slot(n.operands[0]);
      push(load, position, "Move");
    }
    MicroOp op;
    for (int k = 0; k < 3; ++k) {
      const int operand = n.operands[static_cast<std::size_t>(k)];
      if (operand >= 0 && k != step.from_chain && !(step.loads_operand && is_half(n))) {
        op.in[k] = slot(operand);
      }
    }
    finish(op, step, n, position);
    release(position);
  }

  static bool is_half(const Node& n) { return n.kind == Node::Kind::StoreHalf; }

  void finish(MicroOp& op, const Step& step, const Node& n, int position) {
    const ChainMachine& machine = chain_machine();
    const auto output =
        static_cast<std::uint16_t>(plan_.first_output() + static_cast<std::size_t>(n.index));
    if (n.kind == Node::Kind::Chain) {
      const bool keep = home(step.node) != kNone;
      op.code = machine.function(n.chain, step.from_chain, keep);
      if (keep) op.out = static_cast<std::uint16_t>(home(step.node));
      push(op, position, chain_facts(n.chain).name, step.from_chain, keep);
    } else if (n.kind == Node::Kind::StoreHalf) {
      op.out = output;
      if (rounds_just_before(step, position)) {
        op.code = machine.store_half(true);
        ops_.pop_back();
        op_steps_.pop_back();
        drop_line();
        push(op, position, "RoundStoreHalf", 0, true);
      } else {
        op.code = machine.store_half(false);
        push(op, position, "StoreHalf", 0, true);
      }
    } else if (n.kind == Node::Kind::StoreRaw && n.lane_bytes == 4) {
      op.out = output;
      op.code = machine.function(ChainOp::Move, step.from_chain, true);
      push(op, position, "Move", step.from_chain, true);
    } else {
      op.out = n.is_store() ? output : static_cast<std::uint16_t>(home(step.node));
      op.code = machine.run_tile;
      op.tile = n.tile;
      op.stream = n.index;
      push(op, position, scalar_op_name(n.op), kNone, true);
    }
  }

  /// The store takes the block that the op before rounded, and only passed on.
  bool rounds_just_before(const Step& store, int position) {
    if (store.from_chain != 0 || position == 0) return false;
    const Step& before = steps_[static_cast<std::size_t>(position) - 1];
    const Node& n = node(before.node);
    return n.kind == Node::Kind::Chain && n.chain == ChainOp::RoundHalf && before.from_chain == 0 &&
           home(before.node) == kNone;
  }

  void push(const MicroOp& op, int position, std::string_view name, int from_chain = kNone,
            bool keep = false) {
    ops_.push_back(op);
    op_steps_.push_back(position);
    line_starts_.push_back(plan_.listing.size());
    plan_.listing += "  ";
    if (keep) plan_.listing += str_cat("s", op.out, " = ");
    plan_.listing += name;
    const Node& n = node(steps_[static_cast<std::size_t>(position)].node);
    for (int k = 0; k < 3; ++k) {
      if (n.operands[static_cast<std::size_t>(k)] < 0) continue;
      plan_.listing += k == from_chain ? std::string(" .") : str_cat(" s", op.in[k]);
    }
    plan_.listing += "\n";
  }
  void drop_line() {
    plan_.listing.resize(line_starts_.back());
    line_starts_.pop_back();
  }

  void find_hazards() {
    for (int output = 0; output < static_cast<int>(plan_.num_outputs); ++output) {
      const auto slot_of_output =
          static_cast<std::uint16_t>(plan_.first_output() + static_cast<std::size_t>(output));
      const auto written = std::find_if(ops_.begin(), ops_.end(), [&](const MicroOp& op) {
        return op.code != chain_machine().end && op.out == slot_of_output;
      });
      for (int input = 0; input < static_cast<int>(plan_.num_inputs); ++input) {
        if (same_layout(spec_, input, output) && is_read_after(written, input)) {
          plan_.hazards.emplace_back(input, output);
        }
      }
    }
  }
  bool is_read_after(std::vector<MicroOp>::const_iterator written, int input) const {
    if (written == ops_.end()) return false;
    const auto begin = written + 1;
    for (auto op = begin; op != ops_.end(); ++op) {
      const auto position = static_cast<std::size_t>(op - ops_.begin());
      if (position >= op_steps_.size()) return false;
      const Node& n = node(steps_[static_cast<std::size_t>(op_steps_[position])].node);
      for (int operand : n.operands) {
        if (operand >= 0 && node(operand).kind == Node::Kind::Input &&
            node(operand).index == input) {
          return true;
        }
      }
    }
    return false;
  }

  const NodeGraph& graph_;
  const KernelSpec& spec_;
  FusedPlan& plan_;
  Homes& homes_;
  bool uniform_;
  std::vector<int> free_tiles_;
  std::vector<bool> kept_;
  std::vector<int> last_use_;       // step that reads the node's block, kNone: none does
  std::vector<int> direct_output_;  // output that is the node's home
  std::vector<Step> steps_;
  std::vector<MicroOp> ops_;
  std::vector<int> op_steps_;  // step of each op
  std::vector<std::size_t> line_starts_;
};

class Planner {
 public:
  Planner(const KernelSpec& spec, bool with_steps) : spec_(spec), graph_(build_nodes(spec)) {
    if (with_steps && has_steps(graph_)) {
      prepare_uniform_divisions(graph_);
      simple_ = graph_;
    }
    combine_nodes(graph_);
    plan_.num_inputs = spec.num_loaded_inputs();
    plan_.num_outputs = spec.outputs.size();
    plan_.generated = graph_.generated;
    plan_.constants = graph_.constants;
    homes_.assign(graph_.nodes.size(), kNone);
  }

  FusedPlan run() {
    find_kept();
    plan_.prologue = emit(prologue_order(graph_, kept_), true, "once");
    for (std::size_t i = 0; i < plan_.generated.size(); ++i) {
      if (!plan_.generated[i].is_philox) continue;
      plan_.generated[i].key0 = uniform_slot(graph_.keys[i][0]);
      plan_.generated[i].key1 = uniform_slot(graph_.keys[i][1]);
    }
    plan_.body = emit(body_order(graph_), false, "per block");
    for (const MicroOp& op : plan_.body) {
      ++(op.tile != nullptr ? plan_.num_tile_ops : plan_.num_chain_ops);
    }
    --plan_.num_chain_ops;  // the end
    if (!simple_.nodes.empty()) add_steps();
    return std::move(plan_);
  }

 private:
  void add_steps() {
    const auto slot_of = [&](int id) {
      const Node& n = simple_.nodes[static_cast<std::size_t>(id)];
      const bool is_generated = n.kind == Node::Kind::Generated;
      return is_generated ? static_cast<int>(plan_.first_generated()) + n.index
                          : static_cast<int>(uniform_slot(id));
    };
    plan_.steps = chain_steps(simple_, body_order(simple_), slot_of, plan_.first_output());
    for (const UniformDivision& division : simple_.uniform_divisions) {
      const std::uint16_t slot = uniform_slot(division.magnitude);
      const bool known =
          std::find(plan_.divisors.begin(), plan_.divisors.end(), slot) != plan_.divisors.end();
      if (!known) plan_.divisors.push_back(slot);
    }
    for (int output = 0; output < static_cast<int>(plan_.num_outputs); ++output) {
      for (int input = 0; input < static_cast<int>(plan_.num_inputs); ++input) {
        const std::pair<int, int> hazard{input, output};
        const bool known =
            std::find(plan_.hazards.begin(), plan_.hazards.end(), hazard) != plan_.hazards.end();
        const int slot = static_cast<int>(plan_.first_output()) + output;
        if (!known && same_layout(spec_, input, output) &&
            is_read_after_store(plan_.steps, input, slot)) {
          plan_.hazards.push_back(hazard);
        }
      }
    }
  }

  /// Uniform nodes that the body, a store or a generator reads.
  void find_kept() {
    kept_.assign(graph_.nodes.size(), false);
    const auto keep = [&](int id) {
      const Node& n = graph_.nodes[static_cast<std::size_t>(id)];
      if (n.uniform && !n.is_block()) kept_[static_cast<std::size_t>(id)] = true;
    };
    for (const Node& n : graph_.nodes) {
      const bool in_body = n.is_store() || (n.uses > 0 && !n.uniform);
      for (int operand : n.operands) {
        if (in_body && operand >= 0) keep(operand);
      }
      if (n.kind != Node::Kind::Generated || n.uses == 0) continue;
      for (int key : graph_.keys[static_cast<std::size_t>(n.index)]) {
        if (key >= 0) keep(key);
      }
    }
    for (const UniformDivision& division : graph_.uniform_divisions) {
      for (int value : {division.magnitude, division.reciprocal, division.scale}) keep(value);
    }
  }

  std::vector<MicroOp> emit(const std::vector<int>& order, bool uniform, const char* title) {
    plan_.listing += str_cat(title, ":\n");
    return Emitter(graph_, spec_, plan_, homes_, uniform).run(order, kept_);
  }

  std::uint16_t uniform_slot(int id) const {
    const Node& n = graph_.nodes[static_cast<std::size_t>(id)];
    if (n.kind == Node::Kind::Input) return static_cast<std::uint16_t>(n.index);
    if (n.kind == Node::Kind::Constant) {
      return static_cast<std::uint16_t>(plan_.first_constant() + static_cast<std::size_t>(n.index));
    }
    return static_cast<std::uint16_t>(homes_[static_cast<std::size_t>(id)]);
  }

  const KernelSpec& spec_;
  NodeGraph graph_;
  NodeGraph simple_;  // before nodes were combined; empty: no steps
  FusedPlan plan_;
  Homes homes_;
  std::vector<bool> kept_;
};

}  // namespace

bool is_uniform(const OperandDesc& operand) {
  for (std::size_t d = 0; d < operand.shape.size(); ++d) {
    if (operand.shape[d] != 1 && operand.strides[d] != 0) return false;
  }
  return true;
}

FusedPlan plan_fused(const KernelSpec& spec, bool with_steps) {
  return Planner(spec, with_steps).run();
}

}  // namespace pando::cpu
