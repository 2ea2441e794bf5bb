// Dtypes and attributes.
#include "bindings.hpp"
#include "pando/base/dtype.hpp"
#include "pando/base/error.hpp"

namespace pando::python {
namespace {

/// A list of floats as soon as one of them is; an empty one is of integers.
AttributeValue list_attribute(nb::handle values, const std::function<std::string()>& what) {
  Integers integers;
  if (nb::try_cast(values, integers)) return integers.as(what());
  Floats floats;
  if (nb::try_cast(values, floats)) return floats;
  Texts texts;
  if (nb::try_cast(values, texts)) return texts;
  throw TypeError(str_cat(
      what(), ": wanted a flag, a number, a text, a dtype or a list of numbers or texts; given ",
      nb::repr(values).c_str()));
}

AttributeValue attribute_from(nb::handle value, const std::function<std::string()>& what) {
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value);
  if (nb::isinstance<nb::int_>(value)) {
    std::int64_t number = 0;
    return nb::try_cast(value, number) ? number : nb::cast<Integer>(value).as(what());
  }
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  if (nb::isinstance<DType>(value)) return nb::cast<DType>(value);
  return list_attribute(value, what);
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

Attributes attributes_from(const nb::dict& values, const std::function<std::string()>& what) {
  std::vector<Attributes::Entry> entries;
  entries.reserve(values.size());
  for (const auto& [key, value] : values) {
    auto name = nb::cast<std::string>(key);
    AttributeValue attribute =
        attribute_from(value, [&] { return str_cat(what(), ": attribute '", name, "'"); });
    entries.emplace_back(std::move(name), std::move(attribute));
  }
  return Attributes::of(std::move(entries));
}

nb::dict attributes_to_dict(const Attributes& attributes) {
  nb::dict result;
  for (const auto& [name, value] : attributes) {
    result[name.c_str()] = std::visit([](const auto& v) { return nb::cast(v); }, value);
  }
  return result;
}

void bind_base(nb::module_& m) {
  nb::enum_<DType> dtypes(m, "DType");
  for (std::size_t i = 0; i < kDTypeTraits.size(); ++i) {
    dtypes.value(std::string(kDTypeTraits[i].name).c_str(), static_cast<DType>(i));
  }
  m.def("parse_dtype", &parse_dtype, nb::arg("name"));
  m.def(
      "dtype_bytes", [](DType dtype) { return dtype_bytes(dtype); }, nb::arg("dtype"));
}

}  // namespace pando::python
