#include "pando/ir/verifier.hpp"

#include <algorithm>
#include <unordered_set>

#include "pando/base/error.hpp"
#include "pando/ir/call_order.hpp"
#include "pando/ir/numbered_map.hpp"

namespace pando {
namespace {

bool has_type(const AttributeValue& value, AttributeType type) {
  switch (type) {
    case AttributeType::Flag:
      return std::holds_alternative<bool>(value);
    case AttributeType::Integer:
      return std::holds_alternative<std::int64_t>(value);
    case AttributeType::Number:
      return std::holds_alternative<double>(value);
    case AttributeType::Text:
      return std::holds_alternative<std::string>(value);
    case AttributeType::DTypeName:
      return std::holds_alternative<DType>(value);
    case AttributeType::IntList:
      return std::holds_alternative<Ints>(value);
    case AttributeType::NumberList:
      return std::holds_alternative<Floats>(value);
    case AttributeType::TextList:
      return std::holds_alternative<Texts>(value);
  }
  return false;
}

std::string attribute_fault(const Op& op) {
  const std::vector<AttributeSpec>& specs = op.def().attributes;
  for (const AttributeSpec& spec : specs) {
    const AttributeValue* value = op.attributes.find(spec.name);
    if (value == nullptr) {
      if (spec.required) return str_cat("attribute '", spec.name, "' is missing");
    } else if (!has_type(*value, spec.type)) {
      return str_cat("attribute '", spec.name, "' has the wrong type: ", attribute_text(*value));
    }
  }
  for (const auto& [name, value] : op.attributes) {
    const bool known = std::any_of(specs.begin(), specs.end(), [&, &name = name](const auto& spec) {
      return spec.name == name;
    });
    if (!known) return str_cat("there is no attribute '", name, "'");
  }
  return "";
}

std::string count_fault(const Op& op) {
  const OpDef& def = op.def();
  if (op.num_inputs() < def.min_inputs ||
      (def.max_inputs >= 0 && op.num_inputs() > def.max_inputs)) {
    return str_cat("wanted ", def.min_inputs, " to ",
                   def.max_inputs < 0 ? std::string("any number of") : str_cat(def.max_inputs),
                   " inputs, given ", op.num_inputs());
  }
  return called_graphs_fault(op);
}

/// The compiler disconnects the Init that only tells a load its shape.
bool is_load_without_init(const Op& op) {
  return op.def().ignores_value && op.num_inputs() > 0 && op.input(0) == nullptr;
}

std::string infer_fault(const Op& op) {
  if (is_load_without_init(op)) return op.num_outputs() == 1 ? "" : "wanted 1 output";
  std::vector<TensorInfo> infos;
  try {
    infos = op.def().infer(op);
  } catch (const std::exception& error) {
    return error.what();
  }
  if (infos.size() != op.outputs().size()) {
    return str_cat("wanted ", infos.size(), " outputs, given ", op.num_outputs());
  }
  for (int i = 0; i < op.num_outputs(); ++i) {
    if (op.output(i) == nullptr) return str_cat("output ", i, " is not connected");
    const TensorInfo& wanted = infos[static_cast<std::size_t>(i)];
    const TensorInfo& given = op.output(i)->info;
    if (wanted.dtype == given.dtype && wanted.shape == given.shape) continue;
    return str_cat("output ", i, " '", op.output(i)->id(), "': wanted ", info_text(wanted),
                   ", given ", info_text(given));
  }
  return "";
}

std::string access_fault(const Op& op) {
  for (int index : op.modified_inputs()) {
    if (op.input(index) == nullptr) {
      return str_cat("modified input ", index, " is not connected");
    }
  }
  for (int i = 0; op.def().output_alias && i < op.num_outputs(); ++i) {
    const int alias = op.def().output_alias(op, i);
    if (alias >= 0 && op.input(alias) == nullptr) {
      return str_cat("output ", i, " is an alias of input ", alias, ", which is not connected");
    }
  }
  return "";
}

std::string resource_fault(const Op& op) {
  const Ir& ir = op.graph().ir();
  if (op.attributes.has("stream") && ir.find_stream(op.attributes.text("stream")) == nullptr) {
    return str_cat("there is no stream '", op.attributes.text("stream"), "'");
  }
  if (op.attributes.has("buffer")) {
    const auto& buffers = ir.remote_buffers();
    const std::int64_t id = op.attributes.integer("buffer");
    const bool found = std::any_of(buffers.begin(), buffers.end(),
                                   [&](const auto& buffer) { return buffer->id == id; });
    if (!found) return str_cat("there is no remote buffer ", id);
  }
  return "";
}

/// Whether the host data is whole entries of `tensor`, as many as its settings say. One per
/// replica: any number, since the number of replicas may change until the session compares the two.
bool has_data_of_its_size(const Tensor& tensor) {
  const std::size_t entry = tensor.info.bytes();
  if (tensor.settings().entry_per_replica && entry != 0) return tensor.data->bytes % entry == 0;
  return tensor.data->bytes == static_cast<std::size_t>(tensor.settings().num_groups()) * entry;
}

class Verifier {
 public:
  Verifier(const Ir& ir, const std::string& stage) : ir_(ir), stage_(stage) {}

  void run() {
    for (const Graph* graph : ir_.graphs()) {
      if (!graph_ids_.insert(graph->id()).second) fail(str_cat("two graphs '", graph->id(), "'"));
      graphs_.insert(graph);
    }
    for (const Graph* graph : ir_.graphs()) check_graph(*graph);
    const std::vector<const Graph*> circle = find_recursion(ir_);
    if (circle.empty()) return;
    fail(str_cat("graph '", circle.front()->id(), "' calls itself: ", call_chain_text(circle)));
  }

 private:
  [[noreturn]] void fail(const std::string& rule) const {
    throw InternalError(stage_.empty() ? rule : str_cat("after ", stage_, ": ", rule));
  }
  [[noreturn]] void fail(const Op& op, const std::string& rule) const {
    fail(str_cat(describe(op), ": ", rule));
  }

  void check_tensor(const Graph& graph, const Tensor& tensor) {
    if (!tensor_ids_.insert(tensor.id()).second) fail(str_cat("two tensors '", tensor.id(), "'"));
    for (const Use& use : tensor.uses()) {
      if (use.op == nullptr || !ops_.contains(use.op) || use.op->input(use.index) != &tensor) {
        fail(str_cat("tensor '", tensor.id(), "' lists a use that does not exist"));
      }
    }
    const bool made = tensor.kind() == TensorKind::Activation;
    if (made != (tensor.producer() != nullptr)) {
      fail(str_cat("tensor '", tensor.id(), "': exactly activations have a producer"));
    }
    if (made && !ops_.contains(tensor.producer())) {
      fail(str_cat("the producer of tensor '", tensor.id(), "' is not in its graph"));
    }
    if (tensor.data != nullptr && !has_data_of_its_size(tensor)) {
      fail(str_cat("tensor '", tensor.id(), "' ", info_text(tensor.info), " has ",
                   tensor.data->bytes, " bytes of host data"));
    }
    if (tensor.kind() == TensorKind::Variable && !graph.is_main()) {
      fail(str_cat("variable '", tensor.id(), "' is not in the main graph"));
    }
  }

  void check_op(const Graph& graph, const Op& op) {
    if (&op.graph() != &graph) fail(op, "the op is listed by another graph");
    if (!op_ids_.insert(op.id()).second) fail(op, "two ops have this id");
    for (int i = 0; i < op.num_inputs(); ++i) {
      const Tensor* input = op.input(i);
      if (input == nullptr) continue;
      if (&input->graph() != &graph) fail(op, str_cat("input ", i, " belongs to another graph"));
      if (input->producer() != nullptr && !made_.contains(input->producer())) {
        fail(op, str_cat("input ", i, " '", input->id(), "' is used before it is made"));
      }
      ++connected_[input];
    }
    for (int i = 0; i < op.num_outputs(); ++i) {
      if (op.output(i) == nullptr) fail(op, str_cat("output ", i, " is not connected"));
      const Tensor& output = *op.output(i);
      if (output.producer() != &op || output.producer_index() != i) {
        fail(op, str_cat("output ", i, " '", output.id(), "' names another producer"));
      }
    }
    for (const Op* earlier : op.after()) {
      if (!ops_.contains(earlier)) fail(op, "an op in `after` is not in the graph");
    }
    for (const Graph* callee : op.called_graphs) {
      if (!graphs_.contains(callee)) fail(op, "a called graph does not belong to the Ir");
    }
    const std::string fault = op_fault(op);
    if (!fault.empty()) fail(fault);
    made_.insert(&op);
  }

  /// With check_tensor, which looks at each: all uses are listed.
  void check_use_counts(const Graph& graph) {
    for (const Tensor* tensor : graph.tensors().all()) {
      if (tensor->uses().size() == connected_.at(tensor)) continue;
      fail(str_cat("tensor '", tensor->id(), "' lists ", tensor->uses().size(),
                   " uses; it is connected to ", connected_.at(tensor), " inputs"));
    }
  }

  void check_graph(const Graph& graph) {
    made_.clear();
    ops_ = std::unordered_set<const Op*>(graph.ops().begin(), graph.ops().end());
    for (const Tensor* tensor : graph.tensors().all()) check_tensor(graph, *tensor);
    for (const Tensor* input : graph.inputs()) {
      if (&input->graph() != &graph || input->kind() != TensorKind::GraphInput) {
        fail(str_cat("input '", input->id(), "' of graph '", graph.id(), "' is no input tensor"));
      }
    }
    connected_ = TensorMap<std::size_t>();
    for (const Op* op : graph.ops()) check_op(graph, *op);
    check_use_counts(graph);
    for (const Tensor* output : graph.outputs()) {
      if (&output->graph() != &graph) {
        fail(str_cat("output '", output->id(), "' belongs to another graph than '", graph.id(),
                     "'"));
      }
    }
  }

  const Ir& ir_;
  const std::string& stage_;
  std::unordered_set<std::string> graph_ids_;
  std::unordered_set<std::string> tensor_ids_;
  std::unordered_set<std::int64_t> op_ids_;
  std::unordered_set<const Graph*> graphs_;
  std::unordered_set<const Op*> ops_;   // of the graph being checked
  std::unordered_set<const Op*> made_;  // those checked already
  TensorMap<std::size_t> connected_;    // inputs of the ops checked already
};

}  // namespace

std::string op_fault(const Op& op) {
  for (const auto check :
       {attribute_fault, count_fault, infer_fault, access_fault, resource_fault}) {
    const std::string fault = check(op);
    if (!fault.empty()) return str_cat(describe(op), ": ", fault);
  }
  return "";
}

void verify(const Ir& ir, const std::string& stage) { Verifier(ir, stage).run(); }

}  // namespace pando
