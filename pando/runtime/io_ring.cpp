#include "pando/runtime/io_ring.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "pando/base/error.hpp"

#ifdef PANDO_IO_URING
#include <liburing.h>
#endif

namespace pando {

bool FilePiece::take(long result) {
  if (result == -EINTR || result == -EAGAIN) return true;
  if (result > 0) done += static_cast<std::size_t>(result);
  if (result < 0) error = static_cast<int>(-result);
  // No file takes nothing at all and says that all is well.
  if (result == 0 && is_write) error = EIO;
  has_ended = result <= 0 || done == bytes;
  return !has_ended;
}

void transfer_now(FilePiece& piece) {
  piece.has_ended = false;
  ssize_t result = 0;
  do {
    const auto offset = static_cast<off_t>(piece.offset + piece.done);
    std::byte* memory = piece.memory + piece.done;
    const std::size_t rest = piece.bytes - piece.done;
    result = piece.is_write ? pwrite(piece.file, memory, rest, offset)
                            : pread(piece.file, memory, rest, offset);
    if (result < 0) result = -errno;
  } while (piece.take(result));
}

#ifdef PANDO_IO_URING

namespace {

bool can_read_and_write(io_uring& ring) {
  io_uring_probe* probe = io_uring_get_probe_ring(&ring);
  if (probe == nullptr) return false;
  const bool can = io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                   io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0;
  io_uring_free_probe(probe);
  return can;
}

/// Those that pass.
bool is_passing(int error) { return error == -EINTR || error == -EAGAIN || error == -EBUSY; }

}  // namespace

struct IoRing::Ring {
  io_uring ring = {};
  bool is_open = false;

  ~Ring() {
    if (is_open) io_uring_queue_exit(&ring);
  }
};

std::unique_ptr<IoRing> IoRing::make(unsigned depth, std::string& why_not) {
  auto ring = std::make_unique<Ring>();
  const int error = io_uring_queue_init(depth, &ring->ring, 0);
  if (error < 0) {
    why_not = std::strerror(-error);
    if (error == -ENOSYS) why_not = "the kernel does not have it";
    if (error == -EPERM) why_not = "this process is not permitted to use it";
    if (error == -ENOMEM) why_not = "the limit of locked memory is too low, or memory is short";
    return nullptr;
  }
  ring->is_open = true;
  if (!can_read_and_write(ring->ring)) {
    why_not = "the kernel's is too old";
    return nullptr;
  }
  return std::unique_ptr<IoRing>(new IoRing(std::move(ring)));
}

void IoRing::start(FilePiece& piece) noexcept {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_->ring);
  internal_check(entry != nullptr,
                 "more pieces of a file are under way than the ring has room for");
  std::byte* memory = piece.memory + piece.done;
  const auto rest = static_cast<unsigned>(piece.bytes - piece.done);
  if (piece.is_write) {
    io_uring_prep_write(entry, piece.file, memory, rest, piece.offset + piece.done);
  } else {
    io_uring_prep_read(entry, piece.file, memory, rest, piece.offset + piece.done);
  }
  io_uring_sqe_set_data(entry, &piece);
  piece.has_ended = false;
  // What cannot be submitted now is when someone waits.
  const int submitted = io_uring_submit(&ring_->ring);
  internal_check(submitted >= 0 || is_passing(submitted), "io_uring takes no more requests");
}

/// One completion, which there will be.
void IoRing::reap() noexcept {
  io_uring_cqe* entry = nullptr;
  while (io_uring_peek_cqe(&ring_->ring, &entry) != 0) {
    const int result = io_uring_submit_and_wait(&ring_->ring, 1);
    internal_check(result >= 0 || is_passing(result), "io_uring completes no more requests");
    if (result < 0) std::this_thread::yield();
  }
  FilePiece& piece = *static_cast<FilePiece*>(io_uring_cqe_get_data(entry));
  const int result = entry->res;
  io_uring_cqe_seen(&ring_->ring, entry);
  if (piece.take(result)) start(piece);
}

#else

struct IoRing::Ring {};

std::unique_ptr<IoRing> IoRing::make(unsigned /*depth*/, std::string& why_not) {
  why_not = "this build of Pando was made without liburing";
  return nullptr;
}

void IoRing::start(FilePiece& piece) noexcept { transfer_now(piece); }

void IoRing::reap() noexcept {}

#endif

IoRing::IoRing(std::unique_ptr<Ring> ring) : ring_(std::move(ring)) {}

IoRing::~IoRing() = default;

void IoRing::wait(const FilePiece& piece) noexcept {
  while (!piece.has_ended) reap();
}

}  // namespace pando
