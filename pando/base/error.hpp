// Exception types and the helper that builds their messages.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace pando {

/// Concatenates the stream representations of `parts`.
template <class... Parts>
std::string str_cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

/// A fault in the user's program found by the IR or the compiler (`popart_exception` in Python).
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A broken invariant of Pando itself (`popart_internal_exception`). Asks for a report.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& what)
      : Error(what + " (internal error of Pando: please report it)") {}
};

/// A fault while a program runs (`popart_runtime_error`).
class RuntimeFault : public Error {
 public:
  using Error::Error;
};

/// Values of the running program that it must not have (`poplar_application_runtime_error`).
class ApplicationFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The program does not fit the memory limit. `summary()` lists what is alive at the peak.
class OutOfMemory : public Error {
 public:
  OutOfMemory(const std::string& what, std::string summary)
      : Error(what + "\n" + summary), summary_(std::move(summary)) {}
  const std::string& summary() const { return summary_; }

 private:
  std::string summary_;
};

/// A bad argument value (`ValueError` in Python).
class ValueError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// An argument of the wrong kind (`TypeError` in Python).
class TypeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A valid request that Pando does not support (`NotImplementedError` in Python).
class NotSupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A run that the user stopped (`KeyboardInterrupt` in Python).
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("the run was interrupted") {}
};

/// Throws InternalError unless `condition` holds.
inline void internal_check(bool condition, const char* what) {
  if (!condition) throw InternalError(what);
}

}  // namespace pando
