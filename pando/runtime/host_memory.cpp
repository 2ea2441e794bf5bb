#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "pando/base/error.hpp"
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
  // Large pages save TLB misses on long passes; the hint may be ignored.
  constexpr std::size_t kLargePage = std::size_t{2} << 20;
  const bool large = bytes_ >= kLargePage;
  mapped_bytes_ = bytes_ + (large ? kLargePage : 0);
  mapping_ =
      mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) {
    throw OutOfMemory(str_cat("cannot allocate ", bytes_, " bytes for ", purpose), "");
  }
  data_ = static_cast<std::byte*>(mapping_);
  if (!large) return;
  const std::size_t behind = reinterpret_cast<std::uintptr_t>(mapping_) % kLargePage;
  if (behind != 0) data_ += kLargePage - behind;
  madvise(mapping_, mapped_bytes_, MADV_HUGEPAGE);
}

HostMemory::~HostMemory() { munmap(mapping_, mapped_bytes_); }

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
