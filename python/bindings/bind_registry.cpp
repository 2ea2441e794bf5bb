// The registry and the rules of graphs.
#include "bindings.hpp"
#include "pando/ir/verifier.hpp"
#include "pando/ops/ops.hpp"

namespace pando::python {
namespace {

std::vector<AttributeType> attribute_types(const OpDef& def) {
  std::vector<AttributeType> types;
  types.reserve(def.attributes.size());
  for (const AttributeSpec& spec : def.attributes) types.push_back(spec.type);
  return types;
}

}  // namespace

void bind_registry(nb::module_& m) {
  nb::enum_<AttributeType>(m, "AttributeType")
      .value("Flag", AttributeType::Flag)
      .value("Integer", AttributeType::Integer)
      .value("Number", AttributeType::Number)
      .value("Text", AttributeType::Text)
      .value("DTypeName", AttributeType::DTypeName)
      .value("IntList", AttributeType::IntList)
      .value("NumberList", AttributeType::NumberList);
  nb::class_<OpDef>(m, "OpKind")
      .def_ro("name", &OpDef::name)
      .def_ro("doc", &OpDef::doc)
      .def_ro("min_inputs", &OpDef::min_inputs)
      .def_ro("max_inputs", &OpDef::max_inputs)
      .def_prop_ro("attributes",
                   [](const OpDef& def) {
                     std::vector<std::pair<std::string, bool>> specs;
                     specs.reserve(def.attributes.size());
                     for (const AttributeSpec& spec : def.attributes) {
                       specs.emplace_back(spec.name, spec.required);
                     }
                     return specs;
                   })
      .def_prop_ro("attribute_types", &attribute_types, "Of `attributes`, in their order.")
      .def_ro("num_called_graphs", &OpDef::num_called_graphs)
      .def_ro("differentiable_inputs", &OpDef::differentiable_inputs)
      .def_prop_ro("is_pointwise", [](const OpDef& d) { return d.scalar_body != nullptr; })
      .def_prop_ro("is_view", [](const OpDef& d) { return d.view != nullptr; })
      .def_prop_ro("has_gradient", [](const OpDef& d) { return d.gradient != nullptr; })
      .def_ro("has_side_effects", &OpDef::has_side_effects);
  m.def(
      "verify", [](const Ir& ir) { verify(ir, ""); }, nb::arg("ir"),
      "Raises popart_internal_exception naming the first broken rule of the Ir.");
  m.def(
      "op_kinds", [] { return op_registry().all(); }, nb::rv_policy::reference,
      "Every registered op kind, sorted by name.");
}

}  // namespace pando::python
