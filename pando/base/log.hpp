// How the library tells its user things that are no errors.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace pando {

enum class LogLevel : std::uint8_t { Info, Warning };

/// May be empty: then nothing is told.
using LogFunction = std::function<void(LogLevel, const std::string& message)>;

}  // namespace pando
