// Exception types and the helper that builds their messages.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace pando {

/// What a stream would write for `part`; text and integers without a stream, which is slow to make.
template <class Part>
void append_text(std::string& text, const Part& part) {
  constexpr bool is_number = std::is_integral_v<Part> && sizeof(Part) >= sizeof(short) &&
                             !std::is_same_v<Part, wchar_t> && !std::is_same_v<Part, char16_t> &&
                             !std::is_same_v<Part, char32_t>;
  if constexpr (std::is_convertible_v<const Part&, std::string_view>) {
    text += std::string_view(part);
  } else if constexpr (is_number) {
    text += std::to_string(part);
  } else {
    std::ostringstream out;
    out << part;
    text += std::move(out).str();
  }
}

/// Concatenates the stream representations of `parts`.
template <class... Parts>
std::string str_cat(const Parts&... parts) {
  std::string text;
  (append_text(text, parts), ...);
  return text;
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

 protected:
  struct UserFault {};
  InternalError(UserFault, const std::string& what) : Error(what) {}
};

/// A fault in the user's program that shows when an op is lowered. Programs know it by the class of
/// internal errors; it asks for no report.
class LoweringError : public InternalError {
 public:
  explicit LoweringError(const std::string& what) : InternalError(UserFault{}, what) {}
};

/// A fault while a program runs (`popart_runtime_error`).
class RuntimeFault : public Error {
 public:
  using Error::Error;
};

/// A value of the user's that an op cannot take, found while the program runs
/// (`poplar_application_runtime_error`).
class ApplicationFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The program does not fit the memory limit. `summary()` lists what is alive at the peak.
class OutOfMemory : public Error {
 public:
  OutOfMemory(const std::string& what, std::string summary)
      : Error(summary.empty() ? what : what + "\n" + summary), summary_(std::move(summary)) {}
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
