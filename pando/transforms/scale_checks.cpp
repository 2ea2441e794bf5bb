#include "pando/transforms/scale_checks.hpp"

#include <cstring>

namespace pando {
namespace {

constexpr std::int64_t kLowest = -32;
constexpr std::int64_t kEnd = 32;

/// The input that holds the log2 scale of `op`; -1 for none.
int scale_input(const Op& op) {
  const int index = op.def().log2_scale_input;
  return index >= 0 && op.input(index) != nullptr ? index : -1;
}

bool is_known_to_fit(const Tensor& scale) {
  if (scale.kind() != TensorKind::Constant || scale.data == nullptr) return false;
  std::int32_t value = 0;
  std::memcpy(&value, scale.data->data, sizeof value);
  return value >= kLowest && value < kEnd;
}

}  // namespace

void check_log2_scales(Graph& graph) {
  const std::vector<Op*> ops = graph.ops();
  for (Op* op : ops) {
    const int index = scale_input(*op);
    if (index < 0 || is_known_to_fit(*op->input(index))) continue;
    graph.set_insertion_point(op);
    OpBuilder builder(graph, op->context);
    Tensor* checked = builder.make(
        "CheckRange", {op->input(index)},
        {{"low", kLowest}, {"end", kEnd}, {"what", "the log2 scale of " + describe(*op)}});
    graph.set_insertion_point(nullptr);
    op->set_input(index, checked);
  }
}

}  // namespace pando
