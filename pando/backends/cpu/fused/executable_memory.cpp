#include "pando/backends/cpu/fused/executable_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace pando::cpu {
namespace {

constexpr std::size_t kRegionBytes = std::size_t{1} << 18;
constexpr std::size_t kAlignment = 64;

}  // namespace

/// One piece of memory at two addresses.
struct CodeRegion {
  explicit CodeRegion(std::size_t region_bytes) : bytes(region_bytes) {
    const int file = memfd_create("pando-code", MFD_CLOEXEC);
    if (file < 0) return;
    if (ftruncate(file, static_cast<off_t>(bytes)) == 0) {
      writable = map(file, PROT_READ | PROT_WRITE);
      executable = map(file, PROT_READ | PROT_EXEC);
    }
    close(file);
  }
  ~CodeRegion() {
    for (std::byte* memory : {writable, executable}) {
      if (memory != nullptr) munmap(memory, bytes);
    }
  }
  CodeRegion(const CodeRegion&) = delete;
  CodeRegion& operator=(const CodeRegion&) = delete;

  bool is_mapped() const { return writable != nullptr && executable != nullptr; }

  std::size_t bytes;
  std::size_t used = 0;
  std::byte* writable = nullptr;
  std::byte* executable = nullptr;

 private:
  std::byte* map(int file, int protection) const {
    void* memory = mmap(nullptr, bytes, protection, MAP_SHARED, file, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
  }
};

ExecutableCode make_executable(std::span<const std::uint8_t> code) {
  static std::mutex mutex;
  // Kernels keep their regions: a full one goes when the last of them does.
  static std::shared_ptr<CodeRegion> current;
  const std::lock_guard lock(mutex);
  if (current == nullptr || current->used + code.size() > current->bytes) {
    auto region = std::make_shared<CodeRegion>(std::max(kRegionBytes, code.size()));
    if (!region->is_mapped()) return {};
    current = std::move(region);
  }
  ExecutableCode result;
  result.region_ = current;
  result.start_ = current->executable + current->used;
  result.size_ = code.size();
  std::memcpy(current->writable + current->used, code.data(), code.size());
  current->used += (code.size() + kAlignment - 1) / kAlignment * kAlignment;
  return result;
}

}  // namespace pando::cpu
