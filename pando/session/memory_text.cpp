#include "pando/session/memory_text.hpp"

#include "pando/base/error.hpp"

namespace pando {

std::optional<SourceInfo> source_at(const Program& program, std::int32_t index) {
  if (index < 0) return std::nullopt;
  return program.sources[static_cast<std::size_t>(index)];
}

std::string peak_text(std::int64_t persistent_bytes, const LiveTensorTable& alive,
                      const std::optional<SourceInfo>& at) {
  std::string text = str_cat("persistent memory (variables, constants): ", persistent_bytes,
                             " bytes; alive at the peak");
  if (at) {
    if (!at->phase.empty()) text += str_cat(", in the phase '", at->phase, "'");
    text += str_cat(", while ", at->op, " runs");
  }
  text += ":";
  for (const LiveTensor& tensor : alive.all()) {
    text += str_cat("\n  ", std::string(2 * static_cast<std::size_t>(tensor.depth), ' '),
                    tensor.bytes, " bytes  ", tensor.name);
    if (!tensor.location.empty()) text += str_cat("  (", tensor.location, ")");
  }
  return text;
}

std::string peak_text(const Program& program) {
  const MemoryReport& memory = program.memory;
  return peak_text(memory.persistent_bytes, memory.alive_at_peak,
                   source_at(program, memory.source_at_peak));
}

}  // namespace pando
