// The file tier: remote buffers in files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pando/runtime/file_io.hpp"
#include "pando/runtime/remote_memory.hpp"

namespace pando {

/// An open file of the operating system.
class FileHandle {
 public:
  explicit FileHandle(int descriptor = -1) : descriptor_(descriptor) {}
  ~FileHandle();
  FileHandle(FileHandle&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileHandle& operator=(FileHandle&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

/// The folder that one attached session keeps its remote buffers in, removed with them when it
/// ends. Several sessions and processes may share the parent: each has its own run, whose folder is
/// locked while it lives. Folders of runs that ended without removing them are removed by the next.
class RunFolder {
 public:
  using RunId = std::array<std::uint8_t, 16>;

  /// Makes `parent` if need be. Throws RuntimeFault (a folder that cannot be made or written).
  explicit RunFolder(const std::filesystem::path& parent);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const RunId& id() const { return id_; }

 private:
  RunId id_;
  std::filesystem::path path_;
  FileHandle lock_;
};

/// The first page of a file of the tier. All integers little-endian.
struct RemoteFileHeader {
  static constexpr std::array<char, 8> kMagic = {'P', 'A', 'N', 'D', 'O', 'R', 'E', 'M'};
  static constexpr std::uint32_t kVersion = 1;

  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t header_bytes = 0;  // rows begin here
  RunFolder::RunId run = {};
  std::int64_t buffer = 0;  // id
  std::int64_t replica = 0;
  std::uint64_t slot_bytes = 0;
  std::uint64_t row_bytes = 0;  // of a slot with its padding
  std::int64_t slots = 0;
  std::uint64_t checksum = 0;  // XXH3 of the fields above
};

/// Rows at multiples of 4096 bytes after the header page, written past the page cache where the
/// file system allows it. What a row must be is known by its checksum (XXH3, 64 bits), which stays
/// in memory: a file says nothing about the values of a run that has ended.
class FileMemory final : public RemoteMemory {
 public:
  /// Makes the file in `folder` and reserves its space. Several may share `io`. Throws RuntimeFault
  /// (no space, no right).
  FileMemory(const RunFolder& folder, const RemoteBufferDesc& buffer, std::int64_t replica,
             bool direct, std::shared_ptr<FileIo> io);
  ~FileMemory() override;

  void load(std::int64_t slot, std::byte* to, std::size_t bytes) override;
  bool is_slow() const override { return true; }

  const std::filesystem::path& path() const { return path_; }
  bool is_direct() const { return direct_; }

 private:
  void store_row(std::int64_t slot, const std::byte* from, std::size_t bytes) override;

  enum class RowState : std::uint8_t { Empty, Stored, Broken };

  void open_file(bool direct);
  void reserve_space();
  void write_header(const RunFolder& folder, std::int64_t replica);
  std::size_t num_pieces() const;
  /// Bytes of the row in its `piece`-th piece.
  std::size_t piece_bytes(std::size_t piece) const;
  void start_read(FileTransfer& transfer, std::size_t piece, std::int64_t slot, std::byte* to,
                  std::size_t bytes) const;
  void start_write(FileTransfer& transfer, std::size_t piece, std::int64_t slot,
                   const std::byte* from, std::size_t bytes) const;
  void check_read(const FilePiece& piece, std::int64_t slot) const;
  void check_written(const FilePiece& piece) const;
  std::uint64_t row_offset(std::int64_t slot) const;
  std::string describe_row(std::int64_t slot) const;

  std::filesystem::path path_;
  std::int64_t buffer_;
  std::uint64_t row_bytes_;
  FileHandle file_;
  bool direct_ = false;
  std::shared_ptr<FileIo> io_;
  std::vector<RowState> states_;
  std::vector<std::uint64_t> checksums_;
};

}  // namespace pando
