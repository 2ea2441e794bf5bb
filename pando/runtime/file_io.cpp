#include "pando/runtime/file_io.hpp"

#include <unistd.h>

#include "pando/base/error.hpp"

namespace pando {

AlignedMemory::AlignedMemory(std::size_t bytes)
    : memory_(static_cast<std::byte*>(std::aligned_alloc(kFilePage, bytes))) {
  if (memory_ == nullptr) throw OutOfMemory(str_cat("no memory for a transfer of ", bytes), "");
}

FileIo::Lane::Lane(std::unique_ptr<IoRing> its_ring)
    : ring(std::move(its_ring)), pieces(ring == nullptr ? 1 : kDepth) {}

FileIo::FileIo(IoMethod wanted) : wanted_(wanted), method_(IoMethod::Threads), owner_(getpid()) {
  if (wanted == IoMethod::Threads) return;
  method_ = IoMethod::Uring;
  make_lane();  // to see whether it can be had
}

void FileIo::release() {
  const std::lock_guard lock(mutex_);
  spare_.clear();
}

IoMethod FileIo::method() const {
  const std::lock_guard lock(mutex_);
  return method_;
}

std::string FileIo::describe() const {
  const std::lock_guard lock(mutex_);
  if (method_ == IoMethod::Uring) return "io_uring";
  return why_not_.empty() ? "threads" : str_cat("threads (io_uring is not used: ", why_not_, ")");
}

std::unique_ptr<FileIo::Lane> FileIo::make_lane() {
  if (method_ == IoMethod::Threads) return std::make_unique<Lane>(nullptr);
  std::string why_not;
  std::unique_ptr<IoRing> ring = IoRing::make(kDepth, why_not);
  if (ring == nullptr) {
    if (wanted_ == IoMethod::Uring) {
      throw RuntimeFault(str_cat("wanted io_uring for remote buffers in files, but ", why_not,
                                 ": choose remote_io='auto' or 'threads'"));
    }
    method_ = IoMethod::Threads;
    why_not_ = why_not;
  }
  return std::make_unique<Lane>(std::move(ring));
}

std::unique_ptr<FileIo::Lane> FileIo::take() {
  const std::lock_guard lock(mutex_);
  if (getpid() != owner_) {
    // A child process must not touch what its parent waits for.
    spare_.clear();
    owner_ = getpid();
  }
  if (spare_.empty()) return make_lane();
  std::unique_ptr<Lane> lane = std::move(spare_.back());
  spare_.pop_back();
  return lane;
}

void FileIo::give_back(std::unique_ptr<Lane> lane) {
  const std::lock_guard lock(mutex_);
  spare_.push_back(std::move(lane));
}

FileTransfer::FileTransfer(FileIo& io, int file, Direction direction)
    : io_(io), lane_(io.take()), file_(file), direction_(direction) {}

FileTransfer::~FileTransfer() {
  for (std::size_t number = 0; number < depth(); ++number) wait(number);
  io_.give_back(std::move(lane_));
}

std::byte* FileTransfer::bounce_memory(std::size_t number) {
  std::vector<AlignedMemory>& bounce = lane_->bounce;
  while (bounce.size() <= number % depth()) bounce.emplace_back(kFilePieceBytes);
  return bounce[number % depth()].get();
}

void FileTransfer::start(std::size_t number, std::byte* memory, std::size_t bytes,
                         std::uint64_t offset) {
  FilePiece& piece = lane_->pieces[number % depth()];
  internal_check(piece.has_ended, "a piece of a file is replaced while it is under way");
  piece = {file_, direction_ == Direction::Write, memory, bytes, offset};
  if (lane_->ring == nullptr) return transfer_now(piece);
  lane_->ring->start(piece);
}

const FilePiece& FileTransfer::wait(std::size_t number) {
  const FilePiece& piece = lane_->pieces[number % depth()];
  if (lane_->ring != nullptr) lane_->ring->wait(piece);
  return piece;
}

}  // namespace pando
