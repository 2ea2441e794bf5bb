// The slots of one remote buffer of one replica, in one of the memory tiers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "pando/program/program.hpp"
#include "pando/runtime/device.hpp"
#include "pando/runtime/row_snapshot.hpp"

namespace pando {

/// Slots of equal size; zero until stored. Calls for different slots may come at the same time;
/// calls for one slot must not, unless all of them load.
class RemoteMemory {
 public:
  RemoteMemory(std::int64_t slots, std::size_t slot_bytes)
      : slots_(slots), slot_bytes_(slot_bytes) {}
  virtual ~RemoteMemory() = default;
  RemoteMemory(const RemoteMemory&) = delete;
  RemoteMemory& operator=(const RemoteMemory&) = delete;

  std::int64_t slots() const { return slots_; }
  std::size_t slot_bytes() const { return slot_bytes_; }

  /// The first `bytes` of the slot, at most slot_bytes(). Throws RuntimeFault: what was stored
  /// cannot be read or is damaged; `to` is then undefined.
  virtual void load(std::int64_t slot, std::byte* to, std::size_t bytes) = 0;
  /// `bytes` from `from`, then zeros up to slot_bytes(). Throws RuntimeFault: it cannot be written;
  /// the slot must then be stored again before it is loaded. Throws what `check` does, with the
  /// slot as it was, while it waits for the reader of a snapshot.
  void store(std::int64_t slot, const std::byte* from, std::size_t bytes,
             const StopCheck& check = {});
  /// Where the slot's slot_bytes() are, if that is memory that may be read and, after
  /// before_store(), written; else nullptr.
  virtual std::byte* row_in_memory(std::int64_t slot) const;
  /// `check`: see store.
  void before_store(std::int64_t slot, const StopCheck& check = {});
  /// Whether a transfer takes so long that the program should go on meanwhile.
  virtual bool is_slow() const = 0;

  /// The rows as they are now. Between transfers; the one before, if any, is cancelled.
  std::shared_ptr<RowSnapshot> snapshot(std::shared_ptr<SnapshotRoom> room);
  void cancel_snapshot();

 protected:
  /// See store.
  virtual void store_row(std::int64_t slot, const std::byte* from, std::size_t bytes) = 0;
  /// To be called by the destructors of classes that keep the rows.
  void end_snapshot();

 private:
  std::int64_t slots_;
  std::size_t slot_bytes_;
  std::shared_ptr<RowSnapshot> snapshot_;
};

/// A memory for each buffer, which `device` reaches. They lie side by side, so that large pages
/// hold small ones too: copies of rows would miss the TLB at every 4 KiB. Throws OutOfMemory.
std::vector<std::unique_ptr<RemoteMemory>> make_ram_memories(
    const std::vector<const RemoteBufferDesc*>& buffers, Device& device);

}  // namespace pando
