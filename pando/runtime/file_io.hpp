// How rows move between memory and files: by io_uring, several pieces at a time, or one by one.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pando/runtime/io_ring.hpp"
#include "pando/runtime/remote_settings.hpp"

namespace pando {

/// What direct I/O asks of offsets and memory, at most.
inline constexpr std::size_t kFilePage = 4096;
/// A transfer is cut into pieces of this size.
inline constexpr std::size_t kFilePieceBytes = std::size_t{1} << 20;

/// Page-aligned. Throws OutOfMemory.
class AlignedMemory {
 public:
  explicit AlignedMemory(std::size_t bytes);
  std::byte* get() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
};

/// What transfers need, kept between them. Methods may be called from any thread.
class FileIo {
 public:
  /// Pieces of a transfer that the kernel has at a time.
  static constexpr std::size_t kDepth = 8;

  /// Throws RuntimeFault: io_uring is wanted and not to be had.
  explicit FileIo(IoMethod wanted);

  IoMethod method() const;
  /// Frees what is kept between transfers.
  void release();
  /// For people: "io_uring", "threads", or "threads (io_uring is not used: ...)".
  std::string describe() const;

 private:
  friend class FileTransfer;
  /// What one transfer at a time uses.
  struct Lane {
    std::unique_ptr<IoRing> ring;  // none: pieces move one by one
    std::vector<FilePiece> pieces;
    std::vector<AlignedMemory> bounce;

    explicit Lane(std::unique_ptr<IoRing> its_ring);
  };

  std::unique_ptr<Lane> take();
  void give_back(std::unique_ptr<Lane> lane);
  std::unique_ptr<Lane> make_lane();

  IoMethod wanted_;
  IoMethod method_;
  std::string why_not_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Lane>> spare_;
  pid_t owner_;  // of their rings
};

/// Pieces that go one way between a file and memory, by their numbers 0, 1, ...: at most `depth()`
/// numbers are under way or wait to be looked at. Used by one thread.
class FileTransfer {
 public:
  enum class Direction : std::uint8_t { Read, Write };

  FileTransfer(FileIo& io, int file, Direction direction);
  /// Waits for what is under way.
  ~FileTransfer();
  FileTransfer(const FileTransfer&) = delete;
  FileTransfer& operator=(const FileTransfer&) = delete;

  std::size_t depth() const { return lane_->pieces.size(); }
  /// Page-aligned memory of kFilePieceBytes for piece `number`, for rows that do not lie so.
  std::byte* bounce_memory(std::size_t number);
  void start(std::size_t number, std::byte* memory, std::size_t bytes, std::uint64_t offset);
  const std::byte* memory_of(std::size_t number) const {
    return lane_->pieces[number % depth()].memory;
  }
  /// Once it has ended, well or not.
  const FilePiece& wait(std::size_t number);

 private:
  FileIo& io_;
  std::unique_ptr<FileIo::Lane> lane_;
  int file_;
  Direction direction_;
};

}  // namespace pando
