// How the texts of tests begin.
#pragma once

#include <string_view>

namespace pando::testing {

inline constexpr std::string_view kHeader =
    "pando-ir 1\nreplicas 1\ntransfers 1\ncounters 200 0 0\n";

}  // namespace pando::testing
