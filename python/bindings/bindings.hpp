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

#include "pando/base/attributes.hpp"

namespace nb = nanobind;

namespace pando::python {

void bind_base(nb::module_& m);
void bind_ir(nb::module_& m);
void bind_transforms(nb::module_& m);
void bind_session(nb::module_& m);

/// Python values <-> attributes: bool, int, float, str, DType, sequences of int or float.
Attributes attributes_from(const nb::dict& values);
nb::dict attributes_to_dict(const Attributes& attributes);

}  // namespace pando::python
