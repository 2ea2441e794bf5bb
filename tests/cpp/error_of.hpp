#pragma once

#include <exception>
#include <functional>
#include <string>

namespace pando::testing {

/// The message of the exception that `work` throws.
inline std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace pando::testing
