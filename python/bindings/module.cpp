#include "bindings.hpp"
#include "interpreter_lock.hpp"

NB_MODULE(_core, m) {
  m.doc() = "The C++ core of Pando: graphs, transforms and sessions.";
  pando::python::watch_interpreter();
  pando::python::bind_base(m);
  pando::python::bind_ir(m);
  pando::python::bind_transforms(m);
  pando::python::bind_session(m);
}
