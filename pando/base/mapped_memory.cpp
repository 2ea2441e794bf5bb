#include "pando/base/mapped_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>

namespace pando {
namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20;

std::size_t in_pages(std::size_t bytes) {
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

std::byte* map_pages(std::size_t bytes) {
  void* mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(mapping);
}

class LargePageMemory : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (bytes < kLargePage) return std::pmr::new_delete_resource()->allocate(bytes, alignment);
    return map_memory(bytes);
  }
  void do_deallocate(void* data, std::size_t bytes, std::size_t alignment) override {
    if (bytes < kLargePage) {
      return std::pmr::new_delete_resource()->deallocate(data, bytes, alignment);
    }
    unmap_memory(static_cast<std::byte*>(data), bytes);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }
};

}  // namespace

std::byte* map_memory(std::size_t bytes) {
  const std::size_t size = in_pages(bytes);
  if (size < kLargePage) return map_pages(size);
  if (size > SIZE_MAX - kLargePage) throw std::bad_alloc();
  std::byte* mapping = map_pages(size + kLargePage);
  const std::size_t behind = reinterpret_cast<std::uintptr_t>(mapping) % kLargePage;
  const std::size_t before = behind == 0 ? 0 : kLargePage - behind;
  std::byte* data = mapping + before;
  if (before > 0) munmap(mapping, before);
  munmap(data + size, kLargePage - before);
  madvise(data, size, MADV_HUGEPAGE);  // a hint: a system without large pages refuses it
  return data;
}

void unmap_memory(std::byte* data, std::size_t bytes) noexcept { munmap(data, in_pages(bytes)); }

std::pmr::memory_resource& large_page_memory() {
  // Never destroyed: what holds memory may outlive the statics.
  static LargePageMemory& memory = *new LargePageMemory;
  return memory;
}

}  // namespace pando
