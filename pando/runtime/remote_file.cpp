#include "pando/runtime/remote_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "pando/base/checksum.hpp"
#include "pando/base/error.hpp"
#include "pando/base/hash.hpp"

namespace pando {
namespace {

std::uint64_t round_to_pages(std::uint64_t bytes) {
  return (bytes + kFilePage - 1) / kFilePage * kFilePage;
}

bool is_page_aligned(const std::byte* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % kFilePage == 0;
}

/// Whether a piece that begins at `begin` of memory of `bytes` needs no copy.
bool moves_in_place(const std::byte* memory, std::size_t begin, std::size_t piece,
                    std::size_t bytes) {
  return begin + piece <= bytes && piece % kFilePage == 0 && is_page_aligned(memory + begin);
}

std::string error_text(int error) {
  std::string text = std::strerror(error);
  if (error == ENOSPC || error == EDQUOT) text += ": free some space, or give another folder";
  return text;
}

}  // namespace

FileMemory::FileMemory(const RunFolder& folder, const RemoteBufferDesc& buffer,
                       std::int64_t replica, bool direct, std::shared_ptr<FileIo> io)
    : RemoteMemory(buffer.entries, static_cast<std::uint64_t>(buffer.slot_bytes())),
      path_(folder.path() / str_cat("buffer-", buffer.id, ".replica-", replica, ".remote")),
      buffer_(buffer.id),
      row_bytes_(round_to_pages(static_cast<std::uint64_t>(buffer.slot_bytes()))),
      io_(std::move(io)),
      states_(static_cast<std::size_t>(buffer.entries), RowState::Empty),
      checksums_(static_cast<std::size_t>(buffer.entries), 0) {
  open_file(direct);
  try {
    reserve_space();
    write_header(folder, replica);
  } catch (...) {
    unlink(path_.c_str());
    throw;
  }
}

FileMemory::~FileMemory() {
  end_snapshot();
  unlink(path_.c_str());
}

void FileMemory::open_file(bool direct) {
  const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
  constexpr mode_t kMode = 0600;
  if (direct) {
    file_ = FileHandle(open(path_.c_str(), flags | O_DIRECT, kMode));
    direct_ = file_.is_open();
    if (!direct_ && errno == EINVAL) unlink(path_.c_str());
  }
  if (!file_.is_open()) file_ = FileHandle(open(path_.c_str(), flags, kMode));
  if (!file_.is_open()) {
    throw RuntimeFault(str_cat("cannot make the file ", path_.string(), " for remote buffer ",
                               buffer_, ": ", error_text(errno)));
  }
}

/// All at once, so that a full disk shows before anything has been trained.
void FileMemory::reserve_space() {
  const auto bytes =
      static_cast<off_t>(kFilePage + row_bytes_ * static_cast<std::uint64_t>(slots()));
  if (fallocate(file_.get(), 0, 0, bytes) == 0) return;
  // Where the file system cannot reserve, the space is taken as rows are written.
  const bool unsupported = errno == EOPNOTSUPP || errno == ENOSYS;
  if (unsupported && ftruncate(file_.get(), bytes) == 0) return;
  const int error = errno;
  struct statvfs space = {};
  std::string available;
  if (statvfs(path_.c_str(), &space) == 0) {
    available = str_cat("; the file system has ", space.f_bavail * space.f_frsize, " left");
  }
  throw RuntimeFault(str_cat("remote buffer ", buffer_, " needs ", bytes, " bytes in ",
                             path_.string(), available, ": ", error_text(error)));
}

void FileMemory::write_header(const RunFolder& folder, std::int64_t replica) {
  RemoteFileHeader header;
  header.header_bytes = kFilePage;
  header.run = folder.id();
  header.buffer = buffer_;
  header.replica = replica;
  header.slot_bytes = slot_bytes();
  header.row_bytes = row_bytes_;
  header.slots = slots();
  header.checksum =
      hash64({reinterpret_cast<const char*>(&header), offsetof(RemoteFileHeader, checksum)});
  FileTransfer transfer(*io_, file_.get(), FileTransfer::Direction::Write);
  std::byte* page = transfer.bounce_memory(0);
  std::memset(page, 0, kFilePage);
  std::memcpy(page, &header, sizeof header);
  transfer.start(0, page, kFilePage, 0);
  check_written(transfer.wait(0));
}

std::uint64_t FileMemory::row_offset(std::int64_t slot) const {
  return kFilePage + static_cast<std::uint64_t>(slot) * row_bytes_;
}

std::string FileMemory::describe_row(std::int64_t slot) const {
  return str_cat("row ", slot, " of remote buffer ", buffer_, " in ", path_.string());
}

std::size_t FileMemory::num_pieces() const {
  return (slot_bytes() + kFilePieceBytes - 1) / kFilePieceBytes;
}

std::size_t FileMemory::piece_bytes(std::size_t piece) const {
  return std::min(kFilePieceBytes, slot_bytes() - piece * kFilePieceBytes);
}

void FileMemory::start_read(FileTransfer& transfer, std::size_t piece, std::int64_t slot,
                            std::byte* to, std::size_t bytes) const {
  const std::size_t begin = piece * kFilePieceBytes, valid = piece_bytes(piece);
  std::byte* memory =
      moves_in_place(to, begin, valid, bytes) ? to + begin : transfer.bounce_memory(piece);
  transfer.start(piece, memory, round_to_pages(valid), row_offset(slot) + begin);
}

void FileMemory::start_write(FileTransfer& transfer, std::size_t piece, std::int64_t slot,
                             const std::byte* from, std::size_t bytes) const {
  const std::size_t begin = piece * kFilePieceBytes, valid = piece_bytes(piece);
  // A write only reads its memory.
  auto* memory = const_cast<std::byte*>(from) + begin;
  if (!moves_in_place(from, begin, valid, bytes)) {
    const std::size_t given = begin < bytes ? std::min(valid, bytes - begin) : 0;
    memory = transfer.bounce_memory(piece);
    if (given > 0) std::memcpy(memory, from + begin, given);
    std::memset(memory + given, 0, round_to_pages(valid) - given);
  }
  transfer.start(piece, memory, round_to_pages(valid), row_offset(slot) + begin);
}

void FileMemory::check_read(const FilePiece& piece, std::int64_t slot) const {
  if (piece.error != 0) {
    throw RuntimeFault(str_cat("cannot read ", describe_row(slot), ": ", error_text(piece.error)));
  }
  if (piece.is_missing()) {
    throw RuntimeFault(str_cat(describe_row(slot), " is missing: the file was truncated at byte ",
                               piece.offset + piece.done, " by something else than this run"));
  }
}

void FileMemory::check_written(const FilePiece& piece) const {
  if (piece.error == 0) return;
  throw RuntimeFault(str_cat("cannot write remote buffer ", buffer_, " to ", path_.string(), ": ",
                             error_text(piece.error)));
}

void FileMemory::load(std::int64_t slot, std::byte* to, std::size_t bytes) {
  const auto row = static_cast<std::size_t>(slot);
  if (states_[row] == RowState::Empty) {
    std::memset(to, 0, bytes);
    return;
  }
  if (states_[row] == RowState::Broken) {
    throw RuntimeFault(str_cat(describe_row(slot), " has no value: writing it failed before"));
  }
  FileTransfer transfer(*io_, file_.get(), FileTransfer::Direction::Read);
  Checksum sum;
  std::size_t started = 0;
  for (std::size_t i = 0; i < num_pieces(); ++i) {
    for (; started < std::min(num_pieces(), i + transfer.depth()); ++started) {
      start_read(transfer, started, slot, to, bytes);
    }
    const FilePiece& piece = transfer.wait(i);
    check_read(piece, slot);
    const std::size_t begin = i * kFilePieceBytes, valid = piece_bytes(i);
    sum.update(piece.memory, valid);
    if (begin < bytes && piece.memory != to + begin) {
      std::memcpy(to + begin, piece.memory, std::min(valid, bytes - begin));
    }
  }
  if (sum.value() != checksums_[row]) {
    throw RuntimeFault(
        str_cat(describe_row(slot), " is damaged: its bytes are not those that this run stored"));
  }
}

void FileMemory::store_row(std::int64_t slot, const std::byte* from, std::size_t bytes) {
  const auto row = static_cast<std::size_t>(slot);
  states_[row] = RowState::Broken;
  FileTransfer transfer(*io_, file_.get(), FileTransfer::Direction::Write);
  Checksum sum;
  for (std::size_t i = 0; i < num_pieces(); ++i) {
    if (i >= transfer.depth()) check_written(transfer.wait(i));
    start_write(transfer, i, slot, from, bytes);
    // While it is on its way.
    sum.update(transfer.memory_of(i), piece_bytes(i));
  }
  const std::size_t open = std::min(num_pieces(), transfer.depth());
  for (std::size_t i = num_pieces() - open; i < num_pieces(); ++i) check_written(transfer.wait(i));
  checksums_[row] = sum.value();
  states_[row] = RowState::Stored;
}

}  // namespace pando
