#include "tests/conformance/fake_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "pando/base/error.hpp"

namespace pando::testing {
namespace {

constexpr std::size_t kPage = 4096;

std::uintptr_t number_of(const std::byte* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

void* mapped(int file, std::size_t bytes, int protection) {
  void* place = mmap(nullptr, bytes, protection, MAP_SHARED, file, 0);
  return place == MAP_FAILED ? nullptr : place;
}

}  // namespace

void FakeAddressSpace::add(std::byte* address, int device, std::size_t bytes, std::byte* view) {
  const std::lock_guard lock(mutex_);
  blocks_[number_of(address)] = {device, bytes, view};
}

void FakeAddressSpace::remove(std::byte* address) {
  const std::lock_guard lock(mutex_);
  blocks_.erase(number_of(address));
}

const FakeAddressSpace::Block* FakeAddressSpace::block_of(const std::byte* address,
                                                          std::size_t* offset) const {
  auto next = blocks_.upper_bound(number_of(address));
  if (next == blocks_.begin()) return nullptr;
  --next;
  *offset = number_of(address) - next->first;
  return *offset <= next->second.bytes ? &next->second : nullptr;
}

std::byte* FakeAddressSpace::view(const Block* block, std::size_t offset, std::size_t bytes) const {
  if (block == nullptr || bytes > block->bytes - offset) {
    throw RuntimeFault(str_cat("the fake device was given ", bytes,
                               " bytes at an address that is not in its memory"));
  }
  return block->view + offset;
}

std::byte* FakeAddressSpace::view_of(const std::byte* address, int device,
                                     std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  std::size_t offset = 0;
  const Block* block = block_of(address, &offset);
  if (block != nullptr && block->device != device) {
    throw RuntimeFault(str_cat("virtual device ", device,
                               " of the fake device was given memory of ", "virtual device ",
                               block->device));
  }
  return view(block, offset, bytes);
}

std::byte* FakeAddressSpace::view_elsewhere(const std::byte* address, int device,
                                            std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  std::size_t offset = 0;
  const Block* block = block_of(address, &offset);
  if (block != nullptr && block->device == device) {
    throw RuntimeFault(str_cat("virtual device ", device, " of the fake device was given its own ",
                               "memory as another one's"));
  }
  return view(block, offset, bytes);
}

void FakeAddressSpace::check_host(const std::byte* address) const {
  const std::lock_guard lock(mutex_);
  std::size_t offset = 0;
  const Block* block = block_of(address, &offset);
  if (block == nullptr || offset == block->bytes) return;
  throw RuntimeFault("the fake device was given its own memory as the host's");
}

FakeMemory::FakeMemory(std::shared_ptr<FakeAddressSpace> space, int device, std::int64_t bytes,
                       const std::string& purpose)
    : space_(std::move(space)),
      bytes_((static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)) + kPage - 1) / kPage *
             kPage) {
  const int file = memfd_create("fake_device", MFD_CLOEXEC);
  const bool has_room = file >= 0 && ftruncate(file, static_cast<off_t>(bytes_)) == 0;
  if (has_room) {
    data_ = static_cast<std::byte*>(mapped(file, bytes_, PROT_NONE));
    view_ = static_cast<std::byte*>(mapped(file, bytes_, PROT_READ | PROT_WRITE));
  }
  if (file >= 0) close(file);
  if (data_ == nullptr || view_ == nullptr) {
    if (data_ != nullptr) munmap(data_, bytes_);
    throw OutOfMemory(str_cat("the fake device has no ", bytes, " bytes for ", purpose), "");
  }
  space_->add(data_, device, bytes_, view_);
}

FakeMemory::~FakeMemory() {
  space_->remove(data_);
  munmap(data_, bytes_);
  munmap(view_, bytes_);
}

}  // namespace pando::testing
