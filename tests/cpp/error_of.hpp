#pragma once

#include <exception>
#include <functional>
#include <string>

namespace pando::testing {

/// The message of the exception that `work` throws, which is an E; others are not caught.
template <class E = std::exception>
std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const E& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace pando::testing
