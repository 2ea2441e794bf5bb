#include "pando/ir/text_lexer.hpp"

#include "pando/base/error.hpp"

namespace pando {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

[[noreturn]] void fail(const TextPosition& position, const std::string& message) {
  throw Error(str_cat("line ", position.line, ", column ", position.column, ": ", message));
}

}  // namespace

std::string token_text(const Token& token) {
  if (token.kind == Token::Kind::End) return "the end of the text";
  if (token.kind != Token::Kind::Text) return str_cat("'", token.text, "'");
  constexpr std::size_t kShown = 40;
  return str_cat('"', token.text.substr(0, kShown), token.text.size() > kShown ? "...\"" : "\"");
}

Token Lexer::take() {
  Token taken = std::move(token_);
  advance();
  return taken;
}

void Lexer::step() {
  if (source_[at_] == '\n') {
    ++here_.line;
    here_.column = 1;
  } else {
    ++here_.column;
  }
  ++at_;
}

void Lexer::skip_blanks() {
  while (!at_end()) {
    const char c = current();
    if (c == '#') {
      while (!at_end() && current() != '\n') step();
    } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      step();
    } else {
      return;
    }
  }
}

void Lexer::read_text() {
  token_.kind = Token::Kind::Text;
  step();
  while (!at_end() && current() != '"') {
    char c = current();
    if (c == '\\') {
      step();
      c = current();
      if (c != '"' && c != '\\' && c != 'n') fail(here_, "wanted \\\", \\\\ or \\n");
      if (c == 'n') c = '\n';
    }
    token_.text += c;
    step();
  }
  if (at_end()) fail(token_.position, "a text starts here and has no end");
  step();
}

/// Integers, floats, `-inf`; a lone `-` or `->` is a symbol.
void Lexer::read_number() {
  const auto keep = [&] {
    token_.text += current();
    step();
  };
  if (current() == '-') {
    keep();
    if (current() == '>' || (!is_digit(current()) && current() != 'i')) {
      token_.kind = Token::Kind::Symbol;
      if (current() == '>') keep();
      return;
    }
  }
  token_.kind = Token::Kind::Integer;
  if (current() == 'i') {
    while (is_word_start(current())) keep();
    if (token_.text != "-inf") fail(token_.position, str_cat("wanted -inf, given ", token_.text));
    token_.kind = Token::Kind::Number;
    return;
  }
  while (is_digit(current()) || current() == '.' || current() == 'e' ||
         ((current() == '-' || current() == '+') && token_.text.back() == 'e')) {
    if (!is_digit(current())) token_.kind = Token::Kind::Number;
    keep();
  }
}

void Lexer::advance() {
  skip_blanks();
  token_ = {Token::Kind::End, "", here_};
  if (at_end()) return;
  const char c = current();
  if (c == '"') return read_text();
  if (is_digit(c) || c == '-') return read_number();
  if (is_word_start(c)) {
    token_.kind = Token::Kind::Word;
    while (is_word_start(current()) || is_digit(current())) {
      token_.text += current();
      step();
    }
    // The names of text forms are the only words with a dash.
    for (const std::string_view form : {"-ir", "-steps"}) {
      if (token_.text != "pando" || source_.substr(at_, form.size()) != form) continue;
      for (std::size_t i = 0; i < form.size(); ++i) step();
      token_.text += form;
    }
    return;
  }
  constexpr std::string_view kSymbols = "(){}[],:=.%";
  if (kSymbols.find(c) == std::string_view::npos) {
    fail(here_, str_cat("wanted a word, a number, a text or one of ", kSymbols, "; given ",
                        c >= ' ' && c <= '~' ? str_cat("'", c, "'")
                                             : str_cat("byte ", static_cast<int>(c) & 255)));
  }
  token_.kind = Token::Kind::Symbol;
  token_.text = c;
  step();
}

}  // namespace pando
