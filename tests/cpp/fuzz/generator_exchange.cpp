// Random exchanges between replicas.
#include <algorithm>
#include <cmath>

#include "tests/cpp/fuzz/generator.hpp"

namespace pando::fuzz {
namespace {

/// What a reduction of `members` values makes of their class.
ValueClass reduced(const std::string& how, ValueClass values, double members) {
  if (how == "add") return {values.exact, values.bound * members};
  if (how == "mul") return {values.exact, std::pow(std::max(values.bound, 1.0), members)};
  if (how == "square_add") return {values.exact, values.bound * values.bound * members};
  if (how == "mean") return {false, values.bound};
  return values;
}

}  // namespace

void GraphGenerator::exchange_op() {
  const std::int64_t replicas = program_.ir->replication_factor;
  if (replicas == 1 || !site_.together) return reduce_op();
  const auto numbers = where([](const Candidate& c) {
    return is_floating_point(c.tensor->dtype()) || c.tensor->dtype() == DType::Int32;
  });
  if (numbers.empty()) return void(any_float());
  const Candidate x = clipped(choose(numbers), kEntryBound);
  const ValueClass values = class_of(x);
  std::int64_t size = replicas, stride = 1;
  if (flip(0.3)) size = replicas / 2;
  if (size < replicas && flip()) stride = replicas / size;
  Attributes attributes = {{"stride", stride}, {"group_size", size}};
  exchanges_ = true;
  const std::int64_t count = x.tensor->info.num_elements();
  if (flip(0.25)) {
    // The last part may be padded with less than one element for every other part.
    const std::int64_t whole = count * size - pick(static_cast<int>(std::min(size, count)));
    attributes.set("shape", Ints{(whole + size - 1) / size == count ? whole : count * size});
    add(op("ReplicatedAllGather", {x.tensor}, attributes).output(0), values);
    return;
  }
  std::vector<std::string> kinds = {"add", "mul", "max", "min", "square_add"};
  if (values.exact) kinds.insert(kinds.end(), {"and", "or"});
  if (is_floating_point(x.tensor->dtype())) kinds.emplace_back("mean");
  const bool scatters = flip(0.35);
  if (scatters) kinds.emplace_back("local");
  const std::string how = choose(kinds);
  const ValueClass result = reduced(how, values, static_cast<double>(size));
  attributes.set("op", how);
  if (scatters) {
    attributes.set("sharded", false);
    bounded(op("ReplicatedReduceScatter", {x.tensor}, attributes).output(0), result);
    return;
  }
  const bool in_place = !is_read_only(x) && result.exact == values.exact && flip(0.4);
  if (!in_place) {
    bounded(op("ReplicatedAllReduce", {x.tensor}, attributes).output(0), result);
    return;
  }
  write(x, op("ReplicatedAllReduceInplace", {x.tensor}, attributes).output(0), result.bound);
}

}  // namespace pando::fuzz
