// What kernels are chosen by, beside their spec.
#pragma once

#include <string>

namespace pando::cpu {

/// The processor, its caches, the instruction set that Highway takes, and oneDNN's version and
/// settings (which its environment variables change).
std::string processor_identity();

}  // namespace pando::cpu
