// How elements that go to one place become one.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

namespace pando::cpu {

enum class ScatterReduction : std::uint8_t { Sum, Product, Min, Max, None };

/// By the name in the attributes of ScatterReduce.
inline std::optional<ScatterReduction> scatter_reduction(std::string_view name) {
  if (name == "sum") return ScatterReduction::Sum;
  if (name == "prod") return ScatterReduction::Product;
  if (name == "min") return ScatterReduction::Min;
  if (name == "max") return ScatterReduction::Max;
  if (name == "none") return ScatterReduction::None;
  return std::nullopt;
}

/// Integers wrap.
template <class A>
A product_of(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    return static_cast<A>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    return a * b;
  }
}

/// Min and Max take NaN over numbers; None takes the new value.
template <class A>
A reduced(ScatterReduction reduction, A current, A value) {
  switch (reduction) {
    case ScatterReduction::Sum:
      return static_cast<A>(current + value);
    case ScatterReduction::Product:
      return product_of(current, value);
    case ScatterReduction::Min:
      return value < current || value != value ? value : current;
    case ScatterReduction::Max:
      return current < value || value != value ? value : current;
    default:
      return value;
  }
}

}  // namespace pando::cpu
