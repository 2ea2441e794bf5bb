// Requests to files that the kernel works on side by side: io_uring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace pando {

/// A part of a file to be read or written.
struct FilePiece {
  int file = -1;
  bool is_write = false;
  std::byte* memory = nullptr;  // not written to by a write
  std::size_t bytes = 0;
  std::uint64_t offset = 0;

  // Where it stands.
  std::size_t done = 0;  // bytes
  int error = 0;         // errno
  bool has_ended = true;

  /// A read came to the end of the file.
  bool is_missing() const { return has_ended && error == 0 && done < bytes; }
  /// Takes what the system said of the rest: bytes, or -errno. True when it is to be asked again.
  bool take(long result);
};

/// Reads or writes a piece on the calling thread, with pread or pwrite.
void transfer_now(FilePiece& piece);

/// Used by one thread at a time.
class IoRing {
 public:
  /// Room for `depth` pieces under way. nullptr where this build, kernel or sandbox has none, or
  /// memory is short; `why_not` then says which.
  static std::unique_ptr<IoRing> make(unsigned depth, std::string& why_not);
  /// No piece is under way.
  ~IoRing();
  IoRing(const IoRing&) = delete;
  IoRing& operator=(const IoRing&) = delete;

  /// Both piece and memory must stay until `wait`. No other piece may be under way on this one's
  /// bytes.
  void start(FilePiece& piece) noexcept;
  /// Until the piece has ended. A ring that cannot tell any more ends the process: the kernel may
  /// write to memory that nobody could give back to others.
  void wait(const FilePiece& piece) noexcept;

 private:
  struct Ring;

  explicit IoRing(std::unique_ptr<Ring> ring);
  void reap() noexcept;

  std::unique_ptr<Ring> ring_;
};

}  // namespace pando
