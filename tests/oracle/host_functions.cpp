#include "tests/oracle/host_functions.hpp"

#include <algorithm>

namespace pando::oracle {
namespace {

std::vector<Array> reverse(const std::vector<Array>& inputs) {
  std::vector<Array> outputs = inputs;
  for (Array& array : outputs) std::reverse(array.data.begin(), array.data.end());
  return outputs;
}

std::vector<Array> cube(const std::vector<Array>& inputs) {
  Array y = inputs.at(0);
  for (Number& x : y.data) x = x * x * x;
  return {y};
}

std::vector<Array> cube_gradient(const std::vector<Array>& inputs) {
  const Array &x = inputs.at(0), &gradient = inputs.at(2);
  Array result = x;
  for (std::int64_t i = 0; i < x.size(); ++i) result[i] = 3 * x[i] * x[i] * gradient[i];
  return {result};
}

}  // namespace

const std::map<std::string, HostFunction, std::less<>>& host_functions() {
  static const std::map<std::string, HostFunction, std::less<>> functions = {
      {"reverse", reverse}, {"cube", cube}, {"cube_gradient", cube_gradient}};
  return functions;
}

}  // namespace pando::oracle
