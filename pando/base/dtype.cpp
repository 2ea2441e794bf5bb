#include "pando/base/dtype.hpp"

#include "pando/base/error.hpp"

namespace pando {

DType parse_dtype(std::string_view name) {
  for (std::size_t i = 0; i < kDTypeTraits.size(); ++i) {
    if (kDTypeTraits[i].name == name) return static_cast<DType>(i);
  }
  std::string known;
  for (const DTypeTraits& traits : kDTypeTraits) known += str_cat(" ", traits.name);
  throw ValueError(str_cat("unknown dtype '", name, "'; the known dtypes are", known));
}

}  // namespace pando
