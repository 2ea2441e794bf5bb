#include "pando/runtime/remote_memory.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "pando/base/alignment.hpp"
#include "pando/base/error.hpp"

namespace pando {
namespace {

/// Rows of one buffer in memory that it shares with others.
class RamMemory final : public RemoteMemory {
 public:
  RamMemory(const RemoteBufferDesc& buffer, std::shared_ptr<MemoryBlock> memory,
            std::byte* first_row)
      : RemoteMemory(buffer.entries, static_cast<std::size_t>(buffer.slot_bytes())),
        memory_(std::move(memory)),
        first_row_(first_row) {}

  void load(std::int64_t slot, std::byte* to, std::size_t bytes) override {
    std::copy_n(row(slot), bytes, to);
  }
  ~RamMemory() override { end_snapshot(); }
  bool is_slow() const override { return false; }
  std::byte* row_in_memory(std::int64_t slot) const override { return row(slot); }

 private:
  void store_row(std::int64_t slot, const std::byte* from, std::size_t bytes) override {
    std::byte* rest = std::copy_n(from, bytes, row(slot));
    std::fill_n(rest, slot_bytes() - bytes, std::byte{0});
  }
  std::byte* row(std::int64_t slot) const {
    return first_row_ + slot * align_bytes(static_cast<std::int64_t>(slot_bytes()));
  }

  std::shared_ptr<MemoryBlock> memory_;
  std::byte* first_row_;
};

/// Rows are operands of kernels.
std::int64_t bytes_of(const RemoteBufferDesc& buffer) {
  return buffer.entries * align_bytes(buffer.slot_bytes());
}

std::string named(const std::vector<const RemoteBufferDesc*>& buffers) {
  const RemoteBufferDesc& largest = **std::ranges::max_element(
      buffers, {}, [](const RemoteBufferDesc* buffer) { return bytes_of(*buffer); });
  std::string name = str_cat("remote buffer ", largest.id);
  if (buffers.size() == 1) return name;
  return str_cat(buffers.size(), " remote buffers, the largest of them ", name, " (",
                 bytes_of(largest), " bytes)");
}

}  // namespace

std::byte* RemoteMemory::row_in_memory(std::int64_t /*slot*/) const { return nullptr; }

void RemoteMemory::before_store(std::int64_t slot, const StopCheck& check) {
  if (snapshot_ != nullptr) snapshot_->before_store(slot, check);
}

void RemoteMemory::store(std::int64_t slot, const std::byte* from, std::size_t bytes,
                         const StopCheck& check) {
  before_store(slot, check);
  store_row(slot, from, bytes);
}

std::shared_ptr<RowSnapshot> RemoteMemory::snapshot(std::shared_ptr<SnapshotRoom> room) {
  cancel_snapshot();
  return snapshot_ = std::make_shared<RowSnapshot>(*this, std::move(room));
}

void RemoteMemory::cancel_snapshot() {
  if (snapshot_ != nullptr) snapshot_->cancel();
}

void RemoteMemory::end_snapshot() {
  if (snapshot_ != nullptr) snapshot_->lose_memory();
}

std::vector<std::unique_ptr<RemoteMemory>> make_ram_memories(
    const std::vector<const RemoteBufferDesc*>& buffers, Device& device) {
  std::int64_t bytes = 0;
  std::vector<std::int64_t> offsets;
  offsets.reserve(buffers.size());
  for (const RemoteBufferDesc* buffer : buffers) {
    offsets.push_back(bytes);
    bytes += bytes_of(*buffer);
  }
  std::vector<std::unique_ptr<RemoteMemory>> memories;
  if (buffers.empty()) return memories;
  const std::shared_ptr<MemoryBlock> memory = device.allocate_host(bytes, named(buffers));
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    memories.push_back(
        std::make_unique<RamMemory>(*buffers[i], memory, memory->data() + offsets[i]));
  }
  return memories;
}

}  // namespace pando
