// The lock that calls of a session hold while its runs may wait for functions on other threads.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "pando/base/error.hpp"

namespace pando::python {
namespace {

/// The callback whose thread this is.
struct CallbackOfThread {
  std::uint64_t number = 0;  // 0: of none
  std::string name;
};
thread_local CallbackOfThread callback_of_thread;

std::uint64_t next_callback() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

void enter_callback_thread(std::uint64_t number, std::string name) {
  callback_of_thread = {number, std::move(name)};
}

/// A reentrant lock of Python. A function that a run waits for cannot wait for the run in turn: it
/// gets an error while the run lasts. Not in Python: an interrupt between two lines of it would
/// leave the lock held.
class CallLock {
 public:
  explicit CallLock(const nb::object& lock)
      : acquire_(lock.attr("acquire")), release_(lock.attr("release")) {}

  /// `callbacks`: those that the run waits for. The calling thread holds the lock.
  void begin_run(std::vector<std::uint64_t> callbacks) { waited_for_ = std::move(callbacks); }
  void end_run() { waited_for_.clear(); }

  void enter() const {
    if (callback_of_thread.number == 0) {
      acquire_();
      return;
    }
    // A run that has the lock may say only later that it waits for this thread.
    constexpr double kSecondsOfATry = 0.02;
    do {
      refuse_if_waited_for();
    } while (!nb::cast<bool>(acquire_(nb::arg("timeout") = kSecondsOfATry)));
  }
  void exit() const { release_(); }

 private:
  void refuse_if_waited_for() const {
    const auto& [number, name] = callback_of_thread;
    if (std::find(waited_for_.begin(), waited_for_.end(), number) == waited_for_.end()) return;
    throw std::runtime_error(str_cat(
        "a session was called by a function that its own run waits for, '", name,
        "': such a function may note what it wants; call the session when the run has ended"));
  }

  nb::object acquire_, release_;
  std::vector<std::uint64_t> waited_for_;
};

}  // namespace

void bind_call_lock(nb::module_& m) {
  m.def("next_callback", &next_callback, "A number for one more callback, from 1 on.");
  m.def("enter_callback_thread", &enter_callback_thread, nb::arg("number"), nb::arg("name"),
        "Says that the calling thread runs the function of this callback.");
  nb::class_<CallLock>(m, "CallLock",
                       "A lock for calls. What a run waits for gets RuntimeError while it lasts.")
      .def(nb::init<nb::object>(), nb::arg("lock"))
      .def("begin_run", &CallLock::begin_run, nb::arg("callbacks"))
      .def("end_run", &CallLock::end_run)
      .def("__enter__", &CallLock::enter)
      .def(
          "__exit__", [](const CallLock& lock, const nb::args&) { lock.exit(); },
          nb::sig("def __exit__(self, *error: object) -> None"));
}

}  // namespace pando::python
