#include "pando/transforms/accumulate.hpp"

#include "pando/base/error.hpp"

namespace pando {

Accumulation accumulate_gradients(const GradGraphInfo& info, const std::string& counter_name,
                                  const std::vector<std::string>& names, AccumulationKind kind,
                                  const OpContext& context) {
  Graph& graph = *info.gradient_graph;
  if (names.size() > info.expected_outputs.size()) {
    throw ValueError(str_cat("accumulate_gradients: wanted at most ", info.expected_outputs.size(),
                             " names, one per output of ", graph.id(), "; given ", names.size()));
  }
  const std::size_t kept = info.expected_outputs.size() - names.size();
  const std::vector<Tensor*> gradients = graph.outputs();
  Accumulation result{.info = info};
  result.info.expected_outputs.resize(kept);
  OpBuilder builder(graph, context);
  Op* previous = nullptr;
  const auto add = [&](const std::vector<Tensor*>& inputs, const char* type,
                       const std::string& name) {
    Op& op = builder.op("Accumulate", inputs, {{"type", std::string(type)}},
                        str_cat(name, "__", inputs[0]->name()));
    if (previous != nullptr) op.run_after(*previous);
    previous = &op;
  };
  result.counter =
      graph.add_input(graph.unique_tensor_id(counter_name), {DType::Float32, {}, {}}, true);
  const bool sums = kind == AccumulationKind::Sum;
  Tensor* factor = result.counter;
  if (sums && !names.empty()) {
    const std::vector<Tensor*> inputs = {result.counter, builder.constant(0, DType::Float32)};
    factor = builder.cast(builder.make("Greater", inputs), DType::Float32);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const TensorInfo& like = info.expected_outputs[kept + i].forward_tensor->info;
    const TensorInfo accumulated{like.dtype, like.shape, {}};
    Tensor* accumulator = graph.add_input(graph.unique_tensor_id(names[i]), accumulated, true);
    result.accumulators.push_back(accumulator);
    add({accumulator, gradients[kept + i], factor}, sums ? "DecayAdd" : "Mean",
        sums ? "accumulate_sum" : "accumulate_mean");
  }
  add({result.counter, builder.constant(1, DType::Float32), nullptr}, "Add", "accumulate");
  graph.set_outputs({gradients.begin(), gradients.begin() + static_cast<std::ptrdiff_t>(kept)});
  return result;
}

}  // namespace pando
