// Writes a tensor's value as text: nested brackets, without the middle of a large tensor.
#pragma once

#include <cstddef>
#include <string>

#include "pando/program/program.hpp"

namespace pando {

/// `<title>: <value>` and a blank line. `data`: C-ordered elements of the description's dtype and
/// shape.
std::string tensor_text(const PrintDesc& print, const std::byte* data);

/// Writes tensor_text to stderr in one call.
void print_tensor(const PrintDesc& print, const std::byte* data);

}  // namespace pando
