// Random ops that make new tensors.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/cpp/fuzz/generator.hpp"

namespace pando::fuzz {
namespace {

bool is_bool(const Candidate& c) { return c.tensor->dtype() == DType::Bool; }
/// Integers of other widths, and those that overflow, are for the ops of their family.
bool is_plain(const Candidate& c) { return is_float(c) || c.tensor->dtype() == DType::Int32; }

std::int64_t dim(const Candidate& c, int axis) {
  return c.tensor->shape()[static_cast<std::size_t>(axis)];
}
int rank(const Candidate& c) { return static_cast<int>(c.tensor->shape().size()); }

}  // namespace

void GraphGenerator::random_op() {
  using Maker = void (GraphGenerator::*)();
  struct FamilyMaker {
    Family family;
    Maker maker;
    int weight;
  };
  static const std::vector<FamilyMaker> kFamilyMakers = {
      {Family::Copies, &GraphGenerator::copy_of_everything_op, 4},
      {Family::Wide, &GraphGenerator::wide_op, 1},
      {Family::Integers, &GraphGenerator::integer_op, 4},
      {Family::Integers, &GraphGenerator::bool_op, 2},
      {Family::Integers, &GraphGenerator::wide_dtype_op, 1},
      {Family::Casts, &GraphGenerator::far_cast_op, 1},
      {Family::Halves, &GraphGenerator::half_reduce_op, 1},
      {Family::Gradients, &GraphGenerator::gradient_op, 2},
      {Family::Images, &GraphGenerator::image_chain_op, 2}};
  static const std::vector<std::pair<Maker, int>> kCommonMakers = {
      {&GraphGenerator::unary_op, 5},         {&GraphGenerator::binary_op, 8},
      {&GraphGenerator::compare_op, 2},       {&GraphGenerator::where_op, 2},
      {&GraphGenerator::view_op, 6},          {&GraphGenerator::in_place_view_op, 4},
      {&GraphGenerator::reduce_op, 4},        {&GraphGenerator::matmul_op, 3},
      {&GraphGenerator::join_op, 3},          {&GraphGenerator::cast_op, 3},
      {&GraphGenerator::index_op, 3},         {&GraphGenerator::normalise_op, 2},
      {&GraphGenerator::random_number_op, 1}, {&GraphGenerator::transfer_op, 3},
      {&GraphGenerator::in_place_op, 8},      {&GraphGenerator::control_op, 4},
      {&GraphGenerator::conv_op, 3},          {&GraphGenerator::pool_op, 2},
      {&GraphGenerator::exchange_op, 4},      {&GraphGenerator::optimizer_op, 3},
      {&GraphGenerator::attention_op, 2},     {&GraphGenerator::order_op, 2},
      {&GraphGenerator::pad_op, 2},           {&GraphGenerator::fold_op, 1},
      {&GraphGenerator::recurrent_op, 2},     {&GraphGenerator::linear_algebra_op, 1},
      {&GraphGenerator::grouped_matmul_op, 1}};
  static const auto kMakers = [] {
    std::vector<std::pair<Maker, int>> makers = kCommonMakers;
    for (const auto& [family, maker, weight] : kFamilyMakers) {
      if (is_on(family)) makers.emplace_back(maker, weight);
    }
    return makers;
  }();
  int total = 0;
  for (const auto& [maker, weight] : kMakers) total += weight;
  int drawn = pick(total);
  for (const auto& [maker, weight] : kMakers) {
    drawn -= weight;
    if (drawn < 0) return (this->*maker)();
  }
}

void GraphGenerator::unary_op() {
  const Candidate x = any_float();
  const ValueClass values = class_of(x);
  if (values.exact || flip(0.2)) {
    static const std::vector<std::string> kExact = {"Neg", "Abs", "Relu", "Sign", "Floor"};
    const std::string kind =
        values.exact ? choose(kExact) : kExact[static_cast<std::size_t>(pick(3))];
    bounded(op(kind, {x.tensor}).output(0), values);
    return;
  }
  static const std::vector<std::string> kSmooth = {"Sin",   "Cos",     "Tanh", "Gelu", "GeluErf",
                                                   "Swish", "Sigmoid", "Atan", "Erf",  "Erfc"};
  if (flip(0.2)) {
    const Candidate small = clipped(x, kEntryBound);
    add(op("Exp", {small.tensor}).output(0), {false, std::exp(kEntryBound)});
    return;
  }
  const std::string& kind = choose(kSmooth);
  const bool is_bounded = kind != "Gelu" && kind != "GeluErf" && kind != "Swish";
  bounded(op(kind, {x.tensor}).output(0), {false, is_bounded ? 2.0 : values.bound});
}

void GraphGenerator::binary_op() {
  const auto numbers = where(is_plain);
  if (numbers.empty()) return void(any_float());
  Candidate a = choose(numbers);
  const auto partners = where([&](const Candidate& c) {
    const auto shape = broadcast_shapes(c.tensor->shape(), a.tensor->shape());
    return c.tensor->dtype() == a.tensor->dtype() && shape && num_elements(*shape) <= 600;
  });
  Candidate b = choose(partners);
  if (flip()) std::swap(a, b);
  static const std::vector<std::string> kKinds = {"Add", "Sub", "Mul", "Max", "Sum", "Div"};
  std::string kind = choose(kKinds);
  if (kind == "Sum" && a.tensor->shape() != b.tensor->shape()) kind = "Add";
  const bool exact = class_of(a).exact && class_of(b).exact;
  if (kind == "Div") {
    if (exact || !is_float(a)) {
      kind = "Mul";
    } else {
      // A divisor away from zero that does not amplify errors much: 1 / e^b stays within e^2.
      b = clipped(b, 2.0);
      a = clipped(a, kEntryBound);
      Tensor* divisor = op("Exp", {b.tensor}).output(0);
      const Candidate quotient =
          add(op("Div", {a.tensor, divisor}).output(0), {false, kEntryBound * 7.4});
      clipped(quotient, kEntryBound);
      return;
    }
  }
  const double worst = 40.0;
  if (class_of(a).bound > worst) a = clipped(a, kEntryBound);
  if (class_of(b).bound > worst) b = clipped(b, kEntryBound);
  const double x = class_of(a).bound, y = class_of(b).bound;
  const double bound = kind == "Mul" ? x * y : kind == "Max" ? std::max(x, y) : x + y;
  bounded(op(kind, {a.tensor, b.tensor}).output(0), {exact, bound});
}

void GraphGenerator::compare_op() {
  const auto bools = where(is_bool);
  if (!bools.empty() && flip(0.3)) {
    const Candidate a = choose(bools);
    const auto partners = where([&](const Candidate& c) {
      return is_bool(c) && broadcast_shapes(c.tensor->shape(), a.tensor->shape());
    });
    if (flip(0.3)) {
      add(op("Not", {a.tensor}).output(0), {true, 1.0});
    } else {
      add(op(flip() ? "And" : "Or", {a.tensor, choose(partners).tensor}).output(0), {true, 1.0});
    }
    return;
  }
  const auto exact = where([&](const Candidate& c) { return class_of(c).exact && !is_bool(c); });
  if (exact.empty()) {
    load(DType::Int32, random_shape(), true);
    return;
  }
  const Candidate a = choose(exact);
  const auto partners = where([&](const Candidate& c) {
    return class_of(c).exact && c.tensor->dtype() == a.tensor->dtype() &&
           broadcast_shapes(c.tensor->shape(), a.tensor->shape());
  });
  add(op(flip() ? "Greater" : "Equal", {a.tensor, choose(partners).tensor}).output(0), {true, 1.0});
}

void GraphGenerator::where_op() {
  const auto bools = where(is_bool);
  if (bools.empty()) return compare_op();
  const Candidate condition = choose(bools);
  const auto fits = [&](const Candidate& c, const Shape& shape) {
    const auto joined = broadcast_shapes(c.tensor->shape(), shape);
    return !is_bool(c) && joined && num_elements(*joined) <= 600;
  };
  const auto firsts = where([&](const Candidate& c) { return fits(c, condition.tensor->shape()); });
  if (firsts.empty()) return compare_op();
  const Candidate a = choose(firsts);
  const Shape shape =
      broadcast_shapes(a.tensor->shape(), condition.tensor->shape()).value_or(Shape{});
  const Candidate b = choose(where([&](const Candidate& c) {
    return fits(c, shape) && c.tensor->dtype() == a.tensor->dtype();
  }));
  bounded(op("Where", {condition.tensor, a.tensor, b.tensor}).output(0),
          {class_of(a).exact && class_of(b).exact, std::max(class_of(a).bound, class_of(b).bound)});
}

namespace {

Ints random_permutation(Random& random, int count) {
  Ints permutation(static_cast<std::size_t>(count));
  std::iota(permutation.begin(), permutation.end(), std::int64_t{0});
  std::shuffle(permutation.begin(), permutation.end(), random);
  return permutation;
}

/// A random window in every dimension, backwards in some.
Attributes random_window(Random& random, const Shape& shape) {
  Ints starts, steps, counts;
  for (std::int64_t size : shape) {
    const auto below = [&](std::int64_t n) {
      return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random);
    };
    const std::int64_t first = below(size), last = below(size);
    const std::int64_t step = (last >= first ? 1 : -1) * (1 + below(2));
    starts.push_back(first);
    steps.push_back(step);
    counts.push_back(std::abs(last - first) / std::abs(step) + 1);
  }
  return {{"starts", starts}, {"steps", steps}, {"counts", counts}};
}

Shape random_factorisation(Random& random, std::int64_t count) {
  Shape shape;
  for (std::int64_t factor : {2, 3, 5}) {
    if (count % factor == 0 && random() % 2 == 0) {
      shape.push_back(factor);
      count /= factor;
    }
  }
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(random() % (shape.size() + 1)), count);
  return shape;
}

}  // namespace

void GraphGenerator::view_op() {
  if (pool_.empty()) return void(any_float());
  const Candidate x = choose(pool_);
  const Shape& shape = x.tensor->shape();
  Tensor* made = nullptr;
  switch (pick(6)) {
    case 0:
      made = op("Reshape", {x.tensor},
                {{"shape", Ints(random_factorisation(random_, x.tensor->info.num_elements()))}})
                 .output(0);
      break;
    case 1:
      made = op("Transpose", {x.tensor}, {{"permutation", random_permutation(random_, rank(x))}})
                 .output(0);
      break;
    case 2:
      made = op("Slice", {x.tensor}, random_window(random_, shape)).output(0);
      break;
    case 3: {
      Ints strides;
      for (int d = 0; d < rank(x); ++d) strides.push_back(1 + pick(3));
      made = op("Subsample", {x.tensor}, {{"strides", strides}}).output(0);
      break;
    }
    case 4: {
      Shape target = shape;
      for (std::int64_t& size : target) size = size == 1 ? 1 + pick(4) : size;
      if (flip()) target.insert(target.begin(), 1 + pick(3));
      made = op("BroadcastTo", {x.tensor}, {{"shape", Ints(target)}}).output(0);
      break;
    }
    default:
      made = op("Identity", {x.tensor}).output(0);
  }
  add(made, class_of(x));
}

void GraphGenerator::in_place_view_op() {
  const auto writable = where([&](const Candidate& c) { return !is_read_only(c); });
  if (writable.empty()) return void(any_float());
  const Candidate x = choose(writable);
  switch (pick(4)) {
    case 0:
      add_alias(op("TransposeInplace", {x.tensor},
                   {{"permutation", random_permutation(random_, rank(x))}})
                    .output(0),
                x, false);
      return;
    case 1:
      add_alias(op("SliceInplace", {x.tensor}, random_window(random_, x.tensor->shape())).output(0),
                x, false);
      return;
    case 2:
      if (x.contiguous) {
        const Shape target = random_factorisation(random_, x.tensor->info.num_elements());
        add_alias(op("ReshapeInplace", {x.tensor}, {{"shape", Ints(target)}}).output(0), x, true);
        return;
      }
      [[fallthrough]];
    default:
      add_alias(op("DetachInplace", {x.tensor}).output(0), x, x.contiguous);
  }
}

void GraphGenerator::reduce_op() {
  const Candidate x = clipped(any_float(), kEntryBound);
  const ValueClass values = class_of(x);
  Ints axes;
  double count = 1.0;
  for (int d = 0; d < rank(x); ++d) {
    if (!flip()) continue;
    axes.push_back(d);
    count *= static_cast<double>(dim(x, d));
  }
  static const std::vector<std::string> kExact = {"ReduceSum", "ReduceMax", "ReduceMin",
                                                  "ReduceSumSquare", "ReduceL1"};
  static const std::vector<std::string> kRounded = {"ReduceSum", "ReduceMean", "ReduceMax",
                                                    "ReduceL1", "ReduceLogSumExp"};
  const bool exact = values.exact && count <= 64.0;
  const std::string kind = exact ? choose(kExact) : choose(kRounded);
  const bool extreme = kind == "ReduceMax" || kind == "ReduceMin" || kind == "ReduceMean";
  const double bound = extreme                     ? values.bound
                       : kind == "ReduceSumSquare" ? count * values.bound * values.bound
                                                   : count * values.bound + 8.0;
  bounded(op(kind, {x.tensor}, {{"axes", axes}, {"keepdims", flip()}}).output(0), {exact, bound});
}

void GraphGenerator::matmul_op() {
  const auto matrices = where([](const Candidate& c) { return is_float(c) && rank(c) >= 1; });
  if (matrices.empty()) return void(any_float());
  const Candidate a = clipped(choose(matrices), kEntryBound);
  const std::int64_t inner = a.tensor->shape().back();
  const auto partners = where([&](const Candidate& c) {
    if (!is_float(c) || c.tensor->dtype() != a.tensor->dtype() || rank(c) < 1) return false;
    if (rank(c) == 1) return dim(c, 0) == inner;
    if (dim(c, rank(c) - 2) != inner) return false;
    return rank(c) == 2 || rank(a) <= 2;
  });
  Candidate b = a;
  if (!partners.empty()) {
    b = clipped(choose(partners), kEntryBound);
  } else if (rank(a) >= 2) {
    Ints permutation(a.tensor->shape().size());
    std::iota(permutation.begin(), permutation.end(), std::int64_t{0});
    std::swap(permutation.back(), permutation[permutation.size() - 2]);
    b = add(op("Transpose", {a.tensor}, {{"permutation", permutation}}).output(0), class_of(a));
  }
  const double bound = static_cast<double>(inner) * kEntryBound * kEntryBound;
  bounded(op("MatMul", {a.tensor, b.tensor}).output(0),
          {class_of(a).exact && class_of(b).exact, bound});
}

void GraphGenerator::join_op() {
  const auto arrays = where([](const Candidate& c) { return rank(c) >= 1; });
  if (arrays.empty()) return void(any_float());
  const Candidate a = choose(arrays);
  const int axis = pick(rank(a));
  const ValueClass values = class_of(a);
  if (flip()) {
    const std::int64_t size = dim(a, axis);
    const std::int64_t first = pick(static_cast<int>(size)) + 1;
    Ints sizes = {first};
    if (first < size) sizes.push_back(size - first);
    const Op& split = op("Split", {a.tensor}, {{"axis", std::int64_t{axis}}, {"sizes", sizes}});
    for (Tensor* part : split.outputs()) add(part, values);
    return;
  }
  std::vector<Tensor*> parts = {a.tensor};
  ValueClass joined = values;
  const auto partners = where([&](const Candidate& c) {
    Shape shape = c.tensor->shape();
    if (c.tensor->dtype() != a.tensor->dtype() || shape.size() != a.tensor->shape().size()) {
      return false;
    }
    shape[static_cast<std::size_t>(axis)] = dim(a, axis);
    return shape == a.tensor->shape();
  });
  for (int i = pick(3); i > 0; --i) {
    const Candidate next = choose(partners);
    joined.exact = joined.exact && class_of(next).exact;
    joined.bound = std::max(joined.bound, class_of(next).bound);
    parts.push_back(next.tensor);
  }
  bounded(op("Concat", parts, {{"axis", std::int64_t{axis}}}).output(0), joined);
}

void GraphGenerator::cast_op() {
  if (pool_.empty()) return void(any_float());
  Candidate x = choose(pool_);
  static const std::vector<DType> kFloats = {DType::Float32, DType::Float16, DType::BFloat16};
  static const std::vector<DType> kAll = {DType::Float32, DType::Float16, DType::BFloat16,
                                          DType::Int32, DType::Bool};
  const DType target = class_of(x).exact ? choose(kAll) : choose(kFloats);
  if (class_of(x).bound > 100.0) x = clipped(x, kEntryBound);
  bounded(op("Cast", {x.tensor}, {{"dtype", target}}).output(0), class_of(x));
}

void GraphGenerator::index_op() {
  const auto arrays = where([](const Candidate& c) { return rank(c) >= 1 && !is_bool(c); });
  if (arrays.empty()) return void(any_float());
  const Candidate x = choose(arrays);
  const ValueClass values = class_of(x);
  const int what = pick(6);
  if (what == 0 && values.exact) {
    arg_extreme_op(x);
  } else if (what == 1 && values.exact) {
    top_k_op(x);
  } else if (what == 2 && is_float(x)) {
    const Candidate small = clipped(x, kEntryBound);
    const int axis = pick(rank(x));
    bounded(
        op("CumSum", {small.tensor}, {{"axis", std::int64_t{axis}}, {"reverse", flip()}}).output(0),
        {values.exact, kEntryBound * static_cast<double>(dim(x, axis))});
  } else if (what == 3 && values.exact && is_float(x)) {
    Tensor* counts = op("Histogram", {x.tensor},
                        {{"levels", Floats{-1.0, 0.5, 2.0}}, {"absolute_of_input", flip()}})
                         .output(0);
    add(op("Cast", {counts}, {{"dtype", DType::Int32}}).output(0),
        {true, static_cast<double>(x.tensor->info.num_elements())});
  } else if (what == 4) {
    scatter_op(clipped(x, kEntryBound));
  } else {
    const int axis = pick(rank(x));
    bounded(op("Gather", {x.tensor, random_indices(dim(x, axis))}, {{"axis", std::int64_t{axis}}})
                .output(0),
            values);
  }
}

/// Up to four indices below `size`, perhaps some of them twice.
Tensor* GraphGenerator::random_indices(std::int64_t size) {
  std::vector<std::int32_t> indices(static_cast<std::size_t>(1 + pick(4)));
  for (auto& index : indices) index = pick(static_cast<int>(size));
  return builder_.constant({DType::Int32, {static_cast<std::int64_t>(indices.size())}, {}},
                           indices.data());
}

void GraphGenerator::arg_extreme_op(const Candidate& x) {
  const int axis = pick(rank(x));
  add(op(flip() ? "ArgMax" : "ArgMin", {x.tensor},
         {{"axis", std::int64_t{axis}}, {"keepdims", flip()}})
          .output(0),
      {true, static_cast<double>(dim(x, axis))});
}

void GraphGenerator::top_k_op(const Candidate& x) {
  const int axis = pick(rank(x));
  const std::int64_t k = 1 + pick(static_cast<int>(dim(x, axis)));
  const Op& top =
      op("TopK", {x.tensor},
         {{"axis", std::int64_t{axis}}, {"k", k}, {"largest", flip()}, {"sorted", true}});
  add(top.output(0), class_of(x));
  add(top.output(1), {true, static_cast<double>(dim(x, axis))});
}

void GraphGenerator::scatter_op(const Candidate& x) {
  const int axis = pick(rank(x));
  Tensor* indices = random_indices(dim(x, axis));
  Shape rows = x.tensor->shape();
  rows[static_cast<std::size_t>(axis)] = indices->shape()[0];
  const ValueClass values = class_of(x);
  const Candidate updates =
      clipped(of_slot({x.tensor->dtype(), rows, values.exact}, false), kEntryBound);
  static const std::vector<std::string> kReductions = {"sum", "prod", "max", "min"};
  const std::string how = choose(kReductions);
  // Rounding would choose between elements that are close.
  if ((how == "max" || how == "min") && values.exact && class_of(updates).exact && flip()) {
    const Op& extreme = op("ScatterArgReduce", {updates.tensor, indices, x.tensor},
                           {{"reduction", how}, {"axis", std::int64_t{axis}}});
    bounded(extreme.output(0), {true, kEntryBound});
    add(extreme.output(1), {true, static_cast<double>(rows[static_cast<std::size_t>(axis)])});
    return;
  }
  const double bound = how == "sum"    ? kEntryBound * 5.0
                       : how == "prod" ? std::pow(kEntryBound, 5.0)
                                       : kEntryBound;
  bounded(op("ScatterReduce", {updates.tensor, indices, x.tensor},
             {{"reduction", how}, {"axis", std::int64_t{axis}}})
              .output(0),
          {values.exact && class_of(updates).exact, bound});
}

void GraphGenerator::normalise_op() {
  const auto arrays = where([](const Candidate& c) { return is_float(c) && rank(c) >= 2; });
  if (arrays.empty()) return void(any_float());
  const Candidate x = clipped(choose(arrays), kEntryBound);
  if (flip()) {
    add(op("Softmax", {x.tensor}, {{"axis", std::int64_t{pick(rank(x))}}}).output(0), {false, 1.0});
    return;
  }
  const Shape channels = {dim(x, 1)};
  Tensor* weight = constant(x.tensor->dtype(), channels, false);
  Tensor* bias = constant(x.tensor->dtype(), channels, false);
  // eps is large: rows of equal elements would amplify rounding.
  if (x.tensor->info.num_elements() > channels[0] && flip()) {
    const Op& norm = op("BatchNormalizationTraining", {x.tensor, weight, bias}, {{"epsilon", 0.5}});
    bounded(norm.output(0), {false, 50.0});
    return;
  }
  const Op& norm = op("GroupNormalization", {x.tensor, weight, bias},
                      {{"num_groups", std::int64_t{1}}, {"eps", 0.5}});
  bounded(norm.output(0), {false, 50.0});
}

void GraphGenerator::random_number_op() {
  std::vector<std::uint32_t> words = {static_cast<std::uint32_t>(random_()),
                                      static_cast<std::uint32_t>(random_())};
  Tensor* seed = builder_.constant({DType::UInt32, {2}, {}}, words.data());
  if (flip()) {
    const Candidate x = clipped(any_float(), kEntryBound);
    bounded(op("Dropout", {x.tensor, seed}, {{"p", 0.3}}).output(0), {false, 6.0});
    return;
  }
  static const std::vector<DType> kDrawn = {DType::Float32, DType::Float16, DType::BFloat16};
  add(op("RandomUniform", {seed},
         {{"shape", Ints(random_shape())}, {"dtype", choose(kDrawn)}, {"low", -1.0}, {"high", 2.0}})
          .output(0),
      {false, 2.0});
}

}  // namespace pando::fuzz
