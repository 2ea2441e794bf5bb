// What lane types are called in text.
#pragma once

#include <cstddef>
#include <string_view>

#include "pando/base/scalar_program.hpp"

namespace pando {

/// By LaneType.
inline constexpr std::string_view kLaneNames[] = {"f32", "f64", "i32", "i64", "u32", "u64"};

inline std::string_view lane_name(LaneType lane) {
  return kLaneNames[static_cast<std::size_t>(lane)];
}

}  // namespace pando
