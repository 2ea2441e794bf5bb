#include "pando/compile/kernel_numbers.hpp"

#include <algorithm>

#include "pando/program/kernel_spec_hash.hpp"

namespace pando {

std::int32_t KernelNumbers::of(const KernelSpec& spec) {
  const std::size_t hash = KernelSpecHash()(spec);
  const auto [first, last] = known_.equal_range(hash);
  const auto known =
      std::find_if(first, last, [&](const auto& entry) { return (*this)[entry.second] == spec; });
  if (known != last) return known->second;
  program_.kernels.push_back(spec);
  const auto number = static_cast<std::int32_t>(program_.kernels.size()) - 1;
  return known_.emplace(hash, number)->second;
}

}  // namespace pando
