// Passes by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pando/base/error.hpp"

namespace pando {

/// What rewrites a program; `Arguments` are its form and what the pass asks.
template <class... Arguments>
struct NamedPass {
  std::string name;
  std::string doc;
  void (*run)(Arguments&...);
};

/// Throws Error listing the known names when `name` is none. `what` says which passes these are.
template <class Pass>
const Pass& find_named_pass(const std::vector<Pass>& passes, std::string_view what,
                            std::string_view name) {
  std::string known;
  for (const Pass& pass : passes) {
    if (pass.name == name) return pass;
    known += (known.empty() ? "" : ", ") + pass.name;
  }
  throw Error(ErrorCode::NotFound,
              str_cat("there is no ", what, " '", name, "'; the passes are ", known));
}

}  // namespace pando
