// Dtypes, attributes, exceptions.
#include "bindings.hpp"
#include "pando/base/dtype.hpp"
#include "pando/base/error.hpp"

namespace pando::python {
namespace {

AttributeValue list_attribute(const nb::sequence& values) {
  bool has_float = false;
  for (nb::handle item : values) has_float = has_float || nb::isinstance<nb::float_>(item);
  if (has_float) return nb::cast<Floats>(values);
  return nb::cast<Ints>(values);
}

AttributeValue attribute_from(nb::handle value) {
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value);
  if (nb::isinstance<nb::int_>(value)) return nb::cast<std::int64_t>(value);
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  if (nb::isinstance<DType>(value)) return nb::cast<DType>(value);
  return list_attribute(nb::cast<nb::sequence>(value));
}

/// Exceptions with a Python class of their own; derived classes are tried first.
void register_exceptions(nb::module_& m) {
  nb::exception<Error> error(m, "popart_exception", PyExc_Exception);
  nb::exception<InternalError>(m, "popart_internal_exception", error.ptr());
  nb::exception<RuntimeFault>(m, "popart_runtime_error", error.ptr());
  // The device layer's exceptions are a family of their own; popart.exceptions has the rest of it.
  const auto device_exception = [&m](const char* name, PyObject* base) {
    const std::string full_name = str_cat("pando._core.", name);
    nb::object type = nb::steal(PyErr_NewException(full_name.c_str(), base, nullptr));
    m.attr(name) = type;
    return type;
  };
  const nb::object poplar = device_exception("poplar_exception", PyExc_Exception);
  const nb::object poplar_runtime = device_exception("poplar_runtime_error", poplar.ptr());
  nb::exception<ApplicationFault>(m, "poplar_application_runtime_error", poplar_runtime.ptr());
  nb::exception<OutOfMemory>(m, "OutOfMemoryException", error.ptr());
  nb::register_exception_translator(
      [](const std::exception_ptr& p, void*) {
        try {
          std::rethrow_exception(p);
        } catch (const TypeError& e) {
          PyErr_SetString(PyExc_TypeError, e.what());
        } catch (const NotSupported& e) {
          PyErr_SetString(PyExc_NotImplementedError, e.what());
        } catch (const Interrupted&) {
          // The signal handler of the interpreter may have raised already.
          if (PyErr_Occurred() == nullptr) PyErr_SetNone(PyExc_KeyboardInterrupt);
        }
      },
      nullptr);
}

}  // namespace

Attributes attributes_from(const nb::dict& values) {
  Attributes attributes;
  for (const auto& [name, value] : values) {
    attributes.set(nb::cast<std::string>(name), attribute_from(value));
  }
  return attributes;
}

nb::dict attributes_to_dict(const Attributes& attributes) {
  nb::dict result;
  for (const auto& [name, value] : attributes) {
    result[name.c_str()] = std::visit([](const auto& v) { return nb::cast(v); }, value);
  }
  return result;
}

void bind_base(nb::module_& m) {
  register_exceptions(m);
  nb::enum_<DType> dtypes(m, "DType");
  for (std::size_t i = 0; i < kDTypeTraits.size(); ++i) {
    dtypes.value(kDTypeTraits[i].name.data(), static_cast<DType>(i));
  }
  m.def("parse_dtype", &parse_dtype, nb::arg("name"));
  m.def(
      "dtype_bytes", [](DType dtype) { return dtype_bytes(dtype); }, nb::arg("dtype"));
}

}  // namespace pando::python
