// Random updates of weights with state that is kept in place: Adam and its relatives.
#include <algorithm>

#include "tests/cpp/fuzz/generator.hpp"

namespace pando::fuzz {

/// A tensor in [lowest, highest] that only the op it is made for writes: in the main graph mostly
/// a variable.
Candidate GraphGenerator::hidden_state(DType dtype, const Shape& shape, double lowest,
                                       double highest) {
  const TensorInfo info{dtype, shape, {}};
  auto data = HostArray::allocate(info.bytes());
  fill_reals(random_, dtype, lowest, highest, info.num_elements(), data->data);
  Tensor* state = nullptr;
  if (site_.depth == 0 && flip(0.7)) {
    state = graph_.add_variable(graph_.unique_tensor_id("state"), info, data);
    program_.variables.push_back(state);
  } else {
    Tensor* initial = graph_.add_constant(graph_.unique_tensor_id("c"), info, data);
    state = op("Identity", {initial}).output(0);
  }
  const Candidate made = add(state, {false, highest});
  read_only_.push_back(made.storage);
  hidden_.push_back(made.storage);
  return made;
}

void GraphGenerator::optimizer_op() {
  const auto weights = where([&](const Candidate& c) {
    return is_floating_point(c.tensor->dtype()) && !class_of(c).exact && !is_read_only(c) &&
           class_of(c).bound <= 30.0;
  });
  if (weights.empty()) return unary_op();
  const Candidate w = choose(weights);
  const DType dtype = w.tensor->dtype();
  const Shape shape = w.tensor->shape();
  const auto gradients = where([&](const Candidate& c) {
    return is_floating_point(c.tensor->dtype()) && c.tensor->shape() == shape;
  });
  const Candidate g = clipped(choose(gradients), kEntryBound);
  static const std::vector<std::string> kModes = {"Adam", "AdamNoBias", "AdaMax", "Lamb",
                                                  "LambNoBias"};
  const std::string mode = choose(kModes);
  const double beta1 = flip() ? 0.75 : 0.9, beta2 = flip() ? 0.9 : 0.99;
  const DType state_dtype = flip(0.7) ? DType::Float32 : dtype;
  const Candidate m = hidden_state(state_dtype, shape, -kEntryBound, kEntryBound);
  const Candidate v = hidden_state(state_dtype, shape, 0.5, kEntryBound);
  op("Accumulate", {m.tensor, g.tensor},
     {{"type", std::string("MovingAverage")}, {"factor", beta1}});
  op("Accumulate", {v.tensor, g.tensor},
     {{"type", std::string(mode == "AdaMax" ? "Infinity" : "MovingAverageSquare")},
      {"factor", beta2}});
  Tensor* step = nullptr;
  if (!mode.ends_with("NoBias")) step = hidden_state(DType::Float32, {}, 1.0, 4.0).tensor;
  Attributes attributes = {{"mode", mode}, {"beta1", beta1}, {"beta2", beta2}, {"epsilon", 1e-6}};
  if (flip()) attributes.set("weight_decay", 0.125);
  Tensor* x = op("AdamUpdater", {w.tensor, m.tensor, v.tensor, step}, attributes).output(0);
  if (mode.starts_with("Lamb")) {
    // A norm of 0 is a case of its own, and rounding would choose it for weights close to 0.
    Tensor* norm = op("LambSquare", {w.tensor}).output(0);
    Tensor* w_norm = op("Add", {norm, builder_.constant(0.25, DType::Float32)}).output(0);
    Tensor* x_norm = op("LambSquare", {x}).output(0);
    write(w,
          op("AdamVarUpdate", {w.tensor, x, w_norm, x_norm},
             {{"learning_rate", 0.25}, {"max_weight_norm", 2.0}})
              .output(0),
          class_of(w).bound + 10.0);
    return;
  }
  Tensor* small = op("Clip", {x}, {{"min", -kEntryBound}, {"max", kEntryBound}}).output(0);
  Tensor* used = flip() ? small : x;
  write(w,
        op("ScaledAddLhsInplace", {w.tensor, used}, {{"a", 1.0}, {"b", used == x ? -0.01 : -0.5}})
            .output(0),
        class_of(w).bound + 10.0);
}

/// Adds rows at random indices, some of them more than once.
void GraphGenerator::sparse_update(const Candidate& target) {
  const Shape& shape = target.tensor->shape();
  if (shape.empty() || !is_floating_point(target.tensor->dtype())) return;
  const int axis = pick(static_cast<int>(shape.size()));
  const auto d = static_cast<std::size_t>(axis);
  Tensor* indices = random_indices(shape[d]);
  Shape rows = shape;
  rows[d] = indices->shape()[0];
  const bool exact = class_of(target).exact;
  const Candidate x = clipped(of_slot({target.tensor->dtype(), rows, exact}, false), kEntryBound);
  Attributes attributes = {{"axis", std::int64_t{axis}}};
  if (!exact && flip()) attributes.set("factor", -0.75);
  Op& made = op("SparseAccumulate", {target.tensor, x.tensor, nullptr, indices}, attributes);
  write(target, made.output(0),
        class_of(target).bound + kEntryBound * static_cast<double>(rows[d]));
}

}  // namespace pando::fuzz
