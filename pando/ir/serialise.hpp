// The binary form of an Ir: complete, versioned and checked (container: base/byte_stream.hpp).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "pando/base/hash.hpp"
#include "pando/ir/graph.hpp"

namespace pando {

std::string serialise_ir(const Ir& ir);

/// Writes what two Irs have equal exactly when they differ at most in the values of their
/// variables, and their ops come from equal libraries.
void hash_ir(HashWriter& out, const Ir& ir);

/// Throws Error for bytes that are no Ir, truncated, corrupt or of another version, and for the
/// faults that `build_ir` finds.
std::unique_ptr<Ir> deserialise_ir(std::string_view bytes);

}  // namespace pando
