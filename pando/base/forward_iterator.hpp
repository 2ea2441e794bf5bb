// What forward iterators have in common.
#pragma once

#include <cstddef>
#include <iterator>

namespace pando {

/// Gives `Derived`, which has `*`, `==` and `advance()`, the rest of a forward iterator over
/// `Value`.
template <class Derived, class Value, class Reference>
class ForwardIterator {
 public:
  // NOLINTBEGIN(readability-identifier-naming): the standard's names.
  using iterator_category = std::forward_iterator_tag;
  using value_type = Value;
  using difference_type = std::ptrdiff_t;
  using pointer = const Value*;
  using reference = Reference;
  // NOLINTEND(readability-identifier-naming)

  Derived& operator++() {
    static_cast<Derived&>(*this).advance();
    return static_cast<Derived&>(*this);
  }
  Derived operator++(int) {
    Derived before = static_cast<Derived&>(*this);
    ++*this;
    return before;
  }
  bool operator==(const ForwardIterator&) const = default;

 private:
  friend Derived;
  ForwardIterator() = default;
};

}  // namespace pando
