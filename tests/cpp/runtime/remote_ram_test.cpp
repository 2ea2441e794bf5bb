#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "pando/backends/cpu/cpu_device.hpp"
#include "pando/base/error.hpp"
#include "pando/runtime/remote_memory.hpp"

namespace pando::testing {
namespace {

using Row = std::vector<std::byte>;

Row pattern(std::size_t bytes, int seed) {
  Row row(bytes);
  for (std::size_t i = 0; i < bytes; ++i) row[i] = static_cast<std::byte>(31 * i + 7 * seed + 1);
  return row;
}

Row loaded(RemoteMemory& memory, std::int64_t slot) {
  Row row(memory.slot_bytes());
  memory.load(slot, row.data(), row.size());
  return row;
}

std::vector<const RemoteBufferDesc*> pointers(const std::vector<RemoteBufferDesc>& buffers) {
  std::vector<const RemoteBufferDesc*> result;
  for (const RemoteBufferDesc& buffer : buffers) result.push_back(&buffer);
  return result;
}

const std::unique_ptr<Device> kRamDevice = make_cpu_device(1);

std::uintptr_t address(const RemoteMemory& memory, std::int64_t slot) {
  return reinterpret_cast<std::uintptr_t>(memory.row_in_memory(slot));
}

const std::vector<RemoteBufferDesc> kBuffers = {{1, DType::Float32, {1000, 300}, 2},
                                                {2, DType::UInt8, {1}, 3},
                                                {3, DType::Float16, {0}, 4},
                                                {4, DType::Int32, {17, 5}, 7},
                                                {5, DType::Float32, {}, 1}};

TEST(RemoteRam, RowsAreZeroAndKeepWhatIsStored) {
  const auto memories = make_ram_memories(pointers(kBuffers), *kRamDevice);
  ASSERT_EQ(memories.size(), kBuffers.size());
  for (const auto& memory : memories) {
    for (std::int64_t slot = 0; slot < memory->slots(); ++slot) {
      EXPECT_EQ(loaded(*memory, slot), Row(memory->slot_bytes()));
    }
  }
  const auto row_of = [&](std::size_t buffer, std::int64_t slot) {
    return pattern(memories[buffer]->slot_bytes(), static_cast<int>(10 * buffer + slot));
  };
  for (std::size_t i = 0; i < memories.size(); ++i) {
    EXPECT_EQ(memories[i]->slots(), kBuffers[i].entries);
    for (std::int64_t slot = 0; slot < memories[i]->slots(); ++slot) {
      memories[i]->store(slot, row_of(i, slot).data(), memories[i]->slot_bytes());
    }
  }
  for (std::size_t i = 0; i < memories.size(); ++i) {
    for (std::int64_t slot = 0; slot < memories[i]->slots(); ++slot) {
      EXPECT_EQ(loaded(*memories[i], slot), row_of(i, slot)) << i << ", " << slot;
    }
  }
}

TEST(RemoteRam, BuffersShareLargePages) {
  const auto memories = make_ram_memories(pointers(kBuffers), *kRamDevice);
  constexpr std::uintptr_t kLargePage = 2 << 20;
  EXPECT_EQ(address(*memories.front(), 0) % kLargePage, 0);
  std::uintptr_t end = address(*memories.front(), 0);
  for (const auto& memory : memories) {
    EXPECT_EQ(address(*memory, 0) % 64, 0);
    EXPECT_GE(address(*memory, 0), end);
    EXPECT_LT(address(*memory, 0) - end, 64);
    end = address(*memory, memory->slots() - 1) + memory->slot_bytes();
  }
}

TEST(RemoteRam, OutlivesItsNeighbours) {
  auto memories = make_ram_memories(pointers(kBuffers), *kRamDevice);
  const Row row = pattern(memories[3]->slot_bytes(), 5);
  memories[3]->store(6, row.data(), row.size());
  for (std::size_t i : {0, 1, 2, 4}) memories[i].reset();
  EXPECT_EQ(loaded(*memories[3], 6), row);
}

TEST(RemoteRam, WhatThisMachineDoesNotHaveIsRefusedByName) {
  const std::vector<RemoteBufferDesc> buffers = {{7, DType::Float32, {1}, 1},
                                                 {8, DType::Float32, {1 << 30}, 1 << 20}};
  try {
    make_ram_memories(pointers(buffers), *kRamDevice);
    FAIL() << "nothing was thrown";
  } catch (const OutOfMemory& error) {
    const std::string wanted = str_cat("2 remote buffers, the largest of them remote buffer 8 (",
                                       std::int64_t{1} << 52, " bytes)");
    EXPECT_NE(std::string(error.what()).find(wanted), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace pando::testing
