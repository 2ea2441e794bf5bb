// Random in-place ops.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/cpp/fuzz/generator.hpp"

namespace pando::fuzz {

/// Records that `result` (an alias of the target) holds values up to `bound`; values that leave
/// the range are clipped in place.
void GraphGenerator::write(const Candidate& target, Tensor* result, double bound) {
  ValueClass& values = storages_[static_cast<std::size_t>(target.storage)];
  values.bound = std::max(values.bound, bound);
  const Candidate alias = add_alias(result, target, target.contiguous);
  if (values.bound <= 30.0) return;
  // Everything in the storage must be small again, not only what this alias sees.
  Tensor* root = nullptr;
  for (const Candidate& c : pool_) {
    if (root == nullptr && c.storage == target.storage) root = c.tensor;
  }
  if (root->info.num_elements() < alias.tensor->info.num_elements()) return;
  const Candidate all{root, target.storage};
  const Candidate small = clipped(all, kEntryBound);
  op("CopyVarUpdate", {root, small.tensor});
}

/// Tensors that may be added to the target.
std::vector<Candidate> GraphGenerator::operands_for(const Candidate& target,
                                                    bool same_shape) const {
  const Shape& shape = target.tensor->shape();
  return where([&](const Candidate& c) {
    const bool fits = same_shape ? c.tensor->shape() == shape
                                 : broadcast_shapes(c.tensor->shape(), shape) == shape;
    return fits && c.tensor->dtype() == target.tensor->dtype() && class_of(c).bound <= 30.0 &&
           (class_of(c).exact || !class_of(target).exact);
  });
}

void GraphGenerator::in_place_op() {
  const auto writable =
      where([&](const Candidate& c) { return !is_read_only(c) && class_of(c).bound <= 30.0; });
  if (writable.empty()) return void(any_float());
  write_in_place(choose(writable));
}

void GraphGenerator::write_in_place(const Candidate& target) {
  const auto same = operands_for(target, true);
  if (target.tensor->dtype() == DType::Bool || flip(0.15)) {
    const Candidate source = choose(same);
    write(target, op("CopyVarUpdate", {target.tensor, source.tensor}).output(0),
          class_of(source).bound);
    return;
  }
  const bool is_real = is_floating_point(target.tensor->dtype()) && !class_of(target).exact;
  if (is_real && !target.tensor->shape().empty() && flip(0.2)) return copied_result(target);
  if (flip(0.15)) return dynamic_update(target);
  if (flip(0.15)) return sparse_update(target);
  if (flip(0.4)) {
    const Candidate b = choose(operands_for(target, false));
    const double bound = class_of(target).bound + class_of(b).bound;
    write(target, op("AddLhsInplace", {target.tensor, b.tensor}).output(0), bound);
    return;
  }
  if (is_integer(target.tensor->dtype())) return update_ints(target);
  update_floats(target);
}

/// A copy that a compiler may be tempted not to make, and a write to it or to its source.
void GraphGenerator::copy_of_everything_op() {
  if (pool_.empty()) return void(any_float());
  const Candidate x = choose(pool_);
  const Shape& shape = x.tensor->shape();
  Ints axes(shape.size());
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  const Ints zeros(shape.size(), 0), ones(shape.size(), 1);
  const std::vector<std::pair<std::string, Attributes>> kinds = {
      {"Slice", {{"starts", zeros}, {"steps", ones}, {"counts", Ints(shape)}}},
      {"Slice", {{"starts", zeros}, {"steps", ones}, {"counts", Ints(shape)}}},
      {"Reshape", {{"shape", Ints(shape)}}},
      {"Transpose", {{"permutation", axes}}},
      {"BroadcastTo", {{"shape", Ints(shape)}}},
      {"Subsample", {{"strides", ones}}},
      {"Identity", {}},
      {"Detach", {}},
      {"Concat", {{"axis", std::int64_t{0}}}},
      {"Split", {{"axis", std::int64_t{0}}, {"sizes", Ints{shape.empty() ? 1 : shape[0]}}}}};
  // Nothing of rank 0 is joined or split.
  const int usable = static_cast<int>(kinds.size()) - (shape.empty() ? 2 : 0);
  const auto& [kind, attributes] = kinds[static_cast<std::size_t>(pick(usable))];
  const Candidate copy = add(op(kind, {x.tensor}, attributes).output(0), class_of(x));
  const Candidate target = is_read_only(x) || flip() ? copy : x;
  if (class_of(target).bound <= 30.0) write_in_place(target);
  if (flip(0.7)) store(x);
  if (flip(0.7)) store(copy);
}

void GraphGenerator::update_ints(const Candidate& target) {
  Op& made = op("IncrementModInplace", {target.tensor}, {{"increment", 1.0}, {"modulus", 3.0}});
  write(target, made.output(0), 3.0);
}

void GraphGenerator::update_floats(const Candidate& target) {
  const ValueClass values = class_of(target);
  const Candidate b = choose(operands_for(target, true));
  const double sum = values.bound + class_of(b).bound;
  if (values.exact) {
    switch (pick(3)) {
      case 0:
        return write(target, op("ReluInplace", {target.tensor}).output(0), values.bound);
      case 1: {
        Op& made = op("ScaledAddLhsInplace", {target.tensor, b.tensor}, {{"a", 1.0}, {"b", -2.0}});
        return write(target, made.output(0), values.bound + 2.0 * class_of(b).bound);
      }
      default: {
        Op& made = op("Accumulate", {target.tensor, b.tensor}, {{"type", std::string("Add")}});
        return write(target, made.output(0), sum);
      }
    }
  }
  static const std::vector<std::string> kUnary = {"ReluInplace", "GeluInplace", "GeluErfInplace",
                                                  "SwishInplace"};
  static const std::vector<std::string> kTypes = {"MovingAverage", "DampenedAdd", "DecayAdd",
                                                  "Infinity"};
  switch (pick(4)) {
    case 0:
      return write(target, op(choose(kUnary), {target.tensor}).output(0), values.bound);
    case 1: {
      Op& made = op("ScaledAddLhsInplace", {target.tensor, b.tensor}, {{"a", 0.5}, {"b", -0.75}});
      return write(target, made.output(0), sum);
    }
    case 2: {
      Op& made = op("AccumulatorScale", {target.tensor}, {{"factor", flip(0.2) ? 0.0 : 0.625}});
      return write(target, made.output(0), values.bound);
    }
    default: {
      Op& made =
          op("Accumulate", {target.tensor, b.tensor}, {{"type", choose(kTypes)}, {"factor", 0.75}});
      return write(target, made.output(0), sum);
    }
  }
}

/// The result of a kernel, which may be made where it is copied to unless one of the two is seen in
/// between or later.
void GraphGenerator::copied_result(const Candidate& target) {
  const Shape& shape = target.tensor->shape();
  Tensor* source = flip(0.2) ? choose(operands_for(target, true)).tensor
                             : constant(target.tensor->dtype(), shape, false);
  const std::int64_t axis = pick(static_cast<int>(shape.size()));
  Tensor* result = op("Softmax", {source}, {{"axis", axis}}).output(0);
  if (flip(0.3)) add(result, {false, 1.0});
  if (flip(0.2)) store(target);
  write(target, op("CopyVarUpdate", {target.tensor, result}).output(0), 1.0);
}

void GraphGenerator::dynamic_update(const Candidate& target) {
  const Shape& shape = target.tensor->shape();
  if (shape.empty()) return;
  const auto updates = where([&](const Candidate& c) {
    const Shape& part = c.tensor->shape();
    bool fits = part.size() == shape.size() && c.tensor->dtype() == target.tensor->dtype() &&
                (class_of(c).exact || !class_of(target).exact) && class_of(c).bound <= 30.0;
    for (std::size_t d = 0; fits && d < part.size(); ++d) {
      fits = d == 0 ? part[d] <= shape[d] : part[d] == shape[d];
    }
    return fits;
  });
  const Candidate update = choose(updates);
  const std::int64_t size = update.tensor->shape()[0];
  const std::int32_t start = pick(static_cast<int>(shape[0] - size) + 1);
  Tensor* index = builder_.constant({DType::Int32, {1}, {}}, &start);
  Op& made = op("DynamicUpdateInplace", {target.tensor, index, update.tensor},
                {{"axes", Ints{0}}, {"sizes", Ints{size}}});
  write(target, made.output(0), class_of(update).bound);
}

}  // namespace pando::fuzz
