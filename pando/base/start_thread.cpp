#include "pando/base/start_thread.hpp"

#include <new>
#include <system_error>

#include "pando/base/error.hpp"

namespace pando {

void start_threads(std::vector<std::thread>& threads, std::size_t wanted, const char* purpose,
                   const std::function<void(int)>& work) {
  const auto refuse = [&](const char* why) {
    throw RuntimeFault(str_cat("the system gives no more threads for ", purpose, ": wanted ",
                               wanted, ", given ", threads.size(), " (", why,
                               "). Use fewer of them, or raise the limits of processes and of "
                               "memory (ulimit -u, ulimit -v)"));
  };
  try {
    // A thread that has started must find its place.
    threads.reserve(wanted);
    while (threads.size() < wanted) {
      threads.emplace_back([work, i = static_cast<int>(threads.size())] { work(i); });
    }
  } catch (const std::system_error& error) {
    refuse(error.what());
  } catch (const std::bad_alloc& error) {
    refuse(error.what());
  }
}

}  // namespace pando
