// Errors and the helper that builds their messages.
#pragma once

#include <cstddef>
#include <cstdint>
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

/// What went wrong: what a caller tells errors apart by, and a front end chooses its own types by.
enum class ErrorCode : std::uint8_t {
  InvalidProgram,   // a fault of the user's in a graph or a program
  UnorderedAccess,  // a write in place and another use of the tensor have no order
  NotLowerable,     // a fault of the user's that shows when an op is lowered
  EmptyProgram,     // there is nothing to run
  InvalidArgument,  // a bad value of an argument
  WrongType,        // an argument of the wrong kind
  NotFound,         // a name that nothing has
  NotSupported,     // a valid request that Pando does not support
  CorruptFile,      // bytes that are damaged, or of another kind or version
  OutOfMemory,
  RunFailed,     // a fault while a program runs
  InvalidValue,  // a value of the user's that an op cannot take, found while the program runs
  Interrupted,   // the user stopped a run
  Internal,      // a broken invariant of Pando itself
};
inline constexpr std::size_t kNumErrorCodes = 14;

/// What the library throws: a code, and a text for people.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what) : Error(ErrorCode::InvalidProgram, what) {}
  Error(ErrorCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

/// Asks for a report.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& what)
      : Error(ErrorCode::Internal, what + " (internal error of Pando: please report it)") {}
};

/// The error of a code, by a type of its own.
template <ErrorCode kCode>
class ErrorOf : public Error {
 public:
  explicit ErrorOf(const std::string& what) : Error(kCode, what) {}
};

using LoweringError = ErrorOf<ErrorCode::NotLowerable>;
using RuntimeFault = ErrorOf<ErrorCode::RunFailed>;
using ApplicationFault = ErrorOf<ErrorCode::InvalidValue>;
using ValueError = ErrorOf<ErrorCode::InvalidArgument>;
using TypeError = ErrorOf<ErrorCode::WrongType>;
using NotSupported = ErrorOf<ErrorCode::NotSupported>;

/// The program does not fit the memory limit. `summary()` lists what is alive at the peak.
class OutOfMemory : public Error {
 public:
  OutOfMemory(const std::string& what, std::string summary)
      : Error(ErrorCode::OutOfMemory, summary.empty() ? what : what + "\n" + summary),
        summary_(std::move(summary)) {}
  const std::string& summary() const { return summary_; }

 private:
  std::string summary_;
};

class Interrupted : public Error {
 public:
  Interrupted() : Error(ErrorCode::Interrupted, "the run was interrupted") {}
};

/// Throws InternalError unless `condition` holds.
inline void internal_check(bool condition, const char* what) {
  if (!condition) throw InternalError(what);
}

}  // namespace pando
