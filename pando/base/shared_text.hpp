// Text that does not change and that its copies share.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "pando/base/shared_value.hpp"

namespace pando {

/// For the texts that ops have in common: the file of a line, name scopes. A copy allocates
/// nothing.
class SharedText {
 public:
  SharedText() = default;
  SharedText(std::string text) : text_(std::move(text)) {}
  SharedText(const char* text) : SharedText(std::string(text)) {}

  const std::string& str() const { return text_.get(); }
  operator const std::string&() const { return str(); }
  operator std::string_view() const { return str(); }
  bool empty() const { return text_.empty(); }
  /// Whether both are copies of one.
  bool is_shared_with(const SharedText& other) const { return text_.is_shared_with(other.text_); }

  friend bool operator==(const SharedText&, const SharedText&) = default;
  template <std::convertible_to<std::string_view> Text>
  friend bool operator==(const SharedText& a, const Text& b) {
    return a.str() == std::string_view(b);
  }

 private:
  SharedValue<std::string> text_;
};

/// Keeps one copy of each text.
class SharedTexts {
 public:
  SharedText of(const std::string& text) { return texts_.try_emplace(text, text).first->second; }

 private:
  std::unordered_map<std::string, SharedText> texts_;
};

}  // namespace pando
