// Threads that the system may refuse.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace pando {

/// Adds threads that run work(0), work(1), ... until there are `wanted`. Throws RuntimeFault, which
/// says that they are `purpose` ("the replicas of a session"), when the system gives no more; those
/// that run stay in `threads`.
void start_threads(std::vector<std::thread>& threads, std::size_t wanted, const char* purpose,
                   const std::function<void(int)>& work);

}  // namespace pando
