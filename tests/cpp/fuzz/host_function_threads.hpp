// The functions of the host that random programs call, for sessions.
#pragma once

#include <memory>
#include <vector>

#include "pando/session/runner.hpp"

namespace pando::fuzz {

/// Gives a runner those of oracle::host_functions that its program calls, each on a thread that
/// lives as long as the object.
class HostFunctionThreads {
 public:
  explicit HostFunctionThreads(Runner& runner);

 private:
  std::vector<std::unique_ptr<HostFunctionThread>> threads_;
};

}  // namespace pando::fuzz
