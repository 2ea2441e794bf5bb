// Random ops, calls and loops with more operands than a byte holds.
#include <algorithm>

#include "tests/cpp/fuzz/generator.hpp"

namespace pando::fuzz {

/// Rows of one tensor, some of them changed. They stay out of the pool, which they would fill.
std::vector<Candidate> GraphGenerator::many_parts() {
  const std::int64_t count = 125 + pick(60);
  const DType dtype =
      choose(std::vector<DType>{DType::Float32, DType::Float16, DType::BFloat16, DType::Int32});
  const Shape shape = flip() ? Shape{count} : Shape{count, 2};
  const Candidate rows = load(dtype, shape, true);
  const Op& split =
      op("Split", {rows.tensor},
         {{"axis", std::int64_t{0}}, {"sizes", Ints(static_cast<std::size_t>(count), 1)}});
  const std::size_t before = pool_.size();
  std::vector<Candidate> parts;
  for (Tensor* part : split.outputs()) {
    if (flip(0.3)) part = op(flip() ? "Neg" : "Abs", {part}).output(0);
    parts.push_back(add(part, {true, kEntryBound}));
  }
  pool_.resize(before, pool_.front());
  std::shuffle(parts.begin(), parts.end(), random_);
  return parts;
}

void GraphGenerator::wide_op() {
  if (program_.wide_ops++ > 0) return unary_op();
  const std::vector<Candidate> parts = many_parts();
  std::vector<Tensor*> tensors;
  for (const Candidate& part : parts) tensors.push_back(part.tensor);
  const auto count = static_cast<double>(parts.size());
  const Slot slot{tensors[0]->dtype(), tensors[0]->shape(), true};
  std::vector<Slot> slots(parts.size(), slot);
  const bool may_call = program_.bodies.size() < 12;
  switch (pick(may_call ? 5 : 3)) {
    case 0:
      add(op("Concat", tensors, {{"axis", std::int64_t{0}}}).output(0), {true, kEntryBound});
      return;
    case 1:
      bounded(op("Sum", tensors).output(0), {true, count * kEntryBound});
      return;
    case 2:
      add(op("Max", tensors).output(0), {true, kEntryBound});
      return;
    case 3: {
      for (Slot& input : slots) input.by_ref = flip(0.1);
      const std::vector<Slot> outputs(1 + static_cast<std::size_t>(pick(3)), slot);
      call(new_body(slots, outputs, true), tensors, parts);
      return;
    }
    default: {
      const std::size_t before = pool_.size();
      loop(slots, slots, parts);
      // A few of the results are enough.
      pool_.resize(std::min(pool_.size(), before + 3), pool_.front());
    }
  }
}

}  // namespace pando::fuzz
