// Memory that comes from the operating system and goes back to it.
#pragma once

#include <cstddef>
#include <memory_resource>

namespace pando {

/// Zero at first touch, page-aligned. What is as long as a large page (2 MiB) begins at one and
/// lies in large pages where the system has them, which save page faults and TLB misses. Throws
/// std::bad_alloc.
std::byte* map_memory(std::size_t bytes);
/// `data` and `bytes`: of map_memory.
void unmap_memory(std::byte* data, std::size_t bytes) noexcept;

/// Takes what is as long as a large page from map_memory and what is shorter from the heap.
std::pmr::memory_resource& large_page_memory();

}  // namespace pando
