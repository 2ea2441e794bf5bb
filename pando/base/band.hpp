// Matrices of which only some diagonals hold anything.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "pando/base/attributes.hpp"

namespace pando {

/// From `begin` to before `end`.
struct IndexRange {
  std::int64_t begin = 0, end = 0;

  std::int64_t size() const { return std::max<std::int64_t>(0, end - begin); }
  bool contains(std::int64_t index) const { return begin <= index && index < end; }
  IndexRange intersection(const IndexRange& other) const {
    return {std::max(begin, other.begin), std::min(end, other.end)};
  }
  bool operator==(const IndexRange&) const = default;
};

/// The elements (row, column) with -lower <= column - row <= upper. {rows, 0} is the lower
/// triangle.
struct Band {
  std::int64_t lower = 0, upper = 0;

  Band transposed() const { return {upper, lower}; }
  /// Which of `count` columns the band has in any of `rows`.
  IndexRange columns(const IndexRange& rows, std::int64_t count) const {
    return {std::max<std::int64_t>(0, rows.begin - lower), std::min(count, rows.end + upper)};
  }
  IndexRange columns(std::int64_t row, std::int64_t count) const {
    return columns(IndexRange{row, row + 1}, count);
  }
  /// Which of `count` rows the band has in any of `columns`.
  IndexRange rows(const IndexRange& columns, std::int64_t count) const {
    return transposed().columns(columns, count);
  }
  /// Every row of a matrix has a column.
  bool meets_rows(std::int64_t rows, std::int64_t columns) const {
    return rows == 0 || (lower + upper >= 0 && upper >= 0 && rows - 1 - lower < columns);
  }
  Ints attribute() const { return {lower, upper}; }
  bool operator==(const Band&) const = default;
};

/// Attribute `name` of Band::attribute; nullopt where absent.
inline std::optional<Band> band_attribute(const Attributes& attributes, std::string_view name) {
  if (!attributes.has(name)) return std::nullopt;
  const Ints& sides = attributes.ints(name);
  return Band{sides.at(0), sides.at(1)};
}

}  // namespace pando
