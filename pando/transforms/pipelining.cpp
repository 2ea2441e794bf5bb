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
      : graph_(graph), ops_(ops), context_(context) {
    schedule_.steps = steps;
  }

  PipelineSchedule run();

 private:
  /// Graph tensors in the place where a cycle is built.
  struct Place {
    Graph* graph = nullptr;
    std::unordered_map<const Tensor*, Tensor*> outer;
  };
  /// Slot j of crossing x holds what its stage made j + 1 cycles ago. Empty slots: nullptr.
  using Slots = std::vector<std::vector<Tensor*>>;

  void check_steps();
  void check_uses() const;
  void check_streams() const;
  void build_stages();
  void find_crossings();
  bool is_inside(const Tensor* tensor) const {
    return tensor->producer() != nullptr && stage_of_.contains(tensor->producer());
  }
  /// Runs the stages that work in `cycle`.
  void run_cycle(const Place& place, std::int64_t cycle, Slots& slots) const;
  void run_main_cycles(Slots& slots);

  Graph& graph_;
  const StagedOps& ops_;
  const OpContext& context_;
  PipelineSchedule schedule_;
  std::unordered_map<const Op*, std::int64_t> stage_of_;
  std::vector<std::unique_ptr<Outliner>> stages_;
  std::vector<Crossing> crossings_;
  std::vector<Tensor*> arguments_;  // outer tensors, for the inputs of the new graph
  Place place_;                     // the new graph
};

void Pipeliner::check_steps() {
  std::set<std::int64_t> used;
  for (const auto& [op, stage] : ops_) used.insert(stage);
  if (used.empty() || *used.begin() != 0 ||
      *used.rbegin() + 1 != static_cast<std::int64_t>(used.size())) {
    std::string text;
    for (const std::int64_t stage : used) text += str_cat(text.empty() ? "" : ", ", stage);
    throw ValueError(
        str_cat("pipeline: wanted ops in stages 0, 1, 2, ... without a gap; given "
                "stages ",
                text.empty() ? "none" : text));
  }
  schedule_.stages.resize(used.size());
  // With fewer there would be no cycle in which all stages work.
  const std::int64_t least = schedule_.num_stages();
  if (schedule_.steps < least) {
    throw ValueError(str_cat("pipeline: ", least, " stages need at least ", least,
                             " steps, one for each; given ", schedule_.steps));
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
        const bool written = use.op->modified_inputs().contains(use.index);
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
  if ((op.def().is_load || op.def().is_store) && op.attributes.has("stream")) {
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

/// Where the ops of a graph and of those that it calls are computed. A copy between devices belongs
/// to two: it is not counted.
void add_devices(const Graph& graph, std::set<const Graph*>& visited,
                 std::set<std::int64_t>& devices) {
  if (!visited.insert(&graph).second) return;
  for (const Op* op : graph.ops()) {
    const bool computes = op->called_graphs.empty() && !op->def().moves_devices;
    if (computes) devices.insert(op->context.device.value_or(0));
    for (const Graph* callee : op->called_graphs) add_devices(*callee, visited, devices);
  }
}

void Pipeliner::build_stages() {
  Ir& ir = graph_.ir();
  for (std::size_t k = 0; k < schedule_.stages.size(); ++k) {
    stages_.push_back(std::make_unique<Outliner>(ir.create_graph(str_cat("pipeline_stage_", k))));
  }
  for (const auto& [op, stage] : ops_) stages_[static_cast<std::size_t>(stage)]->copy(*op);
  for (std::size_t k = 0; k < stages_.size(); ++k) {
    stages_[k]->mark_written_inputs();
    std::set<const Graph*> visited;
    std::set<std::int64_t> devices;
    add_devices(stages_[k]->graph(), visited, devices);
    schedule_.stages[k] = {stages_[k]->graph().id(), {devices.begin(), devices.end()}};
  }
}

void Pipeliner::find_crossings() {
  std::unordered_map<const Tensor*, std::size_t> known;
  for (std::int64_t k = 0; k < schedule_.num_stages(); ++k) {
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

void Pipeliner::run_cycle(const Place& place, std::int64_t cycle, Slots& slots) const {
  std::vector<Tensor*> made(crossings_.size(), nullptr);
  for (std::int64_t k = 0; k < schedule_.num_stages(); ++k) {
    if (!schedule_.micro_batch(k, cycle)) continue;
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
    place.outer[arguments_[i]] = body.add_input(*argument, argument->is_by_ref());
  }
  run_cycle(place, schedule_.main_begin(), inner);
  for (const auto& row : inner) carried.insert(carried.end(), row.begin(), row.end());
  const std::vector<Tensor*> last = body.finish(
      *place_.graph, schedule_.main_end() - schedule_.main_begin(), inputs, carried, context_);
  std::size_t next = 0;
  for (auto& row : slots) {
    for (Tensor*& slot : row) slot = last[next++];
  }
}

PipelineSchedule Pipeliner::run() {
  for (const auto& [op, stage] : ops_) stage_of_[op] = stage;
  check_steps();
  check_uses();
  check_streams();
  build_stages();
  find_crossings();

  place_.graph = &graph_.ir().create_graph("pipeline_graph");
  schedule_.graph = place_.graph->id();
  for (Tensor* argument : arguments_) {
    const bool by_ref = std::any_of(stages_.begin(), stages_.end(), [&](const auto& stage) {
      const Tensor* input = stage->copy_of(argument);
      return input != nullptr && input->is_by_ref();
    });
    place_.outer[argument] = place_.graph->add_input(
        place_.graph->unique_tensor_id(argument->name()), argument->info, by_ref);
  }
  Slots slots;
  for (const Crossing& crossing : crossings_) slots.emplace_back(crossing.slots(), nullptr);
  for (std::int64_t c = 0; c < schedule_.main_begin(); ++c) run_cycle(place_, c, slots);
  run_main_cycles(slots);
  for (std::int64_t c = schedule_.main_end(); c < schedule_.num_cycles(); ++c) {
    run_cycle(place_, c, slots);
  }
  put_in_sequence(*place_.graph);

  std::vector<Op*> moved;
  for (const auto& [op, stage] : ops_) moved.push_back(op);
  graph_.set_insertion_point(moved.back());
  Op& call_op = create_call(graph_, *place_.graph, arguments_, context_);
  graph_.set_insertion_point(nullptr);
  for (const Op* op : moved) {
    for (Op* earlier : op->after()) {
      if (!stage_of_.contains(earlier)) call_op.run_after(*earlier);
    }
  }
  for (Op* op : graph_.ops()) {
    const bool follows = std::any_of(op->after().begin(), op->after().end(),
                                     [&](const Op* e) { return stage_of_.contains(e); });
    if (follows && !stage_of_.contains(op)) op->run_after(call_op);
  }
  erase_moved_ops(graph_, moved);
  return schedule_;
}

}  // namespace

PipelineSchedule pipeline(Graph& graph, const StagedOps& ops, std::int64_t steps,
                          const OpContext& context) {
  return Pipeliner(graph, ops, steps, context).run();
}

}  // namespace pando
