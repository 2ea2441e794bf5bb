// Random ops on integers of every width and bools, casts between all dtypes, and long float16 sums.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/cpp/fuzz/generator.hpp"

namespace pando::fuzz {
namespace {

constexpr std::int64_t kMostElements = 600;

const std::vector<DType>& integers() {
  static const std::vector<DType> all = {DType::Int8,   DType::UInt8,  DType::Int16,
                                         DType::UInt16, DType::UInt32, DType::Int32};
  return all;
}

Ints all_axes(const Shape& shape) {
  Ints axes(shape.size());
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  return axes;
}

}  // namespace

Candidate GraphGenerator::any_integer() {
  const auto known = where([](const Candidate& c) { return is_integer(c.tensor->dtype()); });
  if (!known.empty() && flip(0.7)) return choose(known);
  return load(choose(integers()), random_shape(), true);
}

/// The result of integer arithmetic, which may have overflowed.
Candidate GraphGenerator::wrapped(Tensor* tensor) {
  if (tensor->dtype() == DType::Bool) return add(tensor, {true, 1.0});
  return add(tensor, {true, std::ldexp(1.0, static_cast<int>(8 * dtype_bytes(tensor->dtype())))});
}

void GraphGenerator::integer_op() {
  const Candidate a = any_integer();
  const int what = pick(8);
  if (what == 0) return integer_unary_op(a);
  if (what == 1) return integer_reduce_op(a);
  if (what == 2) {
    wrapped(op("Cast", {a.tensor}, {{"dtype", choose(integers())}}).output(0));
    return;
  }
  const auto partners = where([&](const Candidate& c) {
    const auto shape = broadcast_shapes(c.tensor->shape(), a.tensor->shape());
    return c.tensor->dtype() == a.tensor->dtype() && shape && num_elements(*shape) <= kMostElements;
  });
  Tensor* b = choose(partners).tensor;
  if (flip(0.3)) {
    const double factor = choose(std::vector<double>{2.0, 3.0, 7.0, 77.0, 100.0});
    b = builder_.constant(factor, a.tensor->dtype());
  }
  static const std::vector<std::string> kKinds = {"Add", "Sub",     "Mul",   "Max",
                                                  "Div", "Greater", "Equal", "Fmod"};
  std::vector<Tensor*> operands = {a.tensor, b};
  if (flip()) std::swap(operands[0], operands[1]);
  wrapped(op(choose(kKinds), operands).output(0));
}

void GraphGenerator::integer_unary_op(const Candidate& x) {
  static const std::vector<std::string> kKinds = {"Neg", "Abs", "Sign", "Relu"};
  switch (pick(3)) {
    case 0:
      wrapped(op("Clip", {x.tensor}, {{"min", -100.0}, {"max", 50.0}}).output(0));
      return;
    case 1: {
      const Attributes attributes = {{"increment", 3.0}, {"modulus", 5.0}};
      wrapped(op("IncrementMod", {x.tensor}, attributes).output(0));
      return;
    }
    default:
      wrapped(op(choose(kKinds), {x.tensor}).output(0));
  }
}

void GraphGenerator::integer_reduce_op(const Candidate& x) {
  static const std::vector<std::string> kKinds = {"ReduceSum", "ReduceMax",       "ReduceMin",
                                                  "ReduceL1",  "ReduceSumSquare", "ReduceProd"};
  Ints axes;
  for (std::size_t d = 0; d < x.tensor->shape().size(); ++d) {
    if (flip()) axes.push_back(static_cast<std::int64_t>(d));
  }
  wrapped(op(choose(kKinds), {x.tensor}, {{"axes", axes}, {"keepdims", flip()}}).output(0));
}

void GraphGenerator::bool_op() {
  const auto is_bool = [](const Candidate& c) { return c.tensor->dtype() == DType::Bool; };
  const auto bools = where(is_bool);
  if (bools.empty()) {
    load(DType::Bool, random_shape(), true);
    return;
  }
  const Candidate a = choose(bools);
  const Candidate b = choose(where([&](const Candidate& c) {
    const auto shape = broadcast_shapes(c.tensor->shape(), a.tensor->shape());
    return is_bool(c) && shape && num_elements(*shape) <= kMostElements;
  }));
  if (flip(0.2)) {
    static const std::vector<DType> kTargets = {DType::Float32, DType::Float16, DType::BFloat16,
                                                DType::Int8,    DType::UInt8,   DType::UInt32,
                                                DType::Bool};
    add(op("Cast", {a.tensor}, {{"dtype", choose(kTargets)}}).output(0), {true, 1.0});
    return;
  }
  static const std::vector<std::string> kKinds = {"And", "Or", "Equal"};
  Tensor* both = op(choose(kKinds), {a.tensor, b.tensor}).output(0);
  add(flip(0.3) ? op("Not", {both}).output(0) : both, {true, 1.0});
}

/// Through a dtype of 64 bits and back.
void GraphGenerator::wide_dtype_op() {
  const bool is_real = flip();
  const Candidate x = is_real ? clipped(any_float(), kEntryBound) : any_integer();
  const bool is_unsigned = !is_real && !traits(x.tensor->dtype()).is_signed;
  const DType wide = is_real ? DType::Float64 : is_unsigned ? DType::UInt64 : DType::Int64;
  Tensor* y = op("Cast", {x.tensor}, {{"dtype", wide}}).output(0);
  if (flip()) y = op("Add", {y, y}).output(0);
  if (is_real && flip()) y = op("Tanh", {y}).output(0);
  y = op("Cast", {y}, {{"dtype", x.tensor->dtype()}}).output(0);
  if (is_real) {
    bounded(y, {false, 2.0 * kEntryBound});
  } else {
    wrapped(y);
  }
}

/// Whole numbers that the target does not hold, and infinite ones.
void GraphGenerator::far_cast_op() {
  const auto exact = where([&](const Candidate& c) {
    return is_floating_point(c.tensor->dtype()) && class_of(c).exact;
  });
  const Candidate x = clipped(
      exact.empty() ? load(DType::Float32, random_shape(), true) : choose(exact), kEntryBound);
  // Products with powers of two are exact, in float16 too.
  const int most = x.tensor->dtype() == DType::Float16 ? 13 : 70;
  Tensor* factor = builder_.constant(std::ldexp(1.0, pick(most)), x.tensor->dtype());
  Tensor* far = op("Mul", {x.tensor, factor}).output(0);
  if (flip(0.2)) far = op("Div", {far, builder_.constant(0.0, far->dtype())}).output(0);
  wrapped(op("Cast", {far}, {{"dtype", choose(integers())}}).output(0));
}

void GraphGenerator::half_reduce_op() {
  const auto halves =
      where([](const Candidate& c) { return is_half_precision(c.tensor->dtype()); });
  const DType dtype = flip() ? DType::Float16 : DType::BFloat16;
  Candidate x = halves.empty() ? load(dtype, {1 + pick(6)}, flip()) : choose(halves);
  x = clipped(x, 1.0);
  Shape shape = x.tensor->shape();
  // Above 65504 elements their number is no float16.
  const std::int64_t copies =
      flip(0.1) ? 66000 / x.tensor->info.num_elements() + 1 : 40 + pick(400);
  shape.insert(shape.begin(), copies);
  Tensor* many = op("BroadcastTo", {x.tensor}, {{"shape", Ints(shape)}}).output(0);
  static const std::vector<std::string> kKinds = {"ReduceMean", "ReduceMean", "ReduceLogSumExp",
                                                  "ReduceMax",  "ReduceSum",  "ReduceL2"};
  std::string kind = choose(kKinds);
  if (copies > 1000) kind = "ReduceMean";
  const Ints axes = flip() ? Ints{0} : all_axes(shape);
  const bool is_mean = kind == "ReduceMean" || kind == "ReduceMax";
  const double bound = is_mean ? 1.0 : static_cast<double>(num_elements(shape)) + 16.0;
  bounded(op(kind, {many}, {{"axes", axes}, {"keepdims", flip()}}).output(0), {false, bound});
}

}  // namespace pando::fuzz
