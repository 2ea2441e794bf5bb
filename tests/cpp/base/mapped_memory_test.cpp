#include "pando/base/mapped_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

namespace pando {
namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20;

TEST(MappedMemory, IsZeroAndBeginsAtAPage) {
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{4097}, kLargePage - 1, kLargePage, 3 * kLargePage + 5}) {
    std::byte* data = map_memory(bytes);
    const std::size_t page = bytes < kLargePage ? 4096 : kLargePage;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % page, 0U) << bytes;
    EXPECT_TRUE(std::all_of(data, data + bytes, [](std::byte b) { return b == std::byte{0}; }));
    std::fill_n(data, bytes, std::byte{1});
    unmap_memory(data, bytes);
  }
}

TEST(MappedMemory, TooMuchIsBadAlloc) {
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX / 2}) {
    EXPECT_THROW(map_memory(bytes), std::bad_alloc) << bytes;
  }
}

TEST(MappedMemory, TheResourceTakesPiecesOfEverySize) {
  std::pmr::memory_resource& memory = large_page_memory();
  std::vector<std::pair<void*, std::size_t>> pieces;
  for (std::size_t bytes = 64; bytes <= 4 * kLargePage; bytes *= 4) {
    void* data = memory.allocate(bytes, 64);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 64, 0U);
    std::fill_n(static_cast<std::byte*>(data), bytes, std::byte{1});
    pieces.emplace_back(data, bytes);
  }
  for (const auto& [data, bytes] : pieces) memory.deallocate(data, bytes, 64);
}

}  // namespace
}  // namespace pando
