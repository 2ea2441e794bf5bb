// The binary form of a compiled program (container: base/byte_stream.hpp).
#pragma once

#include <string>
#include <string_view>

#include "pando/program/program.hpp"

namespace pando {

std::string serialise_program(const Program& program);

/// Throws Error for bytes that are no program, truncated, corrupt or of another version.
Program deserialise_program(std::string_view bytes);

}  // namespace pando
