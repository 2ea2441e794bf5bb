// Ops of users' libraries as ordinary kinds of ops.
#pragma once

#include <string>

#include "pando/custom/op_library.hpp"
#include "pando/ir/op_def.hpp"

namespace pando {

/// Loads a shared library of users' ops (pando/custom/pando_op.h) and adds its ops to the registry;
/// it stays until the process ends. A library that was loaded before is given again. Any thread.
/// Throws Error, after which nothing of the library is known: no such file, no library of ops,
/// another version, an op that breaks a rule or has a name that is taken, a file that has changed
/// since it was loaded.
const OpLibrary& load_library(const std::string& path);

/// What the attribute takes, as the registry names it. Libraries with attributes of other types are
/// refused when they are loaded: InternalError.
AttributeType attribute_type(const LibraryAttribute& attribute);

}  // namespace pando
