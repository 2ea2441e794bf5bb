// Values that do not change and that their copies share.
#pragma once

#include <memory>
#include <utility>

namespace pando {

/// A `T` of which a copy allocates nothing. Takes no memory of its own while it is `T()`.
template <class T>
class SharedValue {
 public:
  SharedValue() = default;
  SharedValue(T value)
      : value_(value == T() ? nullptr : std::make_shared<const T>(std::move(value))) {}

  const T& get() const {
    static const T nothing;
    return value_ == nullptr ? nothing : *value_;
  }
  /// Whether it is `T()`.
  bool empty() const { return value_ == nullptr; }
  /// Whether both are copies of one.
  bool is_shared_with(const SharedValue& other) const { return value_ == other.value_; }

  friend bool operator==(const SharedValue& a, const SharedValue& b) {
    return a.is_shared_with(b) || a.get() == b.get();
  }

 private:
  std::shared_ptr<const T> value_;  // nullptr: T()
};

}  // namespace pando
