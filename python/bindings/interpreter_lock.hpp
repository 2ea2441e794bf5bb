// The interpreter's lock around calls of the core.
#pragma once

#include <Python.h>

namespace pando::python {

/// Gives the interpreter's lock to other threads while it lives. A thread for which the interpreter
/// has ended meanwhile sleeps here until the process has: before 3.14 CPython would unwind its
/// stack, through frames that cannot be.
class InterpreterReleased {
 public:
  InterpreterReleased();
  ~InterpreterReleased();
  InterpreterReleased(const InterpreterReleased&) = delete;
  InterpreterReleased& operator=(const InterpreterReleased&) = delete;

 private:
  PyThreadState* state_;
};

/// Whether a call of the core should end: a signal has come, or the interpreter has ended. To be
/// called without the interpreter's lock, which only its main thread takes, for only it handles
/// signals.
bool should_stop();

/// To be called once, by the thread that imports the module.
void watch_interpreter();

}  // namespace pando::python
