// Where rows lie that kernels use where they were loaded from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pando {

/// By Instruction::row: the place of what was loaded last, and the pointers that follow it.
class LoadedRows {
 public:
  explicit LoadedRows(std::size_t rows) : rows_(rows) {}

  std::byte* place(std::int32_t row) const { return rows_[static_cast<std::size_t>(row)].place; }
  /// From now on `row` is at `place`.
  void move(std::int32_t row, std::byte* place) {
    Row& moved = rows_[static_cast<std::size_t>(row)];
    moved.place = place;
    for (const Follower& follower : moved.followers) *follower.pointer = place + follower.offset;
  }
  /// From now on `pointer`, which must stay where it is, is `offset` bytes into the row.
  void follow(std::int32_t row, std::int64_t offset, std::byte** pointer) {
    rows_[static_cast<std::size_t>(row)].followers.push_back({pointer, offset});
  }

 private:
  struct Follower {
    std::byte** pointer = nullptr;
    std::int64_t offset = 0;
  };
  struct Row {
    std::byte* place = nullptr;
    std::vector<Follower> followers;
  };

  std::vector<Row> rows_;
};

}  // namespace pando
