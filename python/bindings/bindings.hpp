// What the files of the extension module share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <functional>

#include "pando/base/attributes.hpp"

namespace nb = nanobind;

namespace pando::python {

/// Graphs, tensors and ops belong to their Ir, which the front end keeps alive with every handle.
constexpr auto kOwnedByIr = nb::rv_policy::reference;

void bind_exceptions(nb::module_& m);
void bind_base(nb::module_& m);
void bind_host_arrays(nb::module_& m);
void bind_ir(nb::module_& m);
/// Parts of bind_ir.
void bind_op(nb::module_& m);
void bind_graph(nb::module_& m);
void bind_registry(nb::module_& m);
void bind_transforms(nb::module_& m);
void bind_call_lock(nb::module_& m);
void bind_session(nb::module_& m);

/// A Python integer of any size, as a parameter: nanobind itself would only say that no overload
/// takes one of more than 64 bits.
struct Integer {
  nb::object value;

  /// `what`: how the error calls it. Throws ValueError if it has more than 64 bits.
  std::int64_t as(const std::string& what) const;
};

/// A sequence of them.
struct Integers {
  std::vector<Integer> values;

  std::vector<std::int64_t> as(const std::string& what) const;
};

/// Python values <-> attributes: bool, int, float, str, DType, sequences of int or float. `what`
/// says whose they are, for errors.
Attributes attributes_from(const nb::dict& values, const std::function<std::string()>& what);
nb::dict attributes_to_dict(const Attributes& attributes);

}  // namespace pando::python

namespace nanobind::detail {

template <>
struct type_caster<pando::python::Integer> {
  NB_TYPE_CASTER(pando::python::Integer, const_name("int"))

  bool from_python(handle source, std::uint8_t, cleanup_list*) noexcept {
    value.value = steal(PyNumber_Index(source.ptr()));
    if (!value.value.is_valid()) PyErr_Clear();
    return value.value.is_valid();
  }
};

template <>
struct type_caster<pando::python::Integers> {
  NB_TYPE_CASTER(pando::python::Integers, const_name("collections.abc.Sequence[int]"))

  bool from_python(handle source, std::uint8_t flags, cleanup_list* cleanup) noexcept {
    make_caster<std::vector<pando::python::Integer>> items;
    if (!items.from_python(source, flags, cleanup)) return false;
    value.values = std::move(items.value);
    return true;
  }
};

}  // namespace nanobind::detail
