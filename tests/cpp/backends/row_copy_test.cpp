#include "pando/backends/cpu/row_copy.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/cpp/backends/simd_targets.hpp"

namespace pando::testing {
namespace {

/// Copies rows between padded buffers and compares every byte of the target, also those between
/// and around the rows, with a copy byte by byte.
void expect_copied(std::int64_t row_bytes, std::int64_t rows, std::int64_t from_gap,
                   std::int64_t to_gap, std::int64_t offset) {
  std::mt19937 random(static_cast<unsigned>(row_bytes * 131 + rows));
  const std::int64_t from_step = row_bytes + from_gap, to_step = row_bytes + to_gap;
  std::vector<std::byte> from(static_cast<std::size_t>(offset + rows * from_step + row_bytes));
  for (std::byte& byte : from) byte = static_cast<std::byte>(random());
  std::vector<std::byte> to(static_cast<std::size_t>(2 * offset + rows * to_step), std::byte{0xa5});
  std::vector<std::byte> expected = to;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < row_bytes; ++i) {
      expected[static_cast<std::size_t>(offset + r * to_step + i)] =
          from[static_cast<std::size_t>(offset + r * from_step + i)];
    }
  }
  cpu::copy_rows({from.data() + offset, from_step}, {to.data() + offset, to_step}, row_bytes, rows);
  EXPECT_EQ(to, expected) << rows << " rows of " << row_bytes << " bytes, gaps " << from_gap
                          << " and " << to_gap << ", offset " << offset;
}

class RowCopy : public SimdTargetTest {};

INSTANTIATE_TEST_SUITE_P(Targets, RowCopy, kSimdTargets, target_name);

TEST_P(RowCopy, EveryLengthCopiesItsBytesAndNoOthers) {
  for (std::int64_t row_bytes = 0; row_bytes <= 600; ++row_bytes) {
    for (const std::int64_t offset : {0, 1, 4}) {
      expect_copied(row_bytes, 5, 0, 3, offset);
      expect_copied(row_bytes, 3, 13, 0, offset);
    }
  }
}

TEST_P(RowCopy, LongRows) {
  for (const std::int64_t row_bytes : {2047, 2048, 2049, 5000}) {
    expect_copied(row_bytes, 4, 8, 16, 1);
  }
}

TEST_P(RowCopy, NoRows) { expect_copied(100, 0, 0, 0, 1); }

TEST_P(RowCopy, OneSourceRowInMany) { expect_copied(77, 6, -77, 9, 2); }

}  // namespace
}  // namespace pando::testing
