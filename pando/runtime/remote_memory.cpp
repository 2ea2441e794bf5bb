#include "pando/runtime/remote_memory.hpp"

#include <cstring>

#include "pando/base/error.hpp"
#include "pando/runtime/device_memory.hpp"

namespace pando {
namespace {

class RamMemory final : public RemoteMemory {
 public:
  RamMemory(std::int64_t slots, std::size_t slot_bytes, const std::string& purpose)
      : RemoteMemory(slots, slot_bytes),
        memory_(slots * static_cast<std::int64_t>(slot_bytes), purpose) {}

  void load(std::int64_t slot, std::byte* to, std::size_t bytes) override {
    std::memcpy(to, row(slot), bytes);
  }
  ~RamMemory() override { end_snapshot(); }
  bool is_slow() const override { return false; }
  std::byte* row_in_memory(std::int64_t slot) const override { return row(slot); }

 private:
  void store_row(std::int64_t slot, const std::byte* from, std::size_t bytes) override {
    std::memcpy(row(slot), from, bytes);
    std::memset(row(slot) + bytes, 0, slot_bytes() - bytes);
  }
  std::byte* row(std::int64_t slot) const {
    return memory_.data() + static_cast<std::size_t>(slot) * slot_bytes();
  }

  DeviceMemory memory_;
};

}  // namespace

std::byte* RemoteMemory::row_in_memory(std::int64_t /*slot*/) const { return nullptr; }

void RemoteMemory::before_store(std::int64_t slot) {
  if (snapshot_ != nullptr) snapshot_->before_store(slot);
}

void RemoteMemory::store(std::int64_t slot, const std::byte* from, std::size_t bytes) {
  before_store(slot);
  store_row(slot, from, bytes);
}

std::shared_ptr<RowSnapshot> RemoteMemory::snapshot(std::shared_ptr<SnapshotRoom> room) {
  if (snapshot_ != nullptr) snapshot_->cancel();
  return snapshot_ = std::make_shared<RowSnapshot>(*this, std::move(room));
}

void RemoteMemory::end_snapshot() {
  if (snapshot_ != nullptr) snapshot_->lose_memory();
}

std::unique_ptr<RemoteMemory> make_ram_memory(const RemoteBufferDesc& buffer) {
  return std::make_unique<RamMemory>(
      buffer.entries,
      static_cast<std::size_t>(num_elements(buffer.shape)) * dtype_bytes(buffer.dtype),
      str_cat("remote buffer ", buffer.id));
}

}  // namespace pando
