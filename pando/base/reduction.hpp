// The reductions of collectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pando {

/// name, word. `Local` reduces nothing: every replica keeps its own value.
// clang-format off: one entry a line
#define PANDO_REDUCTIONS(X)  \
  X(Add, "add")              \
  X(Mean, "mean")            \
  X(Mul, "mul")              \
  X(Min, "min")              \
  X(Max, "max")              \
  X(And, "and")              \
  X(Or, "or")                \
  X(SquareAdd, "square_add") \
  X(Local, "local")
// clang-format on

/// How the values of the members x_1 ... x_k of a group become one: sum, sum / k, product, smallest
/// and largest (NaN if any is), 1 where all (any) are not 0 else 0, sum of squares.
enum class Reduction : std::uint8_t {
#define PANDO_REDUCTION_NAME(name, word) name,
  PANDO_REDUCTIONS(PANDO_REDUCTION_NAME)
#undef PANDO_REDUCTION_NAME
};

inline constexpr std::string_view kReductionWords[] = {
#define PANDO_REDUCTION_WORD(name, word) word,
    PANDO_REDUCTIONS(PANDO_REDUCTION_WORD)
#undef PANDO_REDUCTION_WORD
};

inline std::string_view reduction_word(Reduction reduction) {
  return kReductionWords[static_cast<std::size_t>(reduction)];
}

/// nullopt for a word that is none.
inline std::optional<Reduction> reduction_of(std::string_view word) {
  for (std::size_t i = 0; i < std::size(kReductionWords); ++i) {
    if (kReductionWords[i] == word) return static_cast<Reduction>(i);
  }
  return std::nullopt;
}

}  // namespace pando
