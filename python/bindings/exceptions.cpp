// What Python is given for the errors of the core.
#include <array>

#include "bindings.hpp"
#include "pando/base/error.hpp"

namespace pando::python {
namespace {

struct NewType {
  const char* name;
  const char* base;
};

/// The types that this module makes, each after its base.
constexpr std::array kNewTypes = {
    NewType{"popart_exception", "Exception"},
    NewType{"popart_internal_exception", "popart_exception"},
    NewType{"popart_runtime_error", "popart_exception"},
    NewType{"OutOfMemoryException", "popart_exception"},
    NewType{"poplar_exception", "Exception"},
    NewType{"poplar_runtime_error", "poplar_exception"},
    NewType{"poplar_application_runtime_error", "poplar_runtime_error"},
};

struct TypeOfCode {
  ErrorCode code;
  const char* type;
  const char* advice = "";  // behind the text of the error
};

constexpr std::array kTypes = {
    TypeOfCode{ErrorCode::InvalidProgram, "popart_exception"},
    TypeOfCode{ErrorCode::UnorderedAccess, "popart_exception",
               ": build them inside `popxl.in_sequence()`, or set the session option "
               "enableInplaceAmbiguityChecking to False"},
    TypeOfCode{ErrorCode::NotLowerable, "popart_internal_exception"},
    TypeOfCode{ErrorCode::EmptyProgram, "RuntimeError"},
    TypeOfCode{ErrorCode::InvalidArgument, "ValueError"},
    TypeOfCode{ErrorCode::WrongType, "TypeError"},
    TypeOfCode{ErrorCode::NotFound, "popart_exception"},
    TypeOfCode{ErrorCode::NotSupported, "NotImplementedError"},
    TypeOfCode{ErrorCode::CorruptFile, "popart_exception"},
    TypeOfCode{ErrorCode::OutOfMemory, "OutOfMemoryException"},
    TypeOfCode{ErrorCode::RunFailed, "popart_runtime_error"},
    TypeOfCode{ErrorCode::InvalidValue, "poplar_application_runtime_error"},
    TypeOfCode{ErrorCode::Interrupted, "KeyboardInterrupt"},
    TypeOfCode{ErrorCode::Internal, "popart_internal_exception"},
};

constexpr bool has_each_code_in_order() {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (static_cast<std::size_t>(kTypes[i].code) != i) return false;
  }
  return kTypes.size() == kNumErrorCodes;
}
static_assert(has_each_code_in_order());

/// The types by code; the module holds them.
std::array<nb::handle, kNumErrorCodes> types;

nb::object type_named(const nb::module_& m, const char* name) {
  return nb::hasattr(m, name) ? m.attr(name) : nb::module_::import_("builtins").attr(name);
}

void raise(const Error& error) {
  const auto code = static_cast<std::size_t>(error.code());
  // The signal handler of the interpreter may have raised already.
  if (error.code() == ErrorCode::Interrupted && PyErr_Occurred() != nullptr) return;
  if (error.code() == ErrorCode::Interrupted) return PyErr_SetNone(types[code].ptr());
  const nb::object value = types[code](str_cat(error.what(), kTypes[code].advice));
  if (const auto* memory = dynamic_cast<const OutOfMemory*>(&error)) {
    value.attr("_summary") = memory->summary();
  }
  PyErr_SetObject(types[code].ptr(), value.ptr());
}

void add_memory_reports(nb::handle type) {
  type.attr("getSummaryReport") = nb::cpp_function(
      [](nb::handle self) -> nb::str {
        return nb::str(nb::getattr(self, "_summary", nb::str("")));
      },
      nb::name("getSummaryReport"), nb::is_method(), nb::scope(type),
      "What is alive at the peak, one tensor a line; empty when no program was "
      "compiled.");
  type.attr("getProfilePath") = nb::cpp_function(
      [](nb::handle) { return nb::str(""); }, nb::name("getProfilePath"), nb::is_method(),
      nb::scope(type), "Always empty: no profile is written, the summary holds everything.");
}

}  // namespace

void bind_exceptions(nb::module_& m) {
  for (const NewType& made : kNewTypes) {
    const std::string name = str_cat("pando._core.", made.name);
    const nb::object base = type_named(m, made.base);
    m.attr(made.name) = nb::steal(PyErr_NewException(name.c_str(), base.ptr(), nullptr));
  }
  for (std::size_t i = 0; i < kTypes.size(); ++i) types[i] = type_named(m, kTypes[i].type);
  add_memory_reports(type_named(m, "OutOfMemoryException"));
  nb::register_exception_translator(
      [](const std::exception_ptr& p, void*) {
        try {
          std::rethrow_exception(p);
        } catch (const Error& error) {
          raise(error);
        }
      },
      nullptr);
}

}  // namespace pando::python
