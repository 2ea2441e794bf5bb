#include "pando/ir/schedule_text.hpp"

#include <unordered_map>

#include "pando/base/error.hpp"

namespace pando {
namespace {

class Names {
 public:
  std::string of(const Tensor* tensor) {
    return str_cat("%", numbers_.try_emplace(tensor, numbers_.size() + 1).first->second);
  }

  /// `(%1 [(2, 2) float32], ...)`; inputs that are not connected are left out.
  std::string list(const std::vector<Tensor*>& tensors) {
    std::string text;
    for (const Tensor* tensor : tensors) {
      if (tensor == nullptr) continue;
      if (!text.empty()) text += ", ";
      text += str_cat(of(tensor), " [", info_text(tensor->info), "]");
    }
    return "(" + text + ")";
  }

 private:
  std::unordered_map<const Tensor*, std::size_t> numbers_;
};

}  // namespace

std::string schedule_text(const Graph& graph,
                          const std::map<const Tensor*, std::string>& named_args) {
  Names names;
  std::string inputs;
  for (const Tensor* input : graph.inputs()) {
    if (!inputs.empty()) inputs += ", ";
    const auto named = named_args.find(input);
    if (named != named_args.end()) inputs += named->second + "=";
    inputs += names.of(input);
  }
  std::string body;
  for (const Op* op : graph.ops()) {
    body += str_cat("    ", op->kind_name(), ".", op->id());
    if (op->called_graphs.size() == 1) body += str_cat("(", op->called_graphs[0]->id(), ")");
    const std::string ins = names.list(op->inputs());
    body += str_cat(" ", ins, " -> ", names.list(op->outputs()), "\n");
  }
  std::string outputs;
  for (const Tensor* output : graph.outputs()) {
    if (!outputs.empty()) outputs += ", ";
    outputs += names.of(output);
  }
  return str_cat("Graph : ", graph.id(), "\n  (", inputs, ") -> (", outputs, ") {\n", body, "  }");
}

}  // namespace pando
