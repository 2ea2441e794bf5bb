#include "pando/transforms/autodiff.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "pando/base/error.hpp"
#include "pando/transforms/graph_calls.hpp"

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

template <class T>
int index_in(const std::vector<T>& values, const Tensor* tensor) {
  const auto it = std::find(values.begin(), values.end(), tensor);
  return it == values.end() ? -1 : static_cast<int>(it - values.begin());
}

/// Ops that run graphs and whose gradient runs the gradient graphs of these.
bool passes_gradients(const Op& op) { return op.kind() == "Call" || op.kind() == "If"; }

Tensor* zeros(OpBuilder& builder, const TensorInfo& info) {
  return builder.make(
      "Init", {},
      {{"shape", info.shape}, {"dtype", info.dtype}, {"init_type", std::string("zero")}});
}

void refuse_modifying_ops(const Graph& graph) {
  for (const Op* op : graph.ops()) {
    if (!op->modifies()) continue;
    throw Error(str_cat("The graph ", graph.id(),
                        " contains a modifying op and cannot be "
                        "differentiated: ",
                        describe(*op),
                        ". Use the out-of-place op, or pass values instead of references"));
  }
}

/// Differentiates one graph. Lenient: takes the input gradients that exist and drops provided
/// gradients that nothing uses (called graphs).
class GraphDifferentiator {
 public:
  GraphDifferentiator(Graph& forward, GradGraphInfos& infos) : forward_(forward), infos_(infos) {
    for (const Op* site : call_sites(forward)) {
      if (site->kind() != "Call") recompute_ = true;
    }
  }

  void run(const std::vector<Tensor*>& provided, const std::vector<Tensor*>& required,
           bool lenient);

 private:
  class RuleBuilder;

  void build(const std::vector<Tensor*>& provided, const std::vector<Tensor*>& required,
             bool lenient);
  void check_reached(const std::vector<Tensor*>& required) const;
  void find_wanted(const std::vector<Tensor*>& required);
  bool wants(const Tensor* tensor) const { return tensor != nullptr && wanted_.contains(tensor); }
  void differentiate(Op& op);
  void differentiate_call(Op& op);
  void differentiate_if(Op& op);
  const GradGraphInfo& callee_info(const Op& op, Graph& callee);
  Tensor* output_gradient_or_zeros(const Op& op, int output);
  std::vector<Tensor*> callee_arguments(const Op& op, const GradGraphInfo& info, int first_input);
  Tensor* gradient_of(const Tensor* forward_tensor, const OpContext& context);
  OpContext context_of_gradient(const Tensor* tensor) const;
  Tensor* forward_value(Tensor* tensor);
  Tensor* recomputed(Tensor* tensor);
  void add_contribution(const Op& op, int input, Tensor* gradient);
  void expose_intermediates();
  void finish(const std::vector<Tensor*>& provided, const std::vector<Tensor*>& required,
              bool lenient);

  Graph& forward_;
  GradGraphInfos& infos_;
  Graph* backward_ = nullptr;
  bool recompute_ = false;
  std::unordered_set<const Tensor*> wanted_;
  std::unordered_map<const Tensor*, std::vector<Tensor*>> contributions_;
  std::unordered_map<const Tensor*, Tensor*> gradients_;  // summed
  std::unordered_map<const Tensor*, Tensor*> provided_inputs_;
  std::unordered_map<Tensor*, Tensor*> forward_inputs_;  // forward tensor -> backward input
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

void GraphDifferentiator::run(const std::vector<Tensor*>& provided,
                              const std::vector<Tensor*>& required, bool lenient) {
  refuse_modifying_ops(forward_);
  backward_ = &forward_.ir().create_graph_with_id(backward_graph_id(forward_));
  try {
    build(provided, required, lenient);
  } catch (...) {
    forward_.ir().erase_graph(*backward_);
    throw;
  }
}

void GraphDifferentiator::build(const std::vector<Tensor*>& provided,
                                const std::vector<Tensor*>& required, bool lenient) {
  for (Tensor* tensor : provided) {
    const std::string id = backward_->unique_tensor_id("Gradient___" + tensor->name());
    Tensor* input = backward_->add_input(id, tensor->info);
    provided_inputs_[tensor] = input;
    contributions_[tensor].push_back(input);
  }
  find_wanted(required);
  const std::vector<Op*> ops = forward_.ops();
  for (auto it = ops.rbegin(); it != ops.rend(); ++it) differentiate(**it);
  if (!lenient) check_reached(required);
  expose_intermediates();
  finish(provided, required, lenient);
}

void GraphDifferentiator::check_reached(const std::vector<Tensor*>& required) const {
  for (const Tensor* tensor : required) {
    if (contributions_.contains(tensor)) continue;
    throw Error(
        str_cat("[Autodiff] Unable to provide required gradient output for fwd id '", tensor->id(),
                "' in bwd graph ", backward_->id(),
                ": no differentiable path leads from the provided gradients to it. Leave it "
                "out of grads_required"));
  }
}

void GraphDifferentiator::find_wanted(const std::vector<Tensor*>& required) {
  wanted_.insert(required.begin(), required.end());
  for (const Op* op : forward_.ops()) {
    const bool differentiable =
        op->def().gradient != nullptr || op->def().gradient_is_error || passes_gradients(*op);
    const bool reached = std::any_of(op->inputs().begin(), op->inputs().end(),
                                     [&](const Tensor* t) { return wants(t); });
    if (differentiable && reached) wanted_.insert(op->outputs().begin(), op->outputs().end());
  }
}

void GraphDifferentiator::differentiate(Op& op) {
  const bool has_gradient =
      std::any_of(op.outputs().begin(), op.outputs().end(),
                  [&](const Tensor* t) { return contributions_.contains(t); });
  const bool needed = std::any_of(op.inputs().begin(), op.inputs().end(),
                                  [&](const Tensor* t) { return wants(t); });
  if (!has_gradient || !needed) return;
  if (op.kind() == "Call") return differentiate_call(op);
  if (op.kind() == "If") return differentiate_if(op);
  if (op.def().gradient_is_error) {
    throw Error(str_cat(describe(op), ": this op has no gradient, but one is needed through it"));
  }
  if (!op.def().gradient) return;
  RuleBuilder builder(*this, op);
  op.def().gradient(builder, op);
}

/// The info of a called graph, which is differentiated if it was not yet.
const GradGraphInfo& GraphDifferentiator::callee_info(const Op& op, Graph& callee) {
  if (!infos_.contains(&callee)) {
    if (!callee.differentiable) {
      throw Error(str_cat("The called graph ", callee.id(),
                          " has been marked as unsafe to autodiff; "
                          "supply its GradGraphInfo in called_graphs_grad_info: ",
                          describe(op)));
    }
    const std::vector<Tensor*> outputs = callee.outputs();
    const std::vector<Tensor*> inputs = callee.inputs();
    GraphDifferentiator(callee, infos_).run(outputs, inputs, true);
  }
  return infos_.at(&callee);
}

Tensor* GraphDifferentiator::output_gradient_or_zeros(const Op& op, int output) {
  Tensor* gradient = gradient_of(op.output(output), op.context);
  if (gradient != nullptr) return gradient;
  OpBuilder builder(*backward_, op.context);
  return zeros(builder, op.output(output)->info);
}

/// What the gradient graph of a callee expects, for a callee whose inputs are inputs
/// `first_input`.. of `op`.
std::vector<Tensor*> GraphDifferentiator::callee_arguments(const Op& op, const GradGraphInfo& info,
                                                           int first_input) {
  const Graph& callee = *info.forward_graph;
  std::vector<Tensor*> arguments;
  for (const ExpectedConnection& connection : info.expected_inputs) {
    const int output = index_in(callee.outputs(), connection.forward_tensor);
    if (connection.type == ConnectionType::FwdGrad) {
      internal_check(output >= 0, "a called gradient graph wants the gradient of a non-output");
      arguments.push_back(output_gradient_or_zeros(op, output));
      continue;
    }
    const int input = index_in(callee.inputs(), connection.forward_tensor);
    internal_check(input >= 0 || output >= 0, "a called gradient graph wants a hidden tensor");
    arguments.push_back(
        forward_value(input >= 0 ? op.input(first_input + input) : op.output(output)));
  }
  return arguments;
}

void GraphDifferentiator::differentiate_call(Op& op) {
  const GradGraphInfo& info = callee_info(op, *op.called_graphs[0]);
  if (info.gradient_graph == nullptr) return;
  const Graph& callee = *info.forward_graph;
  Op& call = backward_->create_op(op.def(), callee_arguments(op, info, 0), {{"modified", Ints{}}},
                                  op.context, {info.gradient_graph},
                                  names_of(info.gradient_graph->outputs()));
  for (std::size_t i = 0; i < info.expected_outputs.size(); ++i) {
    const int input = index_in(callee.inputs(), info.expected_outputs[i].forward_tensor);
    if (input >= 0 && wants(op.input(input))) {
      add_contribution(op, input, call.output(static_cast<int>(i)));
    }
  }
}

/// A graph with the inputs of the gradient graph of `info` (none if there is none), which gives
/// the gradient of each tensor of `targets`: the branch has them as inputs `first_input`.. of `op`.
/// A tensor that the branch does not use gets zeros, one that it uses twice the sum.
Graph& branch_gradients(const Op& op, const GradGraphInfo& info, int first_input,
                        const std::vector<Tensor*>& targets, Ir& ir) {
  Graph& graph = ir.create_graph(info.forward_graph->id() + "_bwd_branch");
  OpBuilder builder(graph, op.context);
  std::map<Tensor*, std::vector<Tensor*>> found;
  if (info.gradient_graph != nullptr) {
    std::vector<Tensor*> inputs;
    for (const Tensor* input : info.gradient_graph->inputs()) {
      inputs.push_back(graph.add_input(graph.unique_tensor_id(input->name()), input->info));
    }
    const Op& call = graph.create_op(Registry::instance().get("Call"), inputs,
                                     {{"modified", Ints{}}}, op.context, {info.gradient_graph},
                                     names_of(info.gradient_graph->outputs()));
    for (std::size_t i = 0; i < info.expected_outputs.size(); ++i) {
      const int input =
          index_in(info.forward_graph->inputs(), info.expected_outputs[i].forward_tensor);
      if (input < 0) continue;
      found[op.input(first_input + input)].push_back(call.output(static_cast<int>(i)));
    }
  }
  for (Tensor* target : targets) {
    const std::vector<Tensor*>& parts = found[target];
    if (parts.empty()) {
      graph.mark_output(zeros(builder, target->info));
    } else {
      graph.mark_output(builder.make("Sum", parts));
    }
  }
  return graph;
}

/// One If that runs the gradient graph of the branch that was taken.
void GraphDifferentiator::differentiate_if(Op& op) {
  Graph& then_graph = *op.called_graphs[0];
  Graph& else_graph = *op.called_graphs[1];
  const int first_then = 1;
  const int first_else = 1 + static_cast<int>(op.attributes.integer("num_then_inputs"));
  const GradGraphInfo then_info = callee_info(op, then_graph);
  const GradGraphInfo else_info = callee_info(op, else_graph);
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
  const auto given = provided_inputs_.find(tensor);
  if (given != provided_inputs_.end() && it->second.size() == 1) {
    return gradients_[tensor] = given->second;
  }
  OpBuilder builder(*backward_, context);
  return gradients_[tensor] = builder.make("Sum", it->second, {}, "Gradient___" + tensor->name());
}

Tensor* GraphDifferentiator::forward_value(Tensor* tensor) {
  const bool visible =
      index_in(forward_.inputs(), tensor) >= 0 || index_in(forward_.outputs(), tensor) >= 0;
  if (recompute_ && !visible) return recomputed(tensor);
  Tensor*& input = forward_inputs_[tensor];
  if (input == nullptr) {
    input = backward_->add_input(backward_->unique_tensor_id(tensor->name()), tensor->info);
  }
  return input;
}

Tensor* GraphDifferentiator::recomputed(Tensor* tensor) {
  const auto known = recomputed_.find(tensor);
  if (known != recomputed_.end()) return known->second;
  if (tensor->producer() == nullptr) {
    return recomputed_[tensor] = backward_->add_constant(
               backward_->unique_tensor_id(tensor->name()), tensor->info, tensor->data);
  }
  const Op& op = *tensor->producer();
  std::vector<Tensor*> inputs;
  for (Tensor* input : op.inputs()) {
    inputs.push_back(input == nullptr ? nullptr : forward_value(input));
  }
  Op& copy =
      backward_->create_op(op.def(), inputs, op.attributes, op.context, op.called_graphs, {});
  for (int i = 0; i < op.num_outputs(); ++i) recomputed_[op.output(i)] = copy.output(i);
  return recomputed_.at(tensor);
}

/// Forward tensors that the gradient reads must leave the forward graph, at every call site too.
void GraphDifferentiator::expose_intermediates() {
  std::vector<Tensor*> hidden;
  for (const auto& [tensor, input] : forward_inputs_) {
    if (index_in(forward_.inputs(), tensor) < 0 && index_in(forward_.outputs(), tensor) < 0) {
      hidden.push_back(tensor);
    }
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

/// Of the ops that the gradient of `tensor` comes from: it is summed up on their device.
OpContext GraphDifferentiator::context_of_gradient(const Tensor* tensor) const {
  const auto it = contributions_.find(tensor);
  if (it == contributions_.end()) return {};
  for (const Tensor* contribution : it->second) {
    if (contribution->producer() != nullptr) return contribution->producer()->context;
  }
  return {};
}

void GraphDifferentiator::finish(const std::vector<Tensor*>& provided,
                                 const std::vector<Tensor*>& required, bool lenient) {
  GradGraphInfo info;
  info.forward_graph = &forward_;
  info.gradient_graph = backward_;
  for (Tensor* tensor : required) {
    Tensor* gradient = gradient_of(tensor, context_of_gradient(tensor));
    if (gradient == nullptr) continue;
    backward_->mark_output(gradient);
    info.expected_outputs.push_back({tensor, ConnectionType::FwdGrad});
  }
  std::vector<Tensor*> order;
  for (Tensor* tensor : provided) {
    Tensor* input = provided_inputs_.at(tensor);
    const bool used = !input->uses().empty() || index_in(backward_->outputs(), input) >= 0;
    if (lenient && !used) {
      backward_->remove_input(index_in(backward_->inputs(), input));
      continue;
    }
    order.push_back(input);
    info.expected_inputs.push_back({tensor, ConnectionType::FwdGrad});
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
  if (lenient && info.expected_outputs.empty()) {
    // Nothing to give: callers stop their gradient paths here.
    forward_.ir().erase_graph(*backward_);
    info = {};
    info.forward_graph = &forward_;
  }
  infos_[&forward_] = std::move(info);
}

void check_tensors(const Graph& graph, const std::vector<Tensor*>& tensors, const char* what) {
  if (tensors.empty()) {
    throw Error(str_cat("[Autodiff] ", what, " is a defined but empty vector"));
  }
  for (const Tensor* tensor : tensors) {
    if (graph.contains(*tensor)) continue;
    throw Error(str_cat("[Autodiff] the tensor '", tensor->id(), "' in ", what,
                        " is not in the graph ", graph.id()));
  }
}

}  // namespace

GradGraphInfos autodiff(Graph& graph, const std::optional<std::vector<Tensor*>>& grads_provided,
                        const std::optional<std::vector<Tensor*>>& grads_required,
                        const GradGraphInfos& called_graphs_info) {
  const std::vector<Tensor*> provided = grads_provided.value_or(graph.outputs());
  const std::vector<Tensor*> required = grads_required.value_or(graph.inputs());
  check_tensors(graph, provided, "grads_provided");
  check_tensors(graph, required, "grads_required");
  GradGraphInfos infos = called_graphs_info;
  infos.erase(&graph);
  GraphDifferentiator(graph, infos).run(provided, required, false);
  std::erase_if(infos, [](const auto& entry) { return entry.second.gradient_graph == nullptr; });
  return infos;
}

}  // namespace pando
