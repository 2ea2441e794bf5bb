#include <mutex>

#include "pando/ops/ops.hpp"

namespace pando {

const Registry& op_registry() {
  static std::once_flag registered;
  std::call_once(registered, [] {
#define PANDO_REGISTER_FAMILY(family) register_##family##_ops(Registry::instance());
    PANDO_OP_FAMILIES(PANDO_REGISTER_FAMILY)
#undef PANDO_REGISTER_FAMILY
  });
  return Registry::instance();
}

}  // namespace pando
