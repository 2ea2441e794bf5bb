// Whole-program passes by name.
#pragma once

#include <string_view>
#include <vector>

#include "pando/base/named_pass.hpp"
#include "pando/ir/graph.hpp"

namespace pando {

using Pass = NamedPass<Ir>;

/// Those of passes.def.
const std::vector<Pass>& all_passes();

/// Throws Error listing the known names when `name` is none.
const Pass& find_pass(std::string_view name);

}  // namespace pando
