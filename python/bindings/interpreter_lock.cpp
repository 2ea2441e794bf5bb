#include "interpreter_lock.hpp"

#include <cxxabi.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "bindings.hpp"

namespace pando::python {
namespace {

/// The longest that the end of the interpreter waits for calls of threads that it does not know.
constexpr std::chrono::seconds kLongestEnd(10);

std::atomic<unsigned long> main_thread{0};
std::atomic<bool> has_ended{false};

struct Calls {
  std::mutex mutex;
  std::condition_variable none;
  std::atomic<int> count{0};
};

/// Never destroyed: threads of the process outlive what is.
Calls& calls() {
  static auto* const all = new Calls;
  return *all;
}

[[noreturn]] void sleep_for_ever() {
  for (;;) pause();
}

/// What still runs must not meet the end of the process: it would use what is being destroyed.
void end_calls() {
  has_ended = true;
  Calls& all = calls();
  std::unique_lock lock(all.mutex);
  all.none.wait_for(lock, kLongestEnd, [&] { return all.count == 0; });
}

}  // namespace

InterpreterReleased::InterpreterReleased() {
  ++calls().count;
  state_ = PyEval_SaveThread();
}

InterpreterReleased::~InterpreterReleased() {
  Calls& all = calls();
  if (--all.count == 0 && has_ended) {
    const std::lock_guard lock(all.mutex);
    all.none.notify_all();
  }
  if (has_ended) sleep_for_ever();
  try {
    PyEval_RestoreThread(state_);
  } catch (const abi::__forced_unwind&) {
    sleep_for_ever();
  }
}

bool should_stop() {
  if (PyThread_get_thread_ident() != main_thread) return has_ended;
  const nb::gil_scoped_acquire lock;
  return PyErr_CheckSignals() != 0;
}

void watch_interpreter() {
  main_thread = nb::cast<unsigned long>(
      nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  // The thread that forks is the main one of the child.
  pthread_atfork(nullptr, nullptr, [] {
    main_thread = PyThread_get_thread_ident();
    calls().count = 0;
  });
  Py_AtExit(end_calls);
}

}  // namespace pando::python
