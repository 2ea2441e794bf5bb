// Copies of many short rows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pando::cpu {

/// The first row, and the bytes from one row to the next.
struct SourceRows {
  const std::byte* first;
  std::int64_t step;
};
struct TargetRows {
  std::byte* first;
  std::int64_t step;
};

/// Copies `rows` rows of `row_bytes` bytes. Source and target do not overlap.
void copy_rows(const SourceRows& from, const TargetRows& to, std::int64_t row_bytes,
               std::int64_t rows);

}  // namespace pando::cpu
