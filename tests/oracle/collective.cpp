// Exchanges between replicas.
#include <algorithm>

#include "pando/base/error.hpp"
#include "pando/base/replica_group.hpp"
#include "tests/oracle/oracle.hpp"
#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

Number reduced(const std::string& how, const std::vector<Number>& values) {
  Number sum = 0.0L, product = 1.0L, squares = 0.0L;
  bool all = true, any = false;
  for (Number x : values) {
    sum += x;
    product *= x;
    squares += x * x;
    all = all && x != 0.0L;
    any = any || x != 0.0L;
  }
  if (how == "add") return sum;
  if (how == "mean") return sum / static_cast<Number>(values.size());
  if (how == "mul") return product;
  if (how == "min") return *std::min_element(values.begin(), values.end());
  if (how == "max") return *std::max_element(values.begin(), values.end());
  if (how == "and") return all ? 1.0L : 0.0L;
  if (how == "or") return any ? 1.0L : 0.0L;
  if (how == "square_add") return squares;
  throw NotSupported(str_cat("the reference has no reduction ", how));
}

/// The elements of the members reduced one by one; with `local` those of member `own`. One member
/// alone exchanges nothing: `and` and `or` are no conversion then.
std::vector<Number> reduced_elements(const std::string& how, const std::vector<Array>& members,
                                     std::size_t own) {
  const bool is_logical = how == "and" || how == "or";
  if (how == "local" || (is_logical && members.size() == 1)) return members[own].data;
  std::vector<Number> result;
  for (std::int64_t i = 0; i < members[0].size(); ++i) {
    std::vector<Number> values;
    values.reserve(members.size());
    for (const Array& member : members) values.push_back(member[i]);
    result.push_back(reduced(how, values));
  }
  return result;
}

/// Reduces the tensors of one replica, unless those of `kept_form` are equal and stay.
Rule all_reduce(const char* kept_form) {
  return [kept_form](const Op& op, const Inputs& in, std::vector<Array>& out) {
    const bool reduces = op.attributes.text("form") != kept_form;
    for (std::size_t k = 0; k < out.size(); ++k) {
      for (std::int64_t i = 0; i < out[k].size(); ++i) {
        std::vector<Number> values;
        for (const Array* input : in) values.push_back((*input)[i]);
        out[k][i] = reduces ? reduced(op.attributes.text("op"), values) : values[k];
      }
    }
  };
}

}  // namespace

void add_all_reduce_rules(RuleTable& table) {
  table.add("AllReduce", all_reduce("identical_inputs"));
  table.add("AllReduceGrad", all_reduce("identical_grads"));
}

void Oracle::run_collective(const Op& op, Frame& frame) {
  const std::string& kind = op.kind_name();
  const Array own = contents(lookup(op.input(0), frame));
  const std::vector<Array> all = options_.exchange ? options_.exchange(own) : std::vector{own};
  const ReplicaGroups groups{op.attributes.integer("stride"), op.attributes.integer("group_size")};
  std::vector<Array> members;
  for (std::int64_t i = 0; i < groups.size; ++i) {
    members.push_back(all.at(static_cast<std::size_t>(groups.member(options_.replica, i))));
  }
  const auto index = static_cast<std::size_t>(groups.index_of(options_.replica));
  Array result(op.output(0)->dtype(), op.output(0)->shape());
  const auto count = static_cast<std::size_t>(result.size());
  if (kind == "ReplicatedAllReduce" || kind == "ReplicatedAllReduceInplace") {
    result.data = reduced_elements(op.attributes.text("op"), members, index);
  } else if (kind == "TensorParallelAllReduce") {
    const bool reduces = op.attributes.flag("reduce");
    result.data = reduces ? reduced_elements(op.attributes.text("op"), members, index) : own.data;
  } else if (kind == "ReplicatedReduceScatter") {
    std::vector<Number> whole = reduced_elements(op.attributes.text("op"), members, index);
    whole.resize(count * members.size(), 0.0L);
    const auto first = whole.begin() + static_cast<std::ptrdiff_t>(index * count);
    result.data.assign(first, first + static_cast<std::ptrdiff_t>(count));
  } else {
    result.data.clear();
    for (const Array& member : members) {
      result.data.insert(result.data.end(), member.data.begin(), member.data.end());
    }
    result.data.resize(count);
  }
  bind_output(op, 0, std::move(result), frame);
}

}  // namespace pando::oracle
