// Small programs for the gradient sweep: one or more per op kind that has a gradient or an
// expansion.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pando/ir/op_def.hpp"

namespace pando::gradients {

/// One op input (without a shape where `absent`): random values in [low, high), or the given ones.
struct RecipeInput {
  Shape shape;
  double low = -2.0, high = 2.0;
  DType dtype = DType::Float32;
  std::vector<double> values = {};
  bool absent = false;
};

/// A seed of random numbers.
inline RecipeInput seed() { return {{2}, 0.0, 0.0, DType::UInt32, {12345.0, 678.0}}; }

/// An integer attribute.
inline std::int64_t number(std::int64_t value) { return value; }

struct Recipe {
  std::string kind;
  std::vector<RecipeInput> inputs;
  Attributes attributes = {};
  /// Inputs to differentiate; empty: those of the op's record.
  std::vector<int> wanted = {};
  /// Outputs whose gradient is given.
  std::vector<int> outputs = {0};
};

const std::vector<Recipe>& recipes();

/// These kinds are expanded but not differentiated: only their values are compared.
std::vector<Recipe> forward_recipes();

}  // namespace pando::gradients
