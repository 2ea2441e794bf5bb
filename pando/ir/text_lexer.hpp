// Splits the text form of an Ir into tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pando/ir/ir_data.hpp"

namespace pando {

struct Token {
  enum class Kind : std::uint8_t { Word, Text, Integer, Number, Symbol, End };
  Kind kind = Kind::End;
  std::string text;  // Text: without quotes and escapes
  TextPosition position;
};

/// `'x'` or a description, for errors.
std::string token_text(const Token& token);

/// One token of lookahead. Throws Error with line and column for characters that start no token and
/// for text without an end.
class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) { advance(); }

  const Token& peek() const { return token_; }
  Token take();

 private:
  void advance();
  void skip_blanks();
  void step();
  void read_text();
  void read_number();
  bool at_end() const { return at_ >= source_.size(); }
  char current() const { return at_end() ? '\0' : source_[at_]; }

  std::string_view source_;
  std::size_t at_ = 0;
  TextPosition here_{1, 1};
  Token token_;
};

}  // namespace pando
