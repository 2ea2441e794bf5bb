// Whether chains of fused arithmetic become machine code.
#pragma once

#include <cstdint>

namespace pando {

enum class MachineCode : std::uint8_t {
  Automatic,  // where it pays: not for few elements, nor in builds whose sanitizer cannot see it
  Never,
  Always,     // wherever it can be
  Always256,  // also on registers of 256 bits where there are wider ones
};

}  // namespace pando
