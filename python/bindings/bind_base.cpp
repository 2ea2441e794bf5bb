// Dtypes, attributes, exceptions.
#include "bindings.hpp"
#include "pando/base/dtype.hpp"
#include "pando/base/error.hpp"

namespace pando::python {
namespace {

/// A list of floats as soon as one of them is.
AttributeValue list_attribute(nb::handle values, const std::string& what) {
  Integers integers;
  if (nb::try_cast(values, integers)) return integers.as(what);
  Floats floats;
  if (nb::try_cast(values, floats)) return floats;
  throw TypeError(str_cat(what,
                          ": wanted a flag, a number, a text, a dtype or a list of numbers; given ",
                          nb::repr(values).c_str()));
}

AttributeValue attribute_from(nb::handle value, const std::string& what) {
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value);
  if (nb::isinstance<nb::int_>(value)) return nb::cast<Integer>(value).as(what);
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  if (nb::isinstance<DType>(value)) return nb::cast<DType>(value);
  return list_attribute(value, what);
}

/// `OutOfMemoryException`, which also gives what is alive at the peak.
void register_out_of_memory(nb::module_& m, nb::handle base) {
  static PyObject* type =
      nb::exception<OutOfMemory>(m, "OutOfMemoryException", base.ptr()).release().ptr();
  nb::register_exception_translator(
      [](const std::exception_ptr& p, void*) {
        try {
          std::rethrow_exception(p);
        } catch (const OutOfMemory& e) {
          const nb::object value = nb::handle(type)(e.what());
          value.attr("_summary") = e.summary();
          PyErr_SetObject(type, value.ptr());
        }
      },
      nullptr);
  nb::handle(type).attr("getSummaryReport") = nb::cpp_function(
      [](nb::handle self) -> nb::str {
        return nb::str(nb::getattr(self, "_summary", nb::str("")));
      },
      nb::name("getSummaryReport"), nb::is_method(), nb::scope(type),
      "What is alive at the peak, one tensor a line; empty when no program was "
      "compiled.");
  nb::handle(type).attr("getProfilePath") = nb::cpp_function(
      [](nb::handle) { return nb::str(""); }, nb::name("getProfilePath"), nb::is_method(),
      nb::scope(type), "Always empty: no profile is written, the summary holds everything.");
}

/// `poplar_application_runtime_error` below its two bases.
void register_application_fault(nb::module_& m) {
  PyObject* base = PyExc_Exception;
  for (const char* name : {"poplar_exception", "poplar_runtime_error"}) {
    const nb::object type =
        nb::steal(PyErr_NewException((std::string("pando._core.") + name).c_str(), base, nullptr));
    m.attr(name) = type;
    base = type.ptr();
  }
  nb::exception<ApplicationFault>(m, "poplar_application_runtime_error", base);
}

/// Exceptions with a Python class of their own; derived classes are tried first.
void register_exceptions(nb::module_& m) {
  nb::exception<Error> error(m, "popart_exception", PyExc_Exception);
  nb::exception<InternalError>(m, "popart_internal_exception", error.ptr());
  nb::exception<RuntimeFault>(m, "popart_runtime_error", error.ptr());
  register_out_of_memory(m, error);
  register_application_fault(m);
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

std::int64_t Integer::as(const std::string& what) const {
  std::int64_t result = 0;
  if (nb::try_cast(value, result)) return result;
  throw ValueError(str_cat(what, ": wanted an integer of 64 bits, from -2^63 to 2^63 - 1; given ",
                           nb::repr(value).c_str()));
}

std::vector<std::int64_t> Integers::as(const std::string& what) const {
  std::vector<std::int64_t> result;
  result.reserve(values.size());
  for (const Integer& value : values) {
    result.push_back(value.as(str_cat(what, ", element ", result.size())));
  }
  return result;
}

Attributes attributes_from(const nb::dict& values, const std::string& what) {
  Attributes attributes;
  for (const auto& [key, value] : values) {
    const auto name = nb::cast<std::string>(key);
    attributes.set(name, attribute_from(value, str_cat(what, ": attribute '", name, "'")));
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
    dtypes.value(std::string(kDTypeTraits[i].name).c_str(), static_cast<DType>(i));
  }
  m.def("parse_dtype", &parse_dtype, nb::arg("name"));
  m.def(
      "dtype_bytes", [](DType dtype) { return dtype_bytes(dtype); }, nb::arg("dtype"));
}

}  // namespace pando::python
