// Which instructions do nothing but copy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pando/program/program.hpp"

namespace pando {

/// What a kernel or a Copy copies: `bytes` from operand `from` to operand `to`; 0: nothing.
struct CopiedBytes {
  std::int64_t bytes = 0;
  std::size_t from = 0;
  std::size_t to = 1;
};

/// Where the output of the kernel is one of its inputs, both contiguous.
CopiedBytes copied_bytes(const KernelSpec& spec);

}  // namespace pando
