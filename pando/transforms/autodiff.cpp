#include "pando/transforms/autodiff.hpp"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "pando/base/error.hpp"
#include "pando/transforms/callee_gradients.hpp"
#include "pando/transforms/graph_calls.hpp"
#include "pando/transforms/loop_gradient.hpp"

namespace pando {
namespace {

/// Depends on the Ir alone: programs are known again by the names in them.
std::string backward_graph_id(const Graph& forward) {
  const std::string id = forward.id() + "_bwd";
  std::string candidate = id;
  for (int next = 0; forward.ir().find_graph(candidate) != nullptr; ++next) {
    candidate = str_cat(id, "_", next);
  }
  return candidate;
}

std::vector<Op*> call_sites(const Graph& graph) {
  std::vector<Op*> sites;
  for (const Graph* caller : graph.ir().graphs()) {
    for (Op* op : caller->ops()) {
      const auto& callees = op->called_graphs;
      if (std::find(callees.begin(), callees.end(), &graph) != callees.end()) sites.push_back(op);
    }
  }
  return sites;
}

void refuse_modifying_ops(const Graph& graph) {
  for (const Op* op : graph.ops()) {
    if (!op->modifies()) continue;
    throw Error(str_cat("The graph ", graph.id(),
                        " contains a modifying op and cannot be differentiated: ", describe(*op),
                        ". Use the out-of-place op, or pass values instead of references"));
  }
}

/// Differentiates one graph, in parts: the graphs that it calls come in between.
class GraphDifferentiator {
 public:
  /// `lenient` (called graphs): takes the gradients that exist, drops provided ones without use.
  GraphDifferentiator(Graph& forward, GradGraphInfos& infos, std::vector<Tensor*> provided,
                      std::vector<Tensor*> required, bool lenient, Unreached unreached);

  /// Goes on until the gradient of a called graph is needed that `infos` lacks, and returns that
  /// graph; nullptr: `infos` has the gradient graph.
  Graph* advance();
  /// Leaves no gradient graph behind.
  void abandon() { forward_.ir().erase_graph(*backward_); }

 private:
  class RuleBuilder;

  void check_reached() const;
  void find_wanted();
  bool wants(const Tensor* tensor) const { return tensor != nullptr && wanted_.contains(tensor); }
  bool is_on_path(const Op& op) const;
  Graph* missing_callee(const Op& op) const;
  void differentiate(Op& op);
  void differentiate_call(Op& op);
  void differentiate_if(Op& op);
  Tensor* output_gradients_or_zeros(const Op& op, const std::vector<int>& outputs,
                                    const TensorInfo& info);
  std::vector<Tensor*> callee_arguments(const Op& op, const GradGraphInfo& info, int first_input);
  Tensor* gradient_of(const Tensor* forward_tensor, const OpContext& context);
  OpContext context_of_gradient(const Tensor* tensor) const;
  Tensor* forward_value(Tensor* tensor);
  bool is_visible(const Tensor* tensor) const;
  void recompute(Tensor* tensor);
  void copy_producer(const Op& op);
  void add_contribution(const Op& op, int input, Tensor* gradient);
  void expose_intermediates();
  void finish();

  Graph& forward_;
  GradGraphInfos& infos_;
  std::vector<Tensor*> provided_;
  std::vector<Tensor*> required_;
  const bool lenient_;
  const Unreached unreached_;
  std::vector<Op*> ops_;  // those that are left
  Graph* backward_ = nullptr;
  bool recompute_ = false;
  bool is_loop_body_ = false;  // what an iteration gives is not kept
  std::unordered_set<const Tensor*> wanted_;
  std::unordered_map<const Tensor*, std::vector<Tensor*>> contributions_;
  std::unordered_map<const Tensor*, Tensor*> gradients_;  // summed
  std::vector<Tensor*> provided_inputs_;                  // as provided_
  std::unordered_map<Tensor*, Tensor*> forward_inputs_;   // forward tensor -> backward input
  std::unordered_map<const Tensor*, Tensor*> recomputed_;
};

class GraphDifferentiator::RuleBuilder : public GradientBuilder {
 public:
  RuleBuilder(GraphDifferentiator& owner, Op& op)
      : GradientBuilder(*owner.backward_, op.context), owner_(owner), op_(op) {}

  Tensor* output_gradient(int index) override {
    return owner_.gradient_of(op_.output(index), op_.context);
  }
  Tensor* forward(Tensor* tensor) override { return owner_.forward_value(tensor); }
  bool wants(int index) const override { return owner_.wants(op_.input(index)); }
  void set_input_gradient(int index, Tensor* gradient) override {
    if (gradient != nullptr && wants(index)) owner_.add_contribution(op_, index, gradient);
  }

 private:
  GraphDifferentiator& owner_;
  Op& op_;
};

GraphDifferentiator::GraphDifferentiator(Graph& forward, GradGraphInfos& infos,
                                         std::vector<Tensor*> provided,
                                         std::vector<Tensor*> required, bool lenient,
                                         Unreached unreached)
    : forward_(forward),
      infos_(infos),
      provided_(std::move(provided)),
      required_(std::move(required)),
      lenient_(lenient),
      unreached_(unreached),
      ops_(forward.ops()) {
  refuse_modifying_ops(forward_);
  for (const Op* site : call_sites(forward)) {
    if (!site->def().is_call) recompute_ = true;
    is_loop_body_ |= site->def().is_loop && site->def().differentiates_callees;
  }
  if (is_loop_body_ && lenient_) {
    // What counts iterations, and conditions, would only be carried on.
    provided_ = with_gradient_dtype(provided_);
    required_ = with_gradient_dtype(required_);
  }
  find_wanted();
  backward_ = &forward_.ir().create_graph_with_id(backward_graph_id(forward_));
  for (const Tensor* tensor : provided_) {
    const std::string id = backward_->unique_tensor_id(str_cat("Gradient___", tensor->name()));
    provided_inputs_.push_back(backward_->add_input(id, tensor->info));
    contributions_[tensor].push_back(provided_inputs_.back());
  }
}

Graph* GraphDifferentiator::advance() {
  for (; !ops_.empty(); ops_.pop_back()) {
    Op& op = *ops_.back();
    if (!is_on_path(op)) continue;
    if (Graph* callee = missing_callee(op)) return callee;
    differentiate(op);
  }
  if (unreached_ == Unreached::Error) check_reached();
  expose_intermediates();
  finish();
  return nullptr;
}

void GraphDifferentiator::check_reached() const {
  for (const Tensor* tensor : required_) {
    if (contributions_.contains(tensor)) continue;
    throw Error(
        str_cat("[Autodiff] Unable to provide required gradient output for fwd id '", tensor->id(),
                "' in bwd graph ", backward_->id(),
                ": no differentiable path leads from the provided gradients to it. Leave it "
                "out of grads_required"));
  }
}

void GraphDifferentiator::find_wanted() {
  wanted_.insert(required_.begin(), required_.end());
  for (const Op* op : forward_.ops()) {
    const bool differentiable = op->def().gradient != nullptr || op->def().gradient_is_error ||
                                op->def().differentiates_callees;
    const bool reached = std::any_of(op->inputs().begin(), op->inputs().end(),
                                     [&](const Tensor* t) { return wants(t); });
    if (differentiable && reached) wanted_.insert(op->outputs().begin(), op->outputs().end());
  }
}

/// Whether a gradient comes to `op` that its inputs need.
bool GraphDifferentiator::is_on_path(const Op& op) const {
  const bool has_gradient =
      std::any_of(op.outputs().begin(), op.outputs().end(),
                  [&](const Tensor* t) { return contributions_.contains(t); });
  return has_gradient && std::any_of(op.inputs().begin(), op.inputs().end(),
                                     [&](const Tensor* t) { return wants(t); });
}

/// A graph that `op` calls and that was not differentiated yet.
Graph* GraphDifferentiator::missing_callee(const Op& op) const {
  if (!op.def().differentiates_callees) return nullptr;
  for (Graph* callee : op.called_graphs) {
    if (infos_.contains(callee)) continue;
    if (callee->differentiable) return callee;
    throw Error(str_cat("The called graph ", callee->id(),
                        " has been marked as unsafe to autodiff; "
                        "supply its GradGraphInfo in called_graphs_grad_info: ",
                        describe(op)));
  }
  return nullptr;
}

/// The infos of what it calls are there.
void GraphDifferentiator::differentiate(Op& op) {
  if (op.def().is_call) return differentiate_call(op);
  if (op.kind() == OpKind::If) return differentiate_if(op);
  if (op.def().is_loop && op.def().differentiates_callees) {
    RuleBuilder builder(*this, op);
    return differentiate_loop(builder, op, infos_.at(op.called_graphs[0]));
  }
  if (op.def().gradient_is_error) {
    throw Error(str_cat(describe(op), ": this op has no gradient, but one is needed through it"));
  }
  if (!op.def().gradient) return;
  RuleBuilder builder(*this, op);
  op.def().gradient(builder, op);
}

/// The sum of the gradients of some outputs that are one tensor of the callee.
Tensor* GraphDifferentiator::output_gradients_or_zeros(const Op& op,
                                                       const std::vector<int>& outputs,
                                                       const TensorInfo& info) {
  std::vector<Tensor*> gradients;
  for (int output : outputs) {
    Tensor* gradient = gradient_of(op.output(output), op.context);
    if (gradient != nullptr) gradients.push_back(gradient);
  }
  if (gradients.size() == 1) return gradients.front();
  OpBuilder builder(*backward_, op.context);
  return gradients.empty() ? zeros(builder, info) : builder.make("Sum", gradients);
}

/// What the gradient graph of a callee expects, for a callee whose inputs are inputs
/// `first_input`.. of `op`.
std::vector<Tensor*> GraphDifferentiator::callee_arguments(const Op& op, const GradGraphInfo& info,
                                                           int first_input) {
  const Graph& callee = *info.forward_graph;
  const TensorIndices callee_inputs(callee.inputs()), callee_outputs(callee.outputs());
  const std::vector<std::vector<int>> outputs = outputs_of_gradients(info);
  std::vector<Tensor*> arguments;
  for (std::size_t i = 0; i < info.expected_inputs.size(); ++i) {
    const ExpectedConnection& connection = info.expected_inputs[i];
    if (connection.type == ConnectionType::FwdGrad) {
      arguments.push_back(
          output_gradients_or_zeros(op, outputs[i], connection.forward_tensor->info));
      continue;
    }
    const int output = callee_outputs.of(connection.forward_tensor);
    const int input = callee_inputs.of(connection.forward_tensor);
    internal_check(input >= 0 || output >= 0, "a called gradient graph wants a hidden tensor");
    arguments.push_back(
        forward_value(input >= 0 ? op.input(first_input + input) : op.output(output)));
  }
  return arguments;
}

void GraphDifferentiator::differentiate_call(Op& op) {
  const GradGraphInfo& info = infos_.at(op.called_graphs[0]);
  if (info.gradient_graph == nullptr) return;
  const TensorIndices inputs(info.forward_graph->inputs());
  Op& call = backward_->create_op(op.def(), callee_arguments(op, info, 0), {{"modified", Ints{}}},
                                  op.context, {info.gradient_graph},
                                  names_of(info.gradient_graph->outputs()));
  for (std::size_t i = 0; i < info.expected_outputs.size(); ++i) {
    const int input = inputs.of(info.expected_outputs[i].forward_tensor);
    if (input >= 0 && wants(op.input(input))) {
      add_contribution(op, input, call.output(static_cast<int>(i)));
    }
  }
}

/// One If that runs the gradient graph of the branch that was taken.
void GraphDifferentiator::differentiate_if(Op& op) {
  const int first_then = 1;
  const int first_else = 1 + static_cast<int>(op.attributes.integer("num_then_inputs"));
  const GradGraphInfo& then_info = infos_.at(op.called_graphs[0]);
  const GradGraphInfo& else_info = infos_.at(op.called_graphs[1]);
  std::vector<Tensor*> targets;
  std::vector<int> target_inputs;
  for (const auto& [info, first] : {std::pair(&then_info, first_then), {&else_info, first_else}}) {
    for (const ExpectedConnection& connection : info->expected_outputs) {
      const int input = index_in(info->forward_graph->inputs(), connection.forward_tensor);
      if (input < 0) continue;
      Tensor* target = op.input(first + input);
      if (!wants(target) || index_in(targets, target) >= 0) continue;
      targets.push_back(target);
      target_inputs.push_back(first + input);
    }
  }
  if (targets.empty()) return;
  std::vector<Tensor*> inputs = {forward_value(op.input(0))};
  const std::vector<Tensor*> then_arguments = callee_arguments(op, then_info, first_then);
  const std::vector<Tensor*> else_arguments = callee_arguments(op, else_info, first_else);
  inputs.insert(inputs.end(), then_arguments.begin(), then_arguments.end());
  inputs.insert(inputs.end(), else_arguments.begin(), else_arguments.end());
  Ir& ir = forward_.ir();
  Graph& then_gradients = branch_gradients(op, then_info, first_then, targets, ir);
  Graph& else_gradients = branch_gradients(op, else_info, first_else, targets, ir);
  const Op& branch = backward_->create_op(
      op.def(), inputs, {{"num_then_inputs", static_cast<std::int64_t>(then_arguments.size())}},
      op.context, {&then_gradients, &else_gradients}, {});
  for (std::size_t i = 0; i < targets.size(); ++i) {
    add_contribution(op, target_inputs[i], branch.output(static_cast<int>(i)));
  }
}

void GraphDifferentiator::add_contribution(const Op& op, int input, Tensor* gradient) {
  contributions_[op.input(input)].push_back(gradient);
}

Tensor* GraphDifferentiator::gradient_of(const Tensor* tensor, const OpContext& context) {
  const auto known = gradients_.find(tensor);
  if (known != gradients_.end()) return known->second;
  const auto it = contributions_.find(tensor);
  if (it == contributions_.end()) return nullptr;
  if (it->second.size() == 1 && index_in(provided_inputs_, it->second.front()) >= 0) {
    return gradients_[tensor] = it->second.front();
  }
  OpBuilder builder(*backward_, context);
  return gradients_[tensor] =
             builder.make("Sum", it->second, {}, str_cat("Gradient___", tensor->name()));
}

bool GraphDifferentiator::is_visible(const Tensor* tensor) const {
  return tensor->kind() == TensorKind::GraphInput || (tensor->is_graph_output() && !is_loop_body_);
}

Tensor* GraphDifferentiator::forward_value(Tensor* tensor) {
  if (recompute_ && !is_visible(tensor)) {
    if (!recomputed_.contains(tensor)) recompute(tensor);
    return recomputed_.at(tensor);
  }
  Tensor*& input = forward_inputs_[tensor];
  if (input == nullptr) {
    input = backward_->add_input(backward_->unique_tensor_id(tensor->name()), tensor->info);
  }
  return input;
}

/// With its own stack: tens of thousands of ops may depend on each other.
void GraphDifferentiator::recompute(Tensor* tensor) {
  std::vector<Tensor*> pending = {tensor};
  while (!pending.empty()) {
    Tensor* next = pending.back();
    if (recomputed_.contains(next)) {
      pending.pop_back();
      continue;
    }
    if (next->producer() == nullptr) {
      recomputed_[next] = backward_->add_constant(backward_->unique_tensor_id(next->name()),
                                                  next->info, next->data);
      continue;
    }
    const std::size_t before = pending.size();
    for (Tensor* input : next->producer()->inputs()) {
      if (input != nullptr && !is_visible(input) && !recomputed_.contains(input)) {
        pending.push_back(input);
      }
    }
    if (pending.size() == before) copy_producer(*next->producer());
  }
}

/// The values of the inputs are known.
void GraphDifferentiator::copy_producer(const Op& op) {
  std::vector<Tensor*> inputs;
  for (Tensor* input : op.inputs()) {
    inputs.push_back(input == nullptr ? nullptr : forward_value(input));
  }
  Op& copy =
      backward_->create_op(op.def(), inputs, op.attributes, op.context, op.called_graphs, {});
  for (int i = 0; i < op.num_outputs(); ++i) recomputed_[op.output(i)] = copy.output(i);
}

/// Forward tensors that the gradient reads must leave the forward graph, at every call site too.
void GraphDifferentiator::expose_intermediates() {
  std::vector<Tensor*> hidden;
  for (const auto& [tensor, input] : forward_inputs_) {
    if (!is_visible(tensor)) hidden.push_back(tensor);
  }
  std::sort(hidden.begin(), hidden.end(),
            [](const Tensor* a, const Tensor* b) { return a->id() < b->id(); });
  const std::vector<Op*> sites = call_sites(forward_);
  for (Tensor* tensor : hidden) {
    forward_.mark_output(tensor);
    for (Op* site : sites) {
      Graph& caller = site->graph();
      const std::string prefix = caller.is_main() ? "" : caller.id() + "/";
      site->add_output(str_cat(prefix, "autodiff_output__t", caller.ir().next_tensor_suffix()),
                       tensor->info);
    }
  }
}

/// The gradient of `tensor` is summed up on the device of the ops that it comes from.
OpContext GraphDifferentiator::context_of_gradient(const Tensor* tensor) const {
  const auto it = contributions_.find(tensor);
  if (it == contributions_.end()) return {};
  for (const Tensor* contribution : it->second) {
    if (contribution->producer() != nullptr) return contribution->producer()->context;
  }
  return {};
}

void GraphDifferentiator::finish() {
  GradGraphInfo info;
  info.forward_graph = &forward_;
  info.gradient_graph = backward_;
  for (Tensor* tensor : required_) {
    Tensor* gradient = gradient_of(tensor, context_of_gradient(tensor));
    if (gradient == nullptr) continue;
    backward_->mark_output(gradient);
    info.expected_outputs.push_back({tensor, ConnectionType::FwdGrad});
  }
  std::vector<Tensor*> order;
  for (std::size_t i = 0; i < provided_.size(); ++i) {
    Tensor* input = provided_inputs_[i];
    const bool used = !input->uses().empty() || input->is_graph_output();
    if (lenient_ && !used) {
      backward_->erase_tensor(*input);
      continue;
    }
    order.push_back(input);
    info.expected_inputs.push_back({provided_[i], ConnectionType::FwdGrad});
  }
  std::vector<std::pair<Tensor*, Tensor*>> connections(forward_inputs_.begin(),
                                                       forward_inputs_.end());
  std::sort(connections.begin(), connections.end(),
            [](const auto& a, const auto& b) { return a.first->id() < b.first->id(); });
  for (const auto& [forward_tensor, input] : connections) {
    order.push_back(input);
    info.expected_inputs.push_back({forward_tensor, ConnectionType::Fwd});
  }
  backward_->set_input_order(std::move(order));
  if (lenient_ && info.expected_outputs.empty()) {
    // Nothing to give: callers stop their gradient paths here.
    forward_.ir().erase_graph(*backward_);
    info = {};
    info.forward_graph = &forward_;
  }
  infos_[&forward_] = std::move(info);
}

/// Differentiates `graph` and what it calls. Calls may be thousands deep: those that wait for a
/// callee are in a list.
void differentiate(Graph& graph, GradGraphInfos& infos, const std::vector<Tensor*>& provided,
                   const std::vector<Tensor*>& required, Unreached unreached) {
  std::vector<std::unique_ptr<GraphDifferentiator>> open;
  const auto start = [&](Graph& forward, const auto&... how) {
    open.push_back(std::make_unique<GraphDifferentiator>(forward, infos, how...));
  };
  try {
    start(graph, provided, required, false, unreached);
    while (!open.empty()) {
      Graph* callee = open.back()->advance();
      if (callee != nullptr) {
        start(*callee, callee->outputs(), callee->inputs(), true, Unreached::LeftOut);
      } else {
        open.pop_back();
      }
    }
  } catch (...) {
    for (const auto& differentiator : open) differentiator->abandon();
    throw;
  }
}

void check_tensors(const Graph& graph, const std::vector<Tensor*>& tensors, const char* what) {
  if (tensors.empty()) {
    throw Error(str_cat("[Autodiff] ", what, " is a defined but empty vector"));
  }
  for (const Tensor* tensor : tensors) {
    if (&tensor->graph() == &graph) continue;
    throw Error(str_cat("[Autodiff] the tensor '", tensor->id(), "' in ", what,
                        " is not in the graph ", graph.id()));
  }
}

}  // namespace

GradGraphInfos autodiff(Graph& graph, const std::optional<std::vector<Tensor*>>& grads_provided,
                        const std::optional<std::vector<Tensor*>>& grads_required,
                        const GradGraphInfos& called_graphs_info, Unreached unreached) {
  const std::vector<Tensor*> provided = grads_provided.value_or(graph.outputs());
  const std::vector<Tensor*> required = grads_required.value_or(graph.inputs());
  check_tensors(graph, provided, "grads_provided");
  check_tensors(graph, required, "grads_required");
  GradGraphInfos infos = called_graphs_info;
  infos.erase(&graph);
  differentiate(graph, infos, provided, required, unreached);
  std::erase_if(infos, [](const auto& entry) { return entry.second.gradient_graph == nullptr; });
  return infos;
}

}  // namespace pando
