#include "pando/ir/dot.hpp"

#include <unordered_set>

#include "pando/base/error.hpp"

namespace pando {
namespace {

/// A DOT string: quotes and backslashes escaped; line breaks as `\n`.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return result + '"';
}

std::string op_node(const Op& op) { return str_cat("op", op.id()); }
std::string tensor_node(const Tensor& tensor) { return quoted("t:" + tensor.id()); }

class Drawing {
 public:
  explicit Drawing(const DotOptions& options) : options_(options) {}

  void add(const Graph& graph, const std::string& indent) {
    const auto& ops = graph.ops();
    const std::size_t end = std::min(options_.final_op, ops.size());
    std::unordered_set<const Op*> shown;
    for (std::size_t i = options_.first_op; i < end; ++i) shown.insert(ops[i]);
    for (const Tensor* input : graph.inputs()) add_tensor(*input, indent);
    for (std::size_t i = options_.first_op; i < end; ++i) add_op(*ops[i], shown, indent);
    for (std::size_t k = 0; k < graph.outputs().size(); ++k) {
      const Tensor& output = *graph.outputs()[k];
      const bool hidden = output.producer() != nullptr && !shown.contains(output.producer());
      if (hidden) continue;
      const std::string node = quoted(str_cat("out:", graph.id(), ":", k));
      text_ +=
          str_cat(indent, node, " [shape=ellipse, label=", quoted(str_cat("output ", k)), "];\n");
      add_edge(output, node, indent);
    }
  }

  void add_calls(const Graph& graph) {
    for (std::size_t i = options_.first_op; i < std::min(options_.final_op, graph.ops().size());
         ++i) {
      const Op& op = *graph.ops()[i];
      for (const Graph* callee : op.called_graphs) {
        if (callee->ops().size() <= options_.first_op) continue;
        const Op& target = *callee->ops()[options_.first_op];
        text_ += str_cat("  ", op_node(op), " -> ", op_node(target), " [style=dashed];\n");
      }
    }
  }

  std::string& text() { return text_; }

 private:
  void add_tensor(const Tensor& tensor, const std::string& indent) {
    if (!drawn_.insert(&tensor).second) return;
    text_ += str_cat(indent, tensor_node(tensor), " [shape=ellipse, label=",
                     quoted(str_cat(tensor.name(), "\n", info_text(tensor.info))), "];\n");
  }

  void add_edge(const Tensor& tensor, const std::string& target, const std::string& indent) {
    if (tensor.producer() == nullptr) {
      add_tensor(tensor, indent);
      text_ += str_cat(indent, tensor_node(tensor), " -> ", target, ";\n");
    } else {
      text_ +=
          str_cat(indent, op_node(*tensor.producer()), " -> ", target,
                  " [label=", quoted(str_cat(tensor.name(), "\n", info_text(tensor.info))), "];\n");
    }
  }

  void add_op(const Op& op, const std::unordered_set<const Op*>& shown, const std::string& indent) {
    std::string label = str_cat(op.kind_name(), ".", op.id());
    if (!op.context.name.empty()) label += str_cat("\n", op.context.name);
    text_ += str_cat(indent, op_node(op), " [shape=box, label=", quoted(label), "];\n");
    for (const Tensor* input : op.inputs()) {
      if (input == nullptr) continue;
      if (input->producer() != nullptr && !shown.contains(input->producer())) continue;
      add_edge(*input, op_node(op), indent);
    }
  }

  const DotOptions& options_;
  std::string text_ = "digraph net {\n";
  std::unordered_set<const Tensor*> drawn_;
};

}  // namespace

std::string dot_text(const Graph& graph, const DotOptions& options) {
  Drawing drawing(options);
  drawing.add(graph, "  ");
  return drawing.text() + "}\n";
}

std::string dot_text(const Ir& ir, const DotOptions& options) {
  Drawing drawing(options);
  int cluster = 0;
  for (const Graph* graph : ir.graphs()) {
    drawing.text() +=
        str_cat("  subgraph cluster_", cluster++,
                " {\n    label=", quoted(graph->is_main() ? "main" : graph->id()), ";\n");
    drawing.add(*graph, "    ");
    drawing.text() += "  }\n";
  }
  for (const Graph* graph : ir.graphs()) drawing.add_calls(*graph);
  return drawing.text() + "}\n";
}

}  // namespace pando
