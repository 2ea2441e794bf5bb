// Where remote buffers live, what their transfers may use, and what they did.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace pando {

enum class MemoryTier : std::uint8_t {
  Ram,
  File,  // one file per buffer and replica
};

/// How files are read and written.
enum class IoMethod : std::uint8_t {
  Automatic,  // io_uring where the kernel has it, else threads
  Uring,      // several pieces of a row at a time on each I/O thread
  Threads,    // one piece at a time on each
};

struct RemoteSettings {
  MemoryTier tier = MemoryTier::Ram;
  /// By buffer id: buffers that live elsewhere than `tier` says.
  std::map<std::int64_t, MemoryTier> tier_of_buffer;

  // What follows is about the file tier alone, and the numbers are those of one replica.

  /// Each session makes a folder of its own in it while it is attached.
  std::string folder;
  /// The most bytes of stores that the program has gone past. A larger row is written before the
  /// program goes on.
  std::int64_t staging_bytes = std::int64_t{256} << 20;
  /// The most bytes of device memory that loads may occupy before the program's order asks for
  /// them.
  std::int64_t prefetch_bytes = std::int64_t{256} << 20;
  int io_threads = 2;
  /// Transfers go past the page cache where the file system allows it.
  bool direct = true;
  IoMethod method = IoMethod::Automatic;

  MemoryTier tier_of(std::int64_t buffer) const {
    const auto it = tier_of_buffer.find(buffer);
    return it == tier_of_buffer.end() ? tier : it->second;
  }
  bool uses_files() const {
    if (tier == MemoryTier::File) return true;
    for (const auto& [buffer, chosen] : tier_of_buffer) {
      if (chosen == MemoryTier::File) return true;
    }
    return false;
  }
};

/// What the transfers of slow remote memory did since the session was attached.
struct IoReport {
  std::int64_t bytes_loaded = 0;
  std::int64_t bytes_stored = 0;
  /// Counts loads that took the value of a store before it was written; not in bytes_loaded.
  std::int64_t bytes_from_stores = 0;
  double io_seconds = 0;       // of all I/O threads together
  double busy_seconds = 0;     // while at least one transfer was going on
  double waiting_seconds = 0;  // of the program
};

}  // namespace pando
