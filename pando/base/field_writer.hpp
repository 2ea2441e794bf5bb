// How compound fields are made of plain ones, whether they are kept or only hashed.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "pando/base/attributes.hpp"

namespace pando {

/// Base of `Out`, which has value(number or enumerator) and raw(data, bytes).
template <class Out>
class FieldWriter {
 public:
  void text(std::string_view v) {
    count(v.size());
    out().raw(v.data(), v.size());
  }
  void ints(const Ints& values) {
    count(values.size());
    out().raw(values.data(), values.size() * sizeof(std::int64_t));
  }
  /// `items`: their number, then `write(item)` each.
  template <class Items, class Write>
  void list(const Items& items, Write write) {
    count(items.size());
    for (const auto& item : items) write(item);
  }
  void attributes(const Attributes& attributes) {
    count(static_cast<std::size_t>(std::distance(attributes.begin(), attributes.end())));
    for (const auto& [name, v] : attributes) {
      text(name);
      out().value(static_cast<std::uint8_t>(v.index()));
      std::visit([&](const auto& held) { attribute(held); }, v);
    }
  }

 private:
  FieldWriter() = default;
  friend Out;

  Out& out() { return static_cast<Out&>(*this); }
  void count(std::size_t number) { out().value(static_cast<std::uint64_t>(number)); }
  template <class T>
  void attribute(const T& held) {
    if constexpr (std::is_same_v<T, std::string>) {
      text(held);
    } else if constexpr (std::is_same_v<T, Texts>) {
      list(held, [&](const std::string& item) { text(item); });
    } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      out().value(held);
    } else {
      list(held, [&](auto item) { out().value(item); });
    }
  }
};

}  // namespace pando
