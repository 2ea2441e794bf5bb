#include "pando/session/host_function_table.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "pando/base/error.hpp"
#include "pando/base/nearest_names.hpp"

namespace pando {

std::vector<std::string> HostFunctionTable::names() const {
  std::set<std::string> names;
  for (const HostCallDesc& call : program_.host_calls) names.insert(call.function);
  return {names.begin(), names.end()};
}

void HostFunctionTable::set(std::shared_ptr<HostFunctionQueue> queue) {
  const std::vector<std::string> known = names();
  if (std::find(known.begin(), known.end(), queue->name()) == known.end()) {
    throw ValueError(str_cat("the program calls no host function '", queue->name(),
                             "': ", nearest_names(queue->name(), known)));
  }
  const std::lock_guard lock(mutex_);
  queues_[queue->name()] = std::move(queue);
}

std::vector<std::shared_ptr<HostFunctionQueue>> HostFunctionTable::of_calls() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<HostFunctionQueue>> queues;
  for (const HostCallDesc& call : program_.host_calls) {
    const auto known = queues_.find(call.function);
    if (known == queues_.end()) {
      throw ValueError(str_cat("the program calls the host function '", call.function,
                               "', which it was not given: set it before the run"));
    }
    queues.push_back(known->second);
  }
  return queues;
}

}  // namespace pando
