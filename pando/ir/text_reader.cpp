#include "pando/ir/text_reader.hpp"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "pando/base/attributes.hpp"
#include "pando/base/error.hpp"

namespace pando {

void TextReader::refuse(const Token& token, const std::string& wanted) const {
  throw Error(str_cat("line ", token.position.line, ", column ", token.position.column, ": wanted ",
                      wanted, "; given ", token_text(token)));
}

bool TextReader::is_word(std::string_view word) const {
  return peek().kind == Token::Kind::Word && peek().text == word;
}

bool TextReader::is_symbol(std::string_view symbol) const {
  return peek().kind == Token::Kind::Symbol && peek().text == symbol;
}

bool TextReader::take_if_word(std::string_view word) {
  if (!is_word(word)) return false;
  take();
  return true;
}

bool TextReader::take_if_symbol(std::string_view symbol) {
  if (!is_symbol(symbol)) return false;
  take();
  return true;
}

void TextReader::word(const std::string& wanted) {
  if (!take_if_word(wanted)) refuse(peek(), str_cat("'", wanted, "'"));
}

void TextReader::symbol(const std::string& wanted) {
  if (!take_if_symbol(wanted)) refuse(peek(), str_cat("'", wanted, "'"));
}

std::string TextReader::text(const std::string& what) {
  if (peek().kind != Token::Kind::Text) refuse(peek(), str_cat(what, ", in quotes"));
  return take().text;
}

std::int64_t TextReader::integer_of(const Token& token) const {
  std::int64_t value = 0;
  const char* end = token.text.data() + token.text.size();
  const auto [stop, error] = std::from_chars(token.text.data(), end, value);
  if (token.kind != Token::Kind::Integer || error != std::errc() || stop != end) {
    refuse(token, "an integer of 64 bits");
  }
  return value;
}

std::int64_t TextReader::integer(std::int64_t least) {
  const Token token = take();
  const std::int64_t value = integer_of(token);
  if (value < least) refuse(token, str_cat("an integer of ", least, " or more"));
  return value;
}

int TextReader::small_integer(const std::string& what) {
  const Token token = take();
  const std::int64_t value = integer_of(token);
  if (value != static_cast<int>(value)) refuse(token, what);
  return static_cast<int>(value);
}

double TextReader::number_of(const Token& token) const {
  if (token.kind == Token::Kind::Word && token.text == "nan") return std::nan("");
  if (token.kind == Token::Kind::Word && token.text == "inf") return HUGE_VAL;
  char* end = nullptr;
  const double value = std::strtod(token.text.c_str(), &end);
  const bool numeric = token.kind == Token::Kind::Number || token.kind == Token::Kind::Integer;
  if (!numeric || end != token.text.c_str() + token.text.size()) refuse(token, "a number");
  return value;
}

Shape TextReader::shape() {
  symbol("(");
  Shape result;
  while (!take_if_symbol(")")) {
    result.push_back(integer(0));
    if (take_if_symbol(")")) break;
    symbol(",");
  }
  return result;
}

DType TextReader::dtype() {
  const Token token = take();
  for (std::size_t i = 0; i < kDTypeTraits.size(); ++i) {
    if (kDTypeTraits[i].name == token.text && token.kind == Token::Kind::Word) {
      return static_cast<DType>(i);
    }
  }
  refuse(token, "an element type such as float32");
}

VariableSettings TextReader::settings() {
  VariableSettings settings;
  if (take_if_word("groups")) {
    symbol("[");
    list("]", [&] { settings.groups.push_back(integer(0)); });
  }
  settings.entry_per_replica = take_if_word("per_replica");
  if (!take_if_word("remote")) return settings;
  settings.remote_buffer = integer(1);
  word("slot");
  settings.slot = integer(0);
  if (take_if_word("shards")) settings.shard_over = integer(1);
  return settings;
}

std::string quoted(std::string_view text) {
  return attribute_text(AttributeValue(std::string(text)));
}

std::string settings_text(const VariableSettings& settings) {
  std::string text;
  if (!settings.groups.empty()) {
    text += str_cat(" groups [",
                    joined(settings.groups, [](auto group) { return std::to_string(group); }), "]");
  }
  if (settings.entry_per_replica) text += " per_replica";
  if (settings.remote_buffer == 0) return text;
  text += str_cat(" remote ", settings.remote_buffer, " slot ", settings.slot);
  return settings.shard_over > 1 ? str_cat(text, " shards ", settings.shard_over) : text;
}

}  // namespace pando
