// Tables by kernel.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "pando/program/program.hpp"

namespace pando {

struct KernelSpecHash {
  std::size_t operator()(const KernelSpec& spec) const {
    std::size_t seed = std::hash<std::string>()(spec.kind);
    const auto mix = [&](std::size_t value) {
      seed ^= value + 0x9e3779b97f4a7c15ull + (seed << 6) + (seed >> 2);
    };
    for (const auto* operands : {&spec.inputs, &spec.outputs}) {
      for (const OperandDesc& operand : *operands) {
        mix(static_cast<std::size_t>(operand.dtype));
        for (std::int64_t dim : operand.shape) mix(static_cast<std::size_t>(dim));
        for (std::int64_t stride : operand.strides) mix(static_cast<std::size_t>(stride));
      }
    }
    for (const ScalarInstruction& instruction : spec.scalar.instructions) {
      mix(static_cast<std::size_t>(instruction.op));
      mix(std::hash<double>()(instruction.immediate));
    }
    return seed;
  }
};

}  // namespace pando
