// Ops and their contexts.
#include <algorithm>
#include <optional>

#include "bindings.hpp"
#include "pando/base/error.hpp"
#include "pando/ir/graph.hpp"

namespace pando::python {
namespace {

Tensor* element(const std::vector<Tensor*>& tensors, std::size_t index) {
  return index < tensors.size() ? tensors[index] : nullptr;
}

void bind_op_context(nb::module_& m) {
  nb::enum_<ExecutionContext>(m, "ExecutionContext")
      .value("Normal", ExecutionContext::Normal)
      .value("WeightsFromHost", ExecutionContext::WeightsFromHost)
      .value("WeightsToHost", ExecutionContext::WeightsToHost);
  nb::class_<OpContext>(m, "OpContext")
      .def(
          "__init__",
          [](OpContext* self, std::string name, const std::string& file, int line,
             const std::string& function, const std::optional<Integer>& device, bool io_tiles,
             ExecutionContext execution) {
            const auto number = device ? std::optional(device->as("device")) : std::nullopt;
            static SharedTexts texts;  // of all files and functions that made ops
            new (self) OpContext{std::move(name),
                                 {texts.of(file), line, texts.of(function)},
                                 number,
                                 io_tiles,
                                 execution};
          },
          nb::arg("name") = "", nb::arg("file") = "", nb::arg("line") = 0, nb::arg("function") = "",
          nb::arg("device").none() = 0, nb::arg("io_tiles") = false,
          nb::arg("execution") = ExecutionContext::Normal)
      .def_prop_rw(
          "name", [](const OpContext& c) { return c.name.str(); },
          [](OpContext& c, std::string name) { c.name = std::move(name); })
      .def_prop_ro("file", [](const OpContext& c) { return c.location.file.str(); })
      .def_prop_ro("line", [](const OpContext& c) { return c.location.line; })
      .def_prop_ro("function", [](const OpContext& c) { return c.location.function.str(); })
      .def_rw("device", &OpContext::device, nb::arg().none())
      .def_rw("io_tiles", &OpContext::io_tiles)
      .def_rw("execution", &OpContext::execution);
}

/// Rewiring.
void bind_op_edits(nb::class_<Op>& bound) {
  bound.def("resize_inputs", &Op::resize_inputs, nb::arg("count"))
      .def("set_output", &Op::set_output, nb::arg("index"), nb::arg("tensor").none())
      .def(
          "infer_outputs",
          [](Op& op) {
            const std::vector<TensorInfo> infos = op.def().infer(op);
            const std::size_t count = std::min(infos.size(), op.outputs().size());
            for (std::size_t i = 0; i < count; ++i) {
              if (op.outputs()[i] != nullptr) op.outputs()[i]->info = infos[i];
            }
          },
          "Gives the outputs the shapes and dtypes that follow from the inputs.")
      .def(
          "aliased_input",
          [](const Op& op, int output) {
            return op.def().output_alias ? op.def().output_alias(op, output) : -1;
          },
          nb::arg("output"), "The input whose storage the output has; -1: its own.")
      .def("set_after",
           [](Op& op, std::vector<Op*> earlier) { AfterEdges::set(op, std::move(earlier)); });
}

}  // namespace

void bind_op(nb::module_& m) {
  bind_op_context(m);
  nb::class_<Op> bound(m, "Op");
  bound.def_prop_ro("id", &Op::id)
      .def_prop_ro("kind", &Op::kind_name)
      .def_prop_ro("graph", &Op::graph, kOwnedByIr)
      .def_prop_ro("inputs", &Op::inputs, kOwnedByIr)
      .def_prop_ro("outputs", &Op::outputs, kOwnedByIr)
      .def(
          "input", [](const Op& op, std::size_t index) { return element(op.inputs(), index); },
          nb::arg("index"), kOwnedByIr, "None where nothing is connected.")
      .def(
          "output", [](const Op& op, std::size_t index) { return element(op.outputs(), index); },
          nb::arg("index"), kOwnedByIr, "None where there is none.")
      .def("set_input", &Op::set_input, nb::arg("index"), nb::arg("tensor").none())
      .def("add_output", &Op::add_output, nb::arg("tensor_id"), nb::arg("info"), kOwnedByIr)
      .def_prop_rw(
          "attributes", [](const Op& op) { return attributes_to_dict(op.attributes); },
          [](Op& op, const nb::dict& values) {
            op.attributes = attributes_from(values, [&] { return describe(op); });
          })
      .def("set_attribute",
           [](Op& op, const std::string& name, nb::object value) {
             nb::dict values;
             values[name.c_str()] = value;
             const Attributes given = attributes_from(values, [&] { return describe(op); });
             for (const auto& [key, attribute] : given) {
               op.attributes.set(key, attribute);
             }
           })
      .def_prop_ro(
          "context", [](Op& op) -> OpContext& { return op.context; }, kOwnedByIr)
      .def_ro("called_graphs", &Op::called_graphs, kOwnedByIr)
      .def_prop_ro(
          "after", [](const Op& op) { return op.after(); }, kOwnedByIr)
      .def("run_after", [](Op& op, Op& earlier) { op.run_after(earlier); })
      .def_prop_ro("modified_inputs",
                   [](const Op& op) {
                     const InputSet modified = op.modified_inputs();
                     return std::vector<int>(modified.begin(), modified.end());
                   })
      .def("describe", &describe);
  bind_op_edits(bound);
}

}  // namespace pando::python
