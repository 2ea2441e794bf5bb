// The registry and the rules of graphs.
#include "bindings.hpp"
#include "interpreter_lock.hpp"
#include "pando/ir/verifier.hpp"
#include "pando/ops/library_ops.hpp"
#include "pando/ops/ops.hpp"

namespace pando::python {
namespace {

std::vector<AttributeType> attribute_types(const OpDef& def) {
  std::vector<AttributeType> types;
  types.reserve(def.attributes.size());
  for (const AttributeSpec& spec : def.attributes) types.push_back(spec.type);
  return types;
}

std::vector<LibraryOp*> ops_of(const OpLibrary& library) {
  std::vector<LibraryOp*> ops;
  for (const auto& op : library.ops()) ops.push_back(op.get());
  return ops;
}

void bind_libraries(nb::module_& m) {
  nb::class_<LibraryAttribute>(m, "LibraryAttribute")
      .def_ro("name", &LibraryAttribute::name)
      .def_prop_ro("type", &attribute_type)
      .def_ro("required", &LibraryAttribute::required)
      .def_ro("doc", &LibraryAttribute::doc);
  nb::class_<LibraryOp>(m, "LibraryOp")
      .def_ro("name", &LibraryOp::name)
      .def_ro("doc", &LibraryOp::doc)
      .def_ro("attributes", &LibraryOp::attributes)
      .def_prop_ro("min_inputs", [](const LibraryOp& op) { return op.record.min_inputs; })
      .def_prop_ro(
          "max_inputs", [](const LibraryOp& op) { return op.record.max_inputs; }, "-1: any number.")
      .def_prop_ro("max_outputs", [](const LibraryOp& op) { return op.record.max_outputs; })
      .def_prop_ro("num_in_place", [](const LibraryOp& op) { return op.record.num_in_place; })
      .def_prop_ro("has_gradient",
                   [](const LibraryOp& op) { return op.record.gradient != nullptr; })
      .def_ro("defined_in", &LibraryOp::library, nb::rv_policy::reference);
  nb::class_<OpLibrary>(m, "OpLibrary")
      .def_prop_ro("path", &OpLibrary::path)
      .def_prop_ro("hash", &OpLibrary::hash)
      .def_prop_ro("domain", &OpLibrary::domain, "Empty: it names none.")
      .def_prop_ro("domain_version", &OpLibrary::domain_version)
      .def_prop_ro("ops", &ops_of, nb::rv_policy::reference);
  m.def("load_library", &load_library, nb::arg("path"), nb::rv_policy::reference,
        nb::call_guard<InterpreterReleased>(), "See pando.load_library.");
  m.def(
      "find_library_op", [](const std::string& name) { return find_library_op(name); },
      nb::arg("name"), nb::rv_policy::reference, "None if no library that is loaded has it.");
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
      .value("NumberList", AttributeType::NumberList)
      .value("TextList", AttributeType::TextList);
  nb::class_<OpDef>(m, "OpKind")
      .def_ro("name", &OpDef::name)
      .def_ro("doc", &OpDef::doc)
      .def_ro("family", &OpDef::family, "Empty for ops of users' libraries.")
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
  bind_libraries(m);
}

}  // namespace pando::python
