#include <mutex>

#include "pando/ops/ops.hpp"

namespace pando {

const Registry& op_registry() {
  static std::once_flag registered;
  std::call_once(registered, [] {
    Registry& registry = Registry::instance();
#define PANDO_REGISTER_FAMILY(family) \
  registry.begin_family(#family);     \
  register_##family##_ops(registry);
    PANDO_OP_FAMILIES(PANDO_REGISTER_FAMILY)
#undef PANDO_REGISTER_FAMILY
    registry.begin_family({});
  });
  return Registry::instance();
}

}  // namespace pando
