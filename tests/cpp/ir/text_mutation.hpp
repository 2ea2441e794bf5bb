// Changes that make a text almost right.
#pragma once

#include <cctype>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace pando::testing {

/// Start and length of the words, numbers, texts and signs of a text.
inline std::vector<std::pair<std::size_t, std::size_t>> tokens_of(const std::string& text) {
  std::vector<std::pair<std::size_t, std::size_t>> tokens;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    if (text[at] == '"') {
      end = text.find('"', end) + 1;
      if (end == 0) end = text.size();
    } else if (std::isalnum(text[at]) != 0) {
      while (end < text.size() && std::isalnum(text[end]) != 0) ++end;
    }
    if (text[at] != ' ' && text[at] != '\n') tokens.emplace_back(at, end - at);
    at = end;
  }
  return tokens;
}

/// Puts one token in place of another, repeats or drops a line, or makes a number extreme.
inline void mutate_text(std::string& text, std::mt19937_64& random) {
  const auto pick = [&](std::size_t count) { return random() % count; };
  const auto tokens = tokens_of(text);
  const auto [at, size] = tokens[pick(tokens.size())];
  const std::size_t line = text.rfind('\n', at) + 1, end = text.find('\n', at) + 1;
  static constexpr const char* kNumbers[] = {"0",    "-1",         "1",
                                             "7",    "2147483648", "9223372036854775807",
                                             "1e99", "nan",        "99999999999999999999"};
  switch (pick(6)) {
    case 0:
      text.erase(line, end - line);
      break;
    case 1:
      text.insert(line, text.substr(line, end - line));
      break;
    case 2:
      text.replace(at, size, kNumbers[pick(std::size(kNumbers))]);
      break;
    case 3:
      text.erase(at, size);
      break;
    default: {
      const auto [from, length] = tokens[pick(tokens.size())];
      text.replace(at, size, text.substr(from, length));
    }
  }
}

}  // namespace pando::testing
