// What parsers of text forms have in common: tokens, numbers, lists, types.
#pragma once

#include <limits>
#include <string>
#include <string_view>

#include "pando/base/shape.hpp"
#include "pando/base/variable_settings.hpp"
#include "pando/ir/text_lexer.hpp"

namespace pando {

/// Every function that takes something throws Error with line, column, what was wanted and what was
/// given if it is not there.
class TextReader {
 public:
  explicit TextReader(std::string_view text) : lexer_(text) {}

 protected:
  [[noreturn]] void refuse(const Token& token, const std::string& wanted) const;
  const Token& peek() const { return lexer_.peek(); }
  Token take() { return lexer_.take(); }

  bool is_word(std::string_view word) const;
  bool is_symbol(std::string_view symbol) const;
  bool take_if_word(std::string_view word);
  bool take_if_symbol(std::string_view symbol);
  void word(const std::string& wanted);
  void symbol(const std::string& wanted);
  /// In quotes; `what` it is.
  std::string text(const std::string& what);
  std::int64_t integer(std::int64_t least = std::numeric_limits<std::int64_t>::min());
  /// An integer that fits into 32 bits.
  int small_integer(const std::string& what);
  double number_of(const Token& token) const;
  Shape shape();
  DType dtype();
  /// As `settings_text` prints them.
  VariableSettings settings();

  /// `item()` until `close`, separated by commas.
  template <class Item>
  void list(const std::string& close, Item item) {
    if (take_if_symbol(close)) return;
    do {
      item();
    } while (take_if_symbol(","));
    if (!take_if_symbol(close)) refuse(peek(), "',' or '" + close + "'");
  }

 private:
  std::int64_t integer_of(const Token& token) const;

  Lexer lexer_;
};

/// `text` in quotes, as the parsers take it.
std::string quoted(std::string_view text);
/// ` groups [0, 1] per_replica remote 3 slot 0 shards 2`: what is not as it is by default.
std::string settings_text(const VariableSettings& settings);

/// `text(item), text(item), ...`.
template <class Items, class Text>
std::string joined(const Items& items, Text text) {
  std::string result;
  for (const auto& item : items) {
    if (!result.empty()) result += ", ";
    result += text(item);
  }
  return result;
}

}  // namespace pando
