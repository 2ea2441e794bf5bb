#include "bindings.hpp"
#include "interpreter_lock.hpp"
#include "tools/command_line.hpp"

NB_MODULE(_core, m) {
  m.doc() = "The C++ core of Pando: graphs, transforms and sessions.";
  pando::python::watch_interpreter();
  // Threads, and other libraries such as torch, may hold objects to the end: no fault of a program.
  nb::set_leak_warnings(false);
  pando::python::bind_exceptions(m);
  pando::python::bind_base(m);
  pando::python::bind_host_arrays(m);
  pando::python::bind_ir(m);
  pando::python::bind_registry(m);
  pando::python::bind_transforms(m);
  pando::python::bind_call_lock(m);
  pando::python::bind_session(m);
  m.def("run_command_line", &pando::run_command_line, nb::arg("arguments"),
        nb::call_guard<nb::gil_scoped_release>(),
        "Runs one command of the `pando` command line; returns its exit status.");
}
