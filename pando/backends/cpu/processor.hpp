// What kernels are chosen by, beside their spec.
#pragma once

#include <cstddef>
#include <string>

namespace pando::cpu {

/// The processor, its caches, the instruction set that Highway takes, and oneDNN's version and
/// settings (which its environment variables change).
std::string processor_identity();

/// The size of the last cache that a core of this process reaches; 32 MiB where the system does
/// not say.
std::size_t last_cache_bytes();

}  // namespace pando::cpu
