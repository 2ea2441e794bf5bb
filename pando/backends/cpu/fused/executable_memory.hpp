// Memory for machine code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace pando::cpu {

struct CodeRegion;

/// Code that may be run for as long as this lives.
class ExecutableCode {
 public:
  ExecutableCode() = default;

  explicit operator bool() const { return start_ != nullptr; }
  std::size_t size() const { return size_; }
  template <class Function>
  Function as() const {
    return reinterpret_cast<Function>(reinterpret_cast<std::uintptr_t>(start_));
  }

 private:
  friend ExecutableCode make_executable(std::span<const std::uint8_t> code);
  std::shared_ptr<CodeRegion> region_;
  const std::byte* start_ = nullptr;
  std::size_t size_ = 0;
};

/// A copy of `code`, which must not depend on where it stands. No page is ever writable and
/// executable at one address: regions are mapped twice. Empty where the system allows none.
/// Safe from several threads.
ExecutableCode make_executable(std::span<const std::uint8_t> code);

}  // namespace pando::cpu
