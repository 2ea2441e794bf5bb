// Whole-program passes by name.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "pando/ir/graph.hpp"

namespace pando {

struct Pass {
  std::string name;
  std::string doc;
  std::function<void(Ir&)> run;
};

/// In the order in which the compiler runs them.
const std::vector<Pass>& all_passes();

/// Throws Error listing the known names when `name` is none.
const Pass& find_pass(std::string_view name);

}  // namespace pando
