#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>
#include <vector>

#include "pando/base/error.hpp"
#include "pando/base/mapped_memory.hpp"
#include "pando/runtime/host_memory.hpp"

namespace pando {

HostMemory::HostMemory(std::int64_t bytes, const std::string& purpose)
    : bytes_(bytes > 0 ? static_cast<std::size_t>(bytes) : 1) {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  const auto physical = static_cast<std::size_t>(pages) * static_cast<std::size_t>(page_bytes);
  if (bytes_ > physical) {
    throw OutOfMemory(str_cat("the program needs ", bytes_, " bytes for ", purpose,
                              ", but this machine has ", physical, " bytes"),
                      "");
  }
  try {
    data_ = map_memory(bytes_);
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(str_cat("cannot allocate ", bytes_, " bytes for ", purpose), "");
  }
}

HostMemory::~HostMemory() { unmap_memory(data_, bytes_); }

void HostMemory::discard(std::byte* from, std::int64_t bytes) {
  const auto page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(from);
  const std::uintptr_t first = (begin + page_bytes - 1) / page_bytes * page_bytes;
  const std::uintptr_t end = (begin + static_cast<std::uintptr_t>(bytes)) / page_bytes * page_bytes;
  if (first < end) madvise(from + (first - begin), end - first, MADV_DONTNEED);
}

std::int64_t HostMemory::resident_bytes() const {
  const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident((bytes_ + page_bytes - 1) / page_bytes);
  if (mincore(data_, bytes_, resident.data()) != 0) return static_cast<std::int64_t>(bytes_);
  std::int64_t pages = 0;
  for (unsigned char page : resident) pages += page & 1;
  return pages * static_cast<std::int64_t>(page_bytes);
}

}  // namespace pando
