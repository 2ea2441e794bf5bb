// The binary form of a compiled program (container: base/byte_stream.hpp).
#pragma once

#include <string>
#include <string_view>

#include "pando/base/byte_stream.hpp"
#include "pando/program/program.hpp"

namespace pando {

std::string serialise_program(const Program& program);

/// Throws Error for bytes that are no program, truncated, corrupt or of another version.
Program deserialise_program(std::string_view bytes);

/// The same inside another file.
void write_program(ByteWriter& out, const Program& program);
Program read_program(ByteReader& in);

}  // namespace pando
