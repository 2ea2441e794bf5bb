// An address space that ends soon, to show what takes no memory of the size of a number.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace pando::testing {

/// More than what small work, and the allocator of a sanitizer, need.
constexpr rlim_t kRoom = rlim_t{512} << 20;

/// The process gets no more memory than it has and kRoom.
class MemoryLimit {
 public:
  MemoryLimit() {
    getrlimit(RLIMIT_AS, &before_);
    std::ifstream statm("/proc/self/statm");
    rlim_t pages = 0;
    statm >> pages;
    const rlimit limit{pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kRoom,
                       before_.rlim_max};
    setrlimit(RLIMIT_AS, &limit);
  }
  ~MemoryLimit() { setrlimit(RLIMIT_AS, &before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit before_ = {};
};

}  // namespace pando::testing
