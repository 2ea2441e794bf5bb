#include "pando/compile/fusion_groups.hpp"

#include <algorithm>
#include <functional>

#include "pando/compile/device_streams.hpp"

namespace pando {
namespace {

/// How many ops behind an op its reader is looked for.
constexpr std::size_t kFarthestReader = 8;

/// A view through which the ops of one step touch a storage.
struct StepAccess {
  const Tensor* root;
  const View* view;
  bool written;  // the storage, through any view
  int earlier;   // another one of the same step; -1: none
};

struct StepState {
  const Op* first;
  bool pointwise;
  std::size_t num_ops = 0;
  int last_access = -1;  // of few, so that a search is quicker than a hash

  const Shape& shape() const { return first->output(0)->shape(); }
};

bool is_same(const View& a, const View& b) { return &a == &b || a == b; }

class StepFormer {
 public:
  StepFormer(const Graph& graph, const Placements& placements, std::size_t most_ops,
             EffectNames& effects)
      : graph_(graph),
        placements_(placements),
        most_ops_(most_ops),
        predecessors_(dependencies(graph, placements.classes(), effects)) {}

  ExecutionSteps run() {
    step_of_.assign(graph_.ops().size(), -1);
    placed_.reserve(graph_.ops().size());
    for (std::size_t i = 0; i < graph_.ops().size(); ++i) place(static_cast<int>(i));
    return listed();
  }

 private:
  struct PlacedOp {
    Op* op;
    std::size_t step;
  };

  /// The ops step by step, those of a step in their order.
  ExecutionSteps listed() const {
    std::vector<Op*> ops(placed_.size());
    std::vector<ExecutionStep> steps;
    steps.reserve(states_.size());
    std::vector<std::size_t> next;  // by step
    next.reserve(states_.size());
    std::size_t begin = 0;
    for (const StepState& state : states_) {
      steps.push_back({std::span(ops).subspan(begin, state.num_ops), state.pointwise});
      next.push_back(begin);
      begin += state.num_ops;
    }
    for (const PlacedOp& placed : placed_) ops[next[placed.step]++] = placed.op;
    return {std::move(ops), std::move(steps)};
  }

  void place(int position) {
    Op& op = *graph_.ops()[static_cast<std::size_t>(position)];
    int earliest = op.context.is_repeated ? static_cast<int>(states_.size()) - 1 : -1;
    for (int p : predecessors_.of(static_cast<std::size_t>(position))) {
      earliest = std::max(earliest, step_of_[static_cast<std::size_t>(p)]);
    }
    int& step = step_of_[static_cast<std::size_t>(position)];
    if (placements_.is_elided(op)) {
      step = earliest;
      return;
    }
    const bool pointwise = is_pointwise(op);
    if (pointwise) earliest = std::max(earliest, earliest_of_reader(position));
    step = pointwise ? find_group(op, earliest) : -1;
    if (step < 0) {
      step = static_cast<int>(states_.size());
      states_.push_back({&op, pointwise});
    }
    const auto index = static_cast<std::size_t>(step);
    placed_.push_back({&op, index});
    ++states_[index].num_ops;
    if (pointwise) record(op, step);
  }

  static bool is_pointwise(const Op& op) {
    return op.def().scalar_body != nullptr && op.num_outputs() > 0;
  }

  /// Where the only reader of an op's result can run, if the two alone make and take the result:
  /// in an earlier step than the reader it would be written to memory for it, and the operands,
  /// which are in memory for others, can as well be read again.
  int earliest_of_reader(int position) const {
    const std::vector<Op*>& ops = graph_.ops();
    const Op& op = *ops[static_cast<std::size_t>(position)];
    if (op.num_outputs() != 1 || op.modifies() || op.output(0)->uses().size() != 1) return -1;
    const Op& reader = *op.output(0)->uses().begin()->op;
    if (!is_pointwise(reader) || reader.output(0)->shape() != op.output(0)->shape()) return -1;
    for (const Tensor* input : op.inputs()) {
      if (input != nullptr && placements_.of(input).root->producer() != nullptr &&
          input->shape() == op.output(0)->shape()) {
        return -1;
      }
    }
    // Schedules put it right behind, or not far.
    const auto end = static_cast<std::size_t>(position) + kFarthestReader;
    auto at = static_cast<std::size_t>(position) + 1;
    while (at < std::min(ops.size(), end) && ops[at] != &reader) ++at;
    if (at >= std::min(ops.size(), end)) return -1;
    int earliest = -1;
    for (const int p : predecessors_.of(at)) {
      earliest = std::max(earliest, step_of_[static_cast<std::size_t>(p)]);
    }
    return earliest;
  }

  int find_group(const Op& op, int earliest) {
    candidates_.clear();
    const auto consider = [&](const Tensor* tensor) {
      const int group = last_group_.at(placements_.of(tensor).root);
      if (group >= 0 && group >= earliest) candidates_.push_back(group);
    };
    for (const Tensor* input : op.inputs()) {
      if (input != nullptr) consider(input);
    }
    for (const Tensor* output : op.outputs()) consider(output);
    std::sort(candidates_.begin(), candidates_.end(), std::greater<>());
    candidates_.erase(std::unique(candidates_.begin(), candidates_.end()), candidates_.end());
    for (int step : candidates_) {
      if (fits(op, step)) return step;
    }
    return -1;
  }

  bool fits(const Op& op, int step) const {
    const StepState& state = states_[static_cast<std::size_t>(step)];
    if (state.num_ops >= most_ops_) return false;
    if (state.shape() != op.output(0)->shape()) return false;
    // Each program (run, weights from or to the host) and device executes only its own ops.
    if (state.first->context.execution != op.context.execution) return false;
    if (device_of(*state.first) != device_of(op)) return false;
    const InputSet modified = op.modified_inputs();
    for (int k = 0; k < op.num_inputs(); ++k) {
      if (op.input(k) == nullptr) continue;
      const Placement& placement = placements_.of(op.input(k));
      for (int i = state.last_access; i >= 0; i = access(i).earlier) {
        if (access(i).root != placement.root) continue;
        const bool conflicts = modified.contains(k) || access(i).written;
        if (conflicts && !is_same(*access(i).view, *placement.view)) return false;
      }
    }
    return true;
  }

  void record(const Op& op, int step) {
    StepState& state = states_[static_cast<std::size_t>(step)];
    const auto touch = [&](const Tensor* tensor, bool writes) {
      const Placement& placement = placements_.of(tensor);
      bool is_known = false;
      for (int i = state.last_access; i >= 0; i = access(i).earlier) {
        if (access(i).root != placement.root) continue;
        writes = writes || access(i).written;
        access(i).written = writes;
        is_known = is_known || is_same(*access(i).view, *placement.view);
      }
      if (!is_known) {
        accesses_.push_back({placement.root, placement.view, writes, state.last_access});
        state.last_access = static_cast<int>(accesses_.size()) - 1;
      }
      last_group_[placement.root] = step;
    };
    for (const Tensor* input : op.inputs()) {
      if (input != nullptr) touch(input, false);
    }
    for (const Tensor* output : op.outputs()) touch(output, true);
  }

  StepAccess& access(int index) { return accesses_[static_cast<std::size_t>(index)]; }
  const StepAccess& access(int index) const { return accesses_[static_cast<std::size_t>(index)]; }

  const Graph& graph_;
  const Placements& placements_;
  std::size_t most_ops_;
  OpPredecessors predecessors_;
  std::vector<int> step_of_;
  std::vector<PlacedOp> placed_;
  std::vector<StepState> states_;
  std::vector<StepAccess> accesses_;  // of all steps
  std::vector<int> candidates_;       // of find_group
  TensorMap<int> last_group_{-1};
};

}  // namespace

ExecutionSteps form_steps(const Graph& graph, const Placements& placements, std::size_t most_ops,
                          EffectNames& effects) {
  return StepFormer(graph, placements, most_ops, effects).run();
}

}  // namespace pando
