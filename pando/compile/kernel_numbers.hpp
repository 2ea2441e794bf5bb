// Kernels that passes add to the program, each once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "pando/program/program.hpp"

namespace pando {

/// Numbers the kernels of `program`. While it lives, nothing else adds any.
class KernelNumbers {
 public:
  explicit KernelNumbers(Program& program) : program_(program) {}

  /// The number of `spec`; adds it if nothing asked for the same one before.
  std::int32_t of(const KernelSpec& spec);
  const KernelSpec& operator[](std::int32_t kernel) const {
    return program_.kernels[static_cast<std::size_t>(kernel)];
  }

 private:
  Program& program_;
  std::unordered_multimap<std::size_t, std::int32_t> known_;  // by KernelSpecHash
};

}  // namespace pando
