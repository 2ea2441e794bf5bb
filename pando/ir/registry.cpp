#include <algorithm>
#include <mutex>

#include "pando/base/error.hpp"
#include "pando/ir/op_def.hpp"

namespace pando {
namespace {

auto position_of(const std::vector<std::unique_ptr<OpDef>>& defs, std::string_view name) {
  return std::lower_bound(defs.begin(), defs.end(), name,
                          [](const std::unique_ptr<OpDef>& def, std::string_view key) {
                            return std::string_view(def->name) < key;
                          });
}

/// `number`: one that no other kind without a name in op_kind.hpp got.
OpKind kind_called(std::string_view name, std::size_t number) {
  const auto* const at = std::find(kNamedKinds.begin(), kNamedKinds.end(), name);
  const auto index = static_cast<std::size_t>(at - kNamedKinds.begin());
  return static_cast<OpKind>(index < kNamedKinds.size() ? index : kNamedKinds.size() + number);
}

}  // namespace

Registry& Registry::instance() {
  static Registry registry;
  return registry;
}

void Registry::add(OpDef def) {
  const std::unique_lock lock(mutex_);
  if (find_locked(def.name) != nullptr) {
    throw InternalError(str_cat("op kind '", def.name, "' is registered twice"));
  }
  if ((def.gradient != nullptr) == def.differentiable_inputs.empty()) {
    throw InternalError(str_cat("op kind '", def.name,
                                def.gradient != nullptr
                                    ? "' has a gradient but no differentiable inputs"
                                    : "' has differentiable inputs but no gradient"));
  }
  def.kind = kind_called(def.name, defs_.size());
  def.family = family_;
  const auto at = position_of(defs_, def.name);
  defs_.insert(at, std::make_unique<OpDef>(std::move(def)));
}

void Registry::begin_family(std::string_view family) {
  const std::unique_lock lock(mutex_);
  family_ = family;
}

const OpDef* Registry::find(std::string_view name) const {
  const std::shared_lock lock(mutex_);
  return find_locked(name);
}

const OpDef* Registry::find_locked(std::string_view name) const {
  const auto at = position_of(defs_, name);
  return at != defs_.end() && (*at)->name == name ? at->get() : nullptr;
}

const OpDef& Registry::get(std::string_view name) const {
  const OpDef* def = find(name);
  if (def == nullptr)
    throw Error(ErrorCode::NotFound, str_cat("there is no op kind called '", name, "'"));
  return *def;
}

std::vector<const OpDef*> Registry::all() const {
  const std::shared_lock lock(mutex_);
  std::vector<const OpDef*> result;
  result.reserve(defs_.size());
  for (const auto& def : defs_) result.push_back(def.get());
  return result;
}

}  // namespace pando
