// What the typed builders in builders.hpp are made of.
#pragma once

#include <concepts>
#include <optional>
#include <string_view>
#include <vector>

#include "pando/ir/graph.hpp"

namespace pando::ops {

/// An op that a typed builder made. It stands for its first output where a tensor is wanted.
class BuiltOp {
 public:
  explicit BuiltOp(Op& op) : op_(&op) {}

  operator Op&() const { return *op_; }
  operator Tensor*() const { return op_->output(0); }
  Op* operator->() const { return op_; }

 private:
  Op* op_;
};

/// An attribute that has no default: what leaves it out does not compile.
template <class T>
class Required {
 public:
  template <std::convertible_to<T> Given>
  Required(const Given& given) : value_(given) {}

  const T& value() const { return value_; }

 private:
  T value_;
};

template <class T>
void set_attribute(Attributes& attributes, const char* name, const Required<T>& given) {
  attributes.set(name, given.value());
}

template <class T>
void set_attribute(Attributes& attributes, const char* name, const std::optional<T>& given) {
  if (given) attributes.set(name, *given);
}

/// Makes an op as OpBuilder::op does. Optional inputs at the end that are nullptr are left out.
BuiltOp build_op(OpBuilder& builder, std::string_view kind, std::vector<Tensor*> inputs,
                 Attributes attributes, std::string_view name,
                 std::vector<Graph*> called_graphs = {});

}  // namespace pando::ops
