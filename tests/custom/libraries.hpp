// What the tests of libraries share.
#pragma once

#include <string>
#include <vector>

#include "pando/ops/library_ops.hpp"
#include "pando/session/session.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {

inline std::string library_file(const std::string& name) {
  return str_cat(PANDO_TEST_LIBRARIES, "/", name, ".so");
}

inline SessionOptions options_of(const std::string& cache_folder = "") {
  SessionOptions options;
  options.num_threads = 1;
  options.check_inplace_ambiguity = false;  // the order is that of the ops
  options.cache_folder = cache_folder;
  return options;
}

/// An op's builder at line 12 of a program.
inline OpBuilder builder_of(Graph& graph) {
  return {graph, {.name = "layer/op", .location = {"model.py", 12, "build"}}};
}

/// What the only output stream of a session gets in a run.
template <class T>
std::vector<T> run(Session& session) {
  std::vector<T> result(static_cast<std::size_t>(num_elements(session.output_streams()[0].shape)));
  session.run({}, {{reinterpret_cast<std::byte*>(result.data()), 1}});
  return result;
}

/// Compiles and runs once.
template <class T>
std::vector<T> result_of(const Ir& ir) {
  Session session(ir, options_of());
  session.attach();
  session.weights_from_host();
  return run<T>(session);
}

}  // namespace pando::testing
