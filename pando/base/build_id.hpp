// Which build of the library is running.
#pragma once

#include <string>

namespace pando {

/// The linker's hash of the program or shared library that holds this code, in hexadecimal: another
/// build has another one. Empty when it was linked without (`-Wl,--build-id`).
const std::string& build_id();

}  // namespace pando
