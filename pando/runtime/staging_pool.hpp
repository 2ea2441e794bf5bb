// Memory for the values of stores under way, used again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace pando {

/// The value of a store, which loads of the same row may share.
struct StagingCopy {
  struct FreeMemory {
    void operator()(std::byte* pages) const;
  };
  std::unique_ptr<std::byte, FreeMemory> memory;
  std::size_t bytes = 0;  // that it has room for
};

/// Whole pages, at most `limit` bytes in use and spare together. Used under the caller's lock.
class StagingPool {
 public:
  explicit StagingPool(std::int64_t limit) : limit_(limit) {}

  std::int64_t limit() const { return limit_; }
  bool has_room(std::size_t bytes) const;
  /// `most_copies`: how many may be out at once, this one included: handing them back needs no
  /// memory then. Throws OutOfMemory.
  std::shared_ptr<StagingCopy> take(std::size_t bytes, std::size_t most_copies);
  /// `copy` becomes empty; its memory is spare when nobody else has it.
  void give_back(std::shared_ptr<StagingCopy>& copy);

 private:
  /// A spare that is not much larger, or nullptr.
  std::shared_ptr<StagingCopy> take_spare(std::size_t bytes);
  /// Frees the oldest spares until `bytes` of new memory keep to the limit.
  void make_room(std::size_t bytes);

  std::int64_t limit_;
  std::int64_t used_ = 0;
  std::vector<std::shared_ptr<StagingCopy>> spare_;  // the oldest first
  std::int64_t spare_bytes_ = 0;
};

}  // namespace pando
