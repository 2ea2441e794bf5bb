#include "pando/base/nearest_names.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "pando/base/error.hpp"

namespace pando {
namespace {

constexpr std::size_t kMostNear = 3;
constexpr std::size_t kFew = 20;

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

/// Insertions, deletions and replacements that make one of the other (Levenshtein).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row[b.size()];
}

std::string list_text(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += str_cat(text.empty() ? "'" : ", '", name, "'");
  return text;
}

}  // namespace

std::string nearest_names(std::string_view name, const std::vector<std::string>& known) {
  if (known.empty()) return "there are none";
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const std::string& other : known) {
    const std::size_t most = std::max(name.size(), other.size()) * 2 / 5;
    const std::size_t shorter = std::min(name.size(), other.size());
    if (std::max(name.size(), other.size()) - shorter > most) continue;
    const std::size_t apart = distance(name, other);
    if (apart <= most) near.emplace_back(apart, other);
  }
  std::sort(near.begin(), near.end());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(near.size(), kMostNear); ++i) {
    names.push_back(near[i].second);
  }
  if (!names.empty()) return "the nearest names are " + list_text(names);
  if (known.size() <= kFew) return "there are " + list_text(known);
  return str_cat("none of the ", known.size(), " names is like it");
}

}  // namespace pando
