// Functions of the host that the programs of tests call.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/oracle/array.hpp"

namespace pando::oracle {

/// Outputs of the inputs.
using HostFunction = std::function<std::vector<Array>(const std::vector<Array>&)>;

/// By name. `reverse` gives each input with its elements in reverse order, `cube` the third power
/// of its one input, `cube_gradient` (input, output, gradient) the gradient of that.
const std::map<std::string, HostFunction, std::less<>>& host_functions();

}  // namespace pando::oracle
