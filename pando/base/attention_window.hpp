// Which keys a query of an attention op may see.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pando/base/attributes.hpp"
#include "pando/base/band.hpp"

namespace pando {

/// Attributes `window` [left, right] (-1: no limit) and `alignment` of ScaledDotProductAttention.
struct AttentionWindow {
  /// More than the tokens of any tensor.
  static constexpr std::int64_t kUnlimited = std::int64_t{1} << 48;

  Band sides{kUnlimited, kUnlimited};
  bool at_end = false;  // the last query stands at the last key, else the first at the first

  static AttentionWindow of(const Attributes& attributes) {
    AttentionWindow window;
    if (attributes.has("window")) {
      const Ints& sides = attributes.ints("window");
      window.sides = {sides.at(0) < 0 ? kUnlimited : sides.at(0),
                      sides.at(1) < 0 ? kUnlimited : sides.at(1)};
    }
    window.at_end = attributes.has("alignment") && attributes.text("alignment") == "bottom_right";
    return window;
  }

  /// The keys that query `row` of `rows` sees of the first `length`; empty ones lie in [0, length].
  IndexRange keys(std::int64_t row, std::int64_t rows, std::int64_t length) const {
    const std::int64_t at = row + (at_end ? length - rows : 0);
    const IndexRange range = sides.columns(at, length);
    const std::int64_t end = std::clamp<std::int64_t>(range.end, 0, length);
    return {std::min(range.begin, end), end};
  }
};

}  // namespace pando
