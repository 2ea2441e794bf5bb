#include "pando/transforms/pipelining.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>

#include "pando/base/error.hpp"
#include "pando/transforms/graph_calls.hpp"

namespace pando {
namespace {

using StagedOps = std::vector<std::pair<Op*, std::int64_t>>;

/// A tensor that crosses from one stage to later ones.
struct Crossing {
  Tensor* tensor;
  std::int64_t from = 0;
  std::int64_t to = 0;  // the last stage that uses it
  std::size_t slots() const { return static_cast<std::size_t>(to - from); }
};

class Pipeliner {
 public:
  Pipeliner(Graph& graph, const StagedOps& ops, std::int64_t steps, const OpContext& context)
      : graph_(graph), ops_(ops), steps_(steps), context_(context) {}

  Graph& run();

 private:
  /// Graph tensors in the place where a cycle is built.
  struct Place {
    Graph* graph = nullptr;
    std::unordered_map<const Tensor*, Tensor*> outer;
  };
  /// Slot j of crossing x holds what its stage made j + 1 cycles ago. Empty slots: nullptr.
  using Slots = std::vector<std::vector<Tensor*>>;

  void check_steps() const;
  void check_uses() const;
  void check_streams() const;
  void build_stages();
  void find_crossings();
  bool is_inside(const Tensor* tensor) const {
    return tensor->producer() != nullptr && stage_of_.contains(tensor->producer());
  }
  /// Runs stages [first, last) in one cycle.
  void run_cycle(const Place& place, std::int64_t first, std::int64_t last, Slots& slots) const;
  void run_main_cycles(Slots& slots);

  Graph& graph_;
  const StagedOps& ops_;
  std::int64_t steps_;
  const OpContext& context_;
  std::int64_t num_stages_ = 0;
  std::unordered_map<const Op*, std::int64_t> stage_of_;
  std::vector<std::unique_ptr<Outliner>> stages_;
  std::vector<Crossing> crossings_;
  std::vector<Tensor*> arguments_;  // outer tensors, for the inputs of the new graph
  Place place_;                     // the new graph
};

void Pipeliner::check_steps() const {
  std::set<std::int64_t> used;
  for (const auto& [op, stage] : ops_) used.insert(stage);
  if (used.empty() || *used.begin() != 0 || *used.rbegin() + 1 != num_stages_ ||
      static_cast<std::int64_t>(used.size()) != num_stages_) {
    std::string text;
    for (const std::int64_t stage : used) text += str_cat(text.empty() ? "" : ", ", stage);
    throw ValueError(
        str_cat("pipeline: wanted ops in stages 0, 1, 2, ... without a gap; given "
                "stages ",
                text.empty() ? "none" : text));
  }
  if (steps_ < 2 * num_stages_) {
    throw ValueError(str_cat("pipeline: ", num_stages_, " stages need at least ", 2 * num_stages_,
                             " steps; given ", steps_));
  }
}

/// Uses against the direction of the stages, and from outside.
void Pipeliner::check_uses() const {
  for (const auto& [op, stage] : ops_) {
    for (const Tensor* output : op->outputs()) {
      const auto& outputs = graph_.outputs();
      if (std::find(outputs.begin(), outputs.end(), output) != outputs.end()) {
        throw Error(str_cat("pipeline: '", output->id(), "' of ", describe(*op),
                            " is a graph output; tensors of a pipeline cannot be used outside"));
      }
      for (const Use& use : output->uses()) {
        const auto it = stage_of_.find(use.op);
        if (it == stage_of_.end()) {
          throw Error(str_cat("pipeline: '", output->id(), "' of stage ", stage, " is used by ",
                              describe(*use.op), ", which is outside the pipeline"));
        }
        if (it->second < stage) {
          throw Error(str_cat("pipeline: stage ", it->second, " uses '", output->id(),
                              "' of the later stage ", stage, " in ", describe(*use.op)));
        }
        const std::vector<int> modified = use.op->modified_inputs();
        const bool written =
            std::find(modified.begin(), modified.end(), use.index) != modified.end();
        if (written && it->second != stage) {
          throw Error(str_cat("pipeline: ", describe(*use.op), " of stage ", it->second,
                              " writes '", output->id(), "' of stage ", stage,
                              " in place; use the out-of-place op"));
        }
      }
    }
  }
}

/// Streams that the ops, and graphs that they call, use.
void add_streams(const Op& op, std::set<std::string>& streams) {
  if (op.kind() == "HostLoad" || op.kind() == "HostStore") {
    streams.insert(op.attributes.text("stream"));
  }
  for (const Graph* callee : op.called_graphs) {
    for (const Op* inner : callee->ops()) add_streams(*inner, streams);
  }
}

void Pipeliner::check_streams() const {
  std::map<std::string, std::int64_t> users;
  for (const auto& [op, stage] : ops_) {
    std::set<std::string> streams;
    add_streams(*op, streams);
    for (const std::string& stream : streams) {
      const auto [it, is_new] = users.emplace(stream, stage);
      if (is_new || it->second == stage) continue;
      throw Error(str_cat("pipeline: stages ", it->second, " and ", stage, " use the host stream '",
                          stream,
                          "', whose elements they would get in another order than one after the "
                          "other; give each stage its own stream"));
    }
  }
}

void Pipeliner::build_stages() {
  Ir& ir = graph_.ir();
  for (std::int64_t k = 0; k < num_stages_; ++k) {
    stages_.push_back(std::make_unique<Outliner>(ir.create_graph(str_cat("pipeline_stage_", k))));
  }
  for (const auto& [op, stage] : ops_) stages_[static_cast<std::size_t>(stage)]->copy(*op);
  for (const auto& stage : stages_) stage->mark_written_inputs();
}

void Pipeliner::find_crossings() {
  std::unordered_map<const Tensor*, std::size_t> known;
  for (std::int64_t k = 0; k < num_stages_; ++k) {
    for (Tensor* tensor : stages_[static_cast<std::size_t>(k)]->arguments()) {
      if (!is_inside(tensor)) {
        if (std::find(arguments_.begin(), arguments_.end(), tensor) == arguments_.end()) {
          arguments_.push_back(tensor);
        }
        continue;
      }
      const auto [it, is_new] = known.emplace(tensor, crossings_.size());
      if (is_new) crossings_.push_back({tensor, stage_of_.at(tensor->producer()), k});
      crossings_[it->second].to = std::max(crossings_[it->second].to, k);
    }
  }
  for (const Crossing& crossing : crossings_) {
    const Outliner& stage = *stages_[static_cast<std::size_t>(crossing.from)];
    stage.graph().mark_output(stage.copy_of(crossing.tensor));
  }
}

void Pipeliner::run_cycle(const Place& place, std::int64_t first, std::int64_t last,
                          Slots& slots) const {
  std::vector<Tensor*> made(crossings_.size(), nullptr);
  for (std::int64_t k = first; k < last; ++k) {
    const Outliner& stage = *stages_[static_cast<std::size_t>(k)];
    std::unordered_map<const Tensor*, Tensor*> values = place.outer;
    for (std::size_t x = 0; x < crossings_.size(); ++x) {
      const std::int64_t age = k - crossings_[x].from;
      if (age < 1 || age > static_cast<std::int64_t>(slots[x].size())) continue;
      values[crossings_[x].tensor] = slots[x][static_cast<std::size_t>(age - 1)];
    }
    std::vector<Tensor*> inputs;
    for (const Tensor* argument : stage.arguments()) inputs.push_back(values.at(argument));
    const std::vector<Tensor*> outputs = call(*place.graph, stage.graph(), inputs, context_);
    std::size_t next = 0;
    for (std::size_t x = 0; x < crossings_.size(); ++x) {
      if (crossings_[x].from == k) made[x] = outputs[next++];
    }
  }
  for (std::size_t x = 0; x < crossings_.size(); ++x) {
    slots[x].insert(slots[x].begin(), made[x]);
    slots[x].pop_back();
  }
}

void Pipeliner::run_main_cycles(Slots& slots) {
  LoopBody body(graph_.ir(), place_.graph->id());
  std::vector<Tensor*> inputs, carried;
  Slots inner = slots;
  for (auto& row : inner) {
    for (Tensor*& slot : row) {
      inputs.push_back(slot);
      slot = body.add_input(*slot);
    }
  }
  Place place{&body.graph(), {}};
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    Tensor* argument = place_.graph->inputs()[i];
    inputs.push_back(argument);
    place.outer[arguments_[i]] = body.add_input(*argument, place_.graph->is_by_ref(argument));
  }
  run_cycle(place, 0, num_stages_, inner);
  for (const auto& row : inner) carried.insert(carried.end(), row.begin(), row.end());
  const std::vector<Tensor*> last =
      body.finish(*place_.graph, steps_ - (num_stages_ - 1), inputs, carried, context_);
  std::size_t next = 0;
  for (auto& row : slots) {
    for (Tensor*& slot : row) slot = last[next++];
  }
}

Graph& Pipeliner::run() {
  for (const auto& [op, stage] : ops_) {
    stage_of_[op] = stage;
    num_stages_ = std::max(num_stages_, stage + 1);
  }
  check_steps();
  check_uses();
  check_streams();
  build_stages();
  find_crossings();

  place_.graph = &graph_.ir().create_graph("pipeline_graph");
  for (Tensor* argument : arguments_) {
    const bool by_ref = std::any_of(stages_.begin(), stages_.end(), [&](const auto& stage) {
      const Tensor* input = stage->copy_of(argument);
      return input != nullptr && stage->graph().is_by_ref(input);
    });
    place_.outer[argument] = place_.graph->add_input(
        place_.graph->unique_tensor_id(argument->name()), argument->info, by_ref);
  }
  Slots slots;
  for (const Crossing& crossing : crossings_) slots.emplace_back(crossing.slots(), nullptr);
  for (std::int64_t last = 1; last < num_stages_; ++last) run_cycle(place_, 0, last, slots);
  run_main_cycles(slots);
  for (std::int64_t first = 1; first < num_stages_; ++first) {
    run_cycle(place_, first, num_stages_, slots);
  }
  put_in_sequence(*place_.graph);

  std::vector<Op*> moved;
  for (const auto& [op, stage] : ops_) moved.push_back(op);
  graph_.set_insertion_point(moved.back());
  Op& call_op = create_call(graph_, *place_.graph, arguments_, context_);
  graph_.set_insertion_point(nullptr);
  for (const Op* op : moved) {
    for (Op* earlier : op->after) {
      if (!stage_of_.contains(earlier)) call_op.after.push_back(earlier);
    }
  }
  for (Op* op : graph_.ops()) {
    const bool follows = std::any_of(op->after.begin(), op->after.end(),
                                     [&](const Op* e) { return stage_of_.contains(e); });
    if (follows && !stage_of_.contains(op)) op->after.push_back(&call_op);
  }
  erase_moved_ops(graph_, moved);
  return *place_.graph;
}

}  // namespace

Graph& pipeline(Graph& graph, const StagedOps& ops, std::int64_t steps, const OpContext& context) {
  return Pipeliner(graph, ops, steps, context).run();
}

}  // namespace pando
