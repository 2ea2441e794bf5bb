// The functions of the host that a program calls.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pando/runtime/host_function.hpp"

namespace pando {

/// Where the calls of each function go. Methods may be called from any thread.
class HostFunctionTable {
 public:
  /// Keeps a reference to `program`.
  explicit HostFunctionTable(const Program& program) : program_(program) {}

  /// The names of those that the program calls, sorted.
  std::vector<std::string> names() const;
  /// Calls of the function `queue->name()` go there, from the next run on. Throws ValueError if the
  /// program calls no such function, with the names of those it calls.
  void set(std::shared_ptr<HostFunctionQueue> queue);
  /// By Program::host_calls. Throws ValueError for a function that was not set.
  std::vector<std::shared_ptr<HostFunctionQueue>> of_calls() const;

 private:
  const Program& program_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<HostFunctionQueue>> queues_;  // guarded by mutex_
};

}  // namespace pando
