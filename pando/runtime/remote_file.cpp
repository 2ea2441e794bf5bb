#include "pando/runtime/remote_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "pando/base/checksum.hpp"
#include "pando/base/error.hpp"
#include "pando/base/hash.hpp"

namespace pando {
namespace {

constexpr std::size_t kPage = 4096;
/// Read or written and checked at a time: it should stay in the second-level cache.
constexpr std::size_t kChunk = std::size_t{1} << 20;

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

/// Page-aligned memory of the calling thread, for rows that do not lie so.
std::byte* bounce_memory() {
  thread_local const std::unique_ptr<std::byte, Free> memory(
      static_cast<std::byte*>(std::aligned_alloc(kPage, kChunk)));
  if (memory == nullptr) throw OutOfMemory("no memory for a transfer of 1 MiB", "");
  return memory.get();
}

std::uint64_t round_to_pages(std::uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

bool is_page_aligned(const std::byte* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % kPage == 0;
}

std::string error_text(int error) {
  std::string text = std::strerror(error);
  if (error == ENOSPC || error == EDQUOT) text += ": free some space, or give another folder";
  return text;
}

std::uint64_t slot_bytes_of(const RemoteBufferDesc& buffer) {
  return static_cast<std::uint64_t>(num_elements(buffer.shape)) * dtype_bytes(buffer.dtype);
}

}  // namespace

FileMemory::FileMemory(const RunFolder& folder, const RemoteBufferDesc& buffer,
                       std::int64_t replica, bool direct)
    : RemoteMemory(buffer.entries, slot_bytes_of(buffer)),
      path_(folder.path() / str_cat("buffer-", buffer.id, ".replica-", replica, ".remote")),
      buffer_(buffer.id),
      row_bytes_(round_to_pages(slot_bytes_of(buffer))),
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
  const auto bytes = static_cast<off_t>(kPage + row_bytes_ * static_cast<std::uint64_t>(slots()));
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
  header.header_bytes = kPage;
  header.run = folder.id();
  header.buffer = buffer_;
  header.replica = replica;
  header.slot_bytes = slot_bytes();
  header.row_bytes = row_bytes_;
  header.slots = slots();
  header.checksum =
      hash64({reinterpret_cast<const char*>(&header), offsetof(RemoteFileHeader, checksum)});
  std::byte* page = bounce_memory();
  std::memset(page, 0, kPage);
  std::memcpy(page, &header, sizeof header);
  write_at(page, kPage, 0);
}

std::uint64_t FileMemory::row_offset(std::int64_t slot) const {
  return kPage + static_cast<std::uint64_t>(slot) * row_bytes_;
}

std::string FileMemory::describe_row(std::int64_t slot) const {
  return str_cat("row ", slot, " of remote buffer ", buffer_, " in ", path_.string());
}

void FileMemory::read_at(std::byte* to, std::size_t bytes, std::uint64_t offset,
                         std::int64_t slot) const {
  while (bytes > 0) {
    const ssize_t got = pread(file_.get(), to, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw RuntimeFault(str_cat("cannot read ", describe_row(slot), ": ", error_text(errno)));
    }
    if (got == 0) {
      throw RuntimeFault(str_cat(describe_row(slot), " is missing: the file was truncated at byte ",
                                 offset, " by something else than this run"));
    }
    to += got;
    bytes -= static_cast<std::size_t>(got);
    offset += static_cast<std::uint64_t>(got);
  }
}

void FileMemory::write_at(const std::byte* from, std::size_t bytes, std::uint64_t offset) const {
  while (bytes > 0) {
    const ssize_t put = pwrite(file_.get(), from, bytes, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      throw RuntimeFault(str_cat("cannot write remote buffer ", buffer_, " to ", path_.string(),
                                 ": ", error_text(errno)));
    }
    from += put;
    bytes -= static_cast<std::size_t>(put);
    offset += static_cast<std::uint64_t>(put);
  }
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
  Checksum sum;
  for (std::size_t done = 0; done < slot_bytes();) {
    const std::size_t valid = std::min(kChunk, slot_bytes() - done);
    const bool in_place = is_page_aligned(to + done) && valid % kPage == 0 && done + valid <= bytes;
    std::byte* memory = in_place ? to + done : bounce_memory();
    read_at(memory, round_to_pages(valid), row_offset(slot) + done, slot);
    sum.update(memory, valid);
    if (!in_place && done < bytes) {
      std::memcpy(to + done, memory, std::min(valid, bytes - done));
    }
    done += valid;
  }
  if (sum.value() != checksums_[row]) {
    throw RuntimeFault(
        str_cat(describe_row(slot), " is damaged: its bytes are not those that this run stored"));
  }
}

void FileMemory::store_row(std::int64_t slot, const std::byte* from, std::size_t bytes) {
  const auto row = static_cast<std::size_t>(slot);
  states_[row] = RowState::Broken;
  Checksum sum;
  for (std::size_t done = 0; done < slot_bytes();) {
    const std::size_t valid = std::min(kChunk, slot_bytes() - done);
    const bool in_place =
        is_page_aligned(from + done) && valid % kPage == 0 && done + valid <= bytes;
    const std::byte* memory = from + done;
    if (!in_place) {
      std::byte* padded = bounce_memory();
      const std::size_t given = done < bytes ? std::min(valid, bytes - done) : 0;
      std::memcpy(padded, from + done, given);
      std::memset(padded + given, 0, round_to_pages(valid) - given);
      memory = padded;
    }
    sum.update(memory, valid);
    write_at(memory, round_to_pages(valid), row_offset(slot) + done);
    done += valid;
  }
  checksums_[row] = sum.value();
  states_[row] = RowState::Stored;
}

}  // namespace pando
