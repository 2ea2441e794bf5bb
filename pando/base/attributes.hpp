// Named compile-time parameters of ops and kernels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "pando/base/dtype.hpp"
#include "pando/base/shared_value.hpp"

namespace pando {

using Ints = std::vector<std::int64_t>;
using Floats = std::vector<double>;
using Texts = std::vector<std::string>;
using AttributeValue =
    std::variant<bool, std::int64_t, double, std::string, DType, Ints, Floats, Texts>;

/// A small map kept sorted by name, so that equal contents print and hash equally. Copies share the
/// entries until one of them changes.
class Attributes {
 public:
  using Entry = std::pair<std::string, AttributeValue>;

  Attributes() = default;
  Attributes(std::initializer_list<Entry> entries);
  /// In any order; of equal names the last one counts.
  static Attributes of(std::vector<Entry> entries);

  void set(std::string name, AttributeValue value);
  void erase(std::string_view name);
  /// nullptr when absent.
  const AttributeValue* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }

  /// Typed reads. The forms without a default throw InternalError when the attribute is absent; all
  /// throw InternalError when it has another type.
  bool flag(std::string_view name) const;
  bool flag_or(std::string_view name, bool fallback) const;
  std::int64_t integer(std::string_view name) const;
  std::int64_t integer_or(std::string_view name, std::int64_t fallback) const;
  double number(std::string_view name) const;
  double number_or(std::string_view name, double fallback) const;
  const std::string& text(std::string_view name) const;
  DType dtype(std::string_view name) const;
  const Ints& ints(std::string_view name) const;
  const Floats& floats(std::string_view name) const;

  auto begin() const { return entries_.get().begin(); }
  auto end() const { return entries_.get().end(); }
  bool empty() const { return entries_.empty(); }
  bool operator==(const Attributes&) const = default;

 private:
  SharedValue<std::vector<Entry>> entries_;
};

/// `true`, `3`, `0.5`, `"text"`, `float32`, `[1, 2]`, `[0.5, 1.0]`, `["a", "b"]`; doubles print so
/// that they parse back to the same bits and always contain one of `.`, `e`, `inf`, `nan`.
std::string attribute_text(const AttributeValue& value);

}  // namespace pando
