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
  if (flip(0.3)) return sparse_adam_op();
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

/// Rows at random indices along `axis` of something of `shape`.
std::pair<Candidate, Tensor*> GraphGenerator::random_rows(DType dtype, const Shape& shape, int axis,
                                                          bool exact) {
  const auto d = static_cast<std::size_t>(axis);
  Tensor* indices = random_indices(shape[d]);
  Shape rows = shape;
  rows[d] = indices->shape()[0];
  return {clipped(of_slot({dtype, rows, exact}, false), kEntryBound), indices};
}

/// Adds rows at random indices, some of them more than once.
void GraphGenerator::sparse_update(const Candidate& target) {
  const Shape& shape = target.tensor->shape();
  if (shape.empty() || !is_floating_point(target.tensor->dtype())) return;
  if (flip()) return gathered_update(target);
  const int axis = pick(static_cast<int>(shape.size()));
  const bool exact = class_of(target).exact;
  const auto [x, indices] = random_rows(target.tensor->dtype(), shape, axis, exact);
  Attributes attributes = {{"axis", std::int64_t{axis}}};
  if (!exact && flip()) attributes.set("factor", -0.75);
  Op& made = op("SparseAccumulate", {target.tensor, x.tensor, nullptr, indices}, attributes);
  write(target, made.output(0),
        class_of(target).bound + kEntryBound * static_cast<double>(indices->shape()[0]));
}

/// Adds the gradient of a gather, which the compiler may add to the gathered rows alone.
void GraphGenerator::gathered_update(const Candidate& target) {
  const Shape& shape = target.tensor->shape();
  const DType dtype = target.tensor->dtype();
  const int axis = pick(static_cast<int>(shape.size()));
  const auto [x, indices] = random_rows(dtype, shape, axis, class_of(target).exact);
  Tensor* g = op("GatherGrad", {x.tensor, indices},
                 {{"axis", std::int64_t{axis}}, {"input_shape", Ints(shape)}})
                  .output(0);
  const double size = kEntryBound * static_cast<double>(indices->shape()[0]);
  if (flip(0.3)) add(g, {class_of(target).exact, size});
  if (flip(0.3)) g = op("Neg", {g}).output(0);
  if (flip(0.3)) g = op("Mul", {g, builder_.constant(2.0, dtype)}).output(0);
  Tensor* t = target.tensor;
  const double bound = class_of(target).bound + 2.0 * size;
  switch (pick(4)) {
    case 0:
      return write(target, op("AddLhsInplace", {t, g}).output(0), bound);
    case 1:
      return write(target, op("Accumulate", {t, g}, {{"type", std::string("Add")}}).output(0),
                   bound);
    case 2:
      return write(target, op("CopyVarUpdate", {t, op("Sub", {t, g}).output(0)}).output(0), bound);
    default:
      return write(target, op("ScaledAddLhsInplace", {t, g}, {{"a", 1.0}, {"b", -1.0}}).output(0),
                   bound);
  }
}

/// Adam on rows: listed ones, those of the gradient of a gather, or those of any gradient.
void GraphGenerator::sparse_adam_op() {
  const auto weights = where([&](const Candidate& c) {
    return is_floating_point(c.tensor->dtype()) && !class_of(c).exact && !is_read_only(c) &&
           class_of(c).bound <= 30.0 && !c.tensor->shape().empty();
  });
  if (weights.empty()) return unary_op();
  const Candidate w = choose(weights);
  const DType dtype = w.tensor->dtype();
  const Shape shape = w.tensor->shape();
  const std::int64_t axis = pick(static_cast<int>(shape.size()));
  const auto [x, indices] = random_rows(dtype, shape, static_cast<int>(axis), false);
  Tensor* gradient = x.tensor;
  Tensor* listed = indices;
  if (flip()) {
    gradient = op("GatherGrad", {gradient, indices}, {{"axis", axis}, {"input_shape", Ints(shape)}})
                   .output(0);
    listed = nullptr;
    if (flip(0.3)) gradient = op("Neg", {gradient}).output(0);
    if (flip(0.3)) add(gradient, {false, 4.0 * kEntryBound});
  }
  const Candidate m = hidden_state(flip() ? DType::Float32 : dtype, shape, -1.0, 1.0);
  const Candidate v = hidden_state(DType::Float32, shape, 0.5, kEntryBound);
  Tensor* step = flip() ? hidden_state(DType::Float32, {}, 1.0, 4.0).tensor : nullptr;
  Attributes attributes = {{"axis", axis},   {"learning_rate", 0.125}, {"beta1", 0.75},
                           {"beta2", 0.875}, {"epsilon", 0.125},       {"weight_decay", 0.25}};
  if (flip()) attributes.set("weight_decay", 0.0);
  write(w,
        op("SparseAdam", {w.tensor, m.tensor, v.tensor, gradient, listed, step}, attributes)
            .output(0),
        class_of(w).bound + 10.0);
}

}  // namespace pando::fuzz
