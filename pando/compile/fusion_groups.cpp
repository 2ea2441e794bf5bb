#include "pando/compile/fusion_groups.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "pando/compile/device_streams.hpp"

namespace pando {
namespace {

/// How the ops of one step touch one storage.
struct StepAccess {
  const Tensor* root;
  std::vector<const View*> views;  // different ones
  bool written = false;
};

struct StepState {
  Shape shape;
  std::vector<StepAccess> accesses;  // few: a search is quicker than a hash

  /// accesses.size() when there is none.
  std::size_t index_of(const Tensor* root) const {
    const auto it = std::find_if(accesses.begin(), accesses.end(),
                                 [&](const StepAccess& access) { return access.root == root; });
    return static_cast<std::size_t>(it - accesses.begin());
  }
  const StepAccess* find(const Tensor* root) const {
    const std::size_t index = index_of(root);
    return index == accesses.size() ? nullptr : &accesses[index];
  }
  StepAccess& of(const Tensor* root) {
    const std::size_t index = index_of(root);
    if (index == accesses.size()) accesses.push_back({root, {}, false});
    return accesses[index];
  }
};

class StepFormer {
 public:
  StepFormer(const Graph& graph, const Placements& placements, std::size_t most_ops,
             EffectNames& effects)
      : graph_(graph),
        placements_(placements),
        most_ops_(most_ops),
        predecessors_(dependencies(graph, placements.classes(), effects)) {}

  std::vector<ExecutionStep> run() {
    step_of_.assign(graph_.ops().size(), -1);
    for (std::size_t i = 0; i < graph_.ops().size(); ++i) place(static_cast<int>(i));
    return std::move(steps_);
  }

 private:
  void place(int position) {
    Op& op = *graph_.ops()[static_cast<std::size_t>(position)];
    int earliest = -1;
    for (int p : predecessors_[static_cast<std::size_t>(position)]) {
      earliest = std::max(earliest, step_of_[static_cast<std::size_t>(p)]);
    }
    int& step = step_of_[static_cast<std::size_t>(position)];
    if (placements_.is_elided(op)) {
      step = earliest;
      return;
    }
    const bool pointwise = op.def().scalar_body != nullptr && op.num_outputs() > 0;
    step = pointwise ? find_group(op, earliest) : -1;
    if (step < 0) {
      step = static_cast<int>(steps_.size());
      steps_.push_back({{}, pointwise});
      states_.push_back({op.num_outputs() > 0 ? op.output(0)->shape() : Shape{}, {}});
    }
    steps_[static_cast<std::size_t>(step)].ops.push_back(&op);
    if (pointwise) record(op, step);
  }

  int find_group(const Op& op, int earliest) const {
    std::set<int, std::greater<>> candidates;
    const auto consider = [&](const Tensor* tensor) {
      const int group = last_group_.at(placements_.of(tensor).root);
      if (group >= 0 && group >= earliest) candidates.insert(group);
    };
    for (const Tensor* input : op.inputs()) {
      if (input != nullptr) consider(input);
    }
    for (const Tensor* output : op.outputs()) consider(output);
    for (int step : candidates) {
      if (fits(op, step)) return step;
    }
    return -1;
  }

  bool fits(const Op& op, int step) const {
    const StepState& state = states_[static_cast<std::size_t>(step)];
    if (steps_[static_cast<std::size_t>(step)].ops.size() >= most_ops_) return false;
    if (state.shape != op.output(0)->shape()) return false;
    // Each program (run, weights from or to the host) and device executes only its own ops.
    const Op& first = *steps_[static_cast<std::size_t>(step)].ops.front();
    if (first.context.execution != op.context.execution) return false;
    if (device_of(first) != device_of(op)) return false;
    const InputSet modified = op.modified_inputs();
    for (int k = 0; k < op.num_inputs(); ++k) {
      if (op.input(k) == nullptr) continue;
      const Placement& placement = placements_.of(op.input(k));
      const StepAccess* access = state.find(placement.root);
      if (access == nullptr) continue;
      if (!modified.contains(k) && !access->written) continue;
      const bool same_view = std::all_of(access->views.begin(), access->views.end(),
                                         [&](const View* v) { return *v == placement.view; });
      if (!same_view) return false;
    }
    return true;
  }

  void record(const Op& op, int step) {
    StepState& state = states_[static_cast<std::size_t>(step)];
    state.accesses.reserve(state.accesses.size() + op.inputs().size() + op.outputs().size());
    const auto touch = [&](const Tensor* tensor, bool writes) {
      const Placement& placement = placements_.of(tensor);
      StepAccess& access = state.of(placement.root);
      access.written = access.written || writes;
      const bool known = std::any_of(access.views.begin(), access.views.end(),
                                     [&](const View* v) { return *v == placement.view; });
      if (!known) access.views.push_back(&placement.view);
      last_group_[placement.root] = step;
    };
    for (const Tensor* input : op.inputs()) {
      if (input != nullptr) touch(input, false);
    }
    for (const Tensor* output : op.outputs()) touch(output, true);
  }

  const Graph& graph_;
  const Placements& placements_;
  std::size_t most_ops_;
  std::vector<std::vector<int>> predecessors_;
  std::vector<int> step_of_;
  std::vector<ExecutionStep> steps_;
  std::vector<StepState> states_;
  TensorMap<int> last_group_{-1};
};

}  // namespace

std::vector<ExecutionStep> form_steps(const Graph& graph, const Placements& placements,
                                      std::size_t most_ops, EffectNames& effects) {
  return StepFormer(graph, placements, most_ops, effects).run();
}

}  // namespace pando
