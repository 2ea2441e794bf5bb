// What fills the memory of a program, for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pando/program/program.hpp"

namespace pando {

/// What runs at a peak, an index into Program::sources; nullopt when nobody knows.
std::optional<SourceInfo> source_at(const Program& program, std::int32_t index);
/// What is alive at a peak, a tensor a line. `at`: what runs then, if that is known.
std::string peak_text(std::int64_t persistent_bytes, const LiveTensorTable& alive,
                      const std::optional<SourceInfo>& at);
/// The same at the peak of the program as a whole.
std::string peak_text(const Program& program);

}  // namespace pando
