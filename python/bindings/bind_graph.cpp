// Graphs, and how ops are made in them.
#include <algorithm>
#include <optional>

#include "host_arrays.hpp"
#include "pando/base/error.hpp"
#include "pando/ir/call_order.hpp"
#include "pando/ir/graph.hpp"
#include "pando/ir/graph_surgery.hpp"
#include "pando/ir/op_maker.hpp"
#include "pando/ir/tensor_place.hpp"
#include "pando/ops/ops.hpp"

namespace pando::python {
namespace {

std::optional<std::size_t> index_of(const std::vector<Tensor*>& tensors, const Tensor& tensor) {
  const auto it = std::find(tensors.begin(), tensors.end(), &tensor);
  if (it == tensors.end()) return std::nullopt;
  return static_cast<std::size_t>(it - tensors.begin());
}

/// Changes of what there is already.
void bind_graph_edits(nb::class_<Graph>& graph) {
  graph.def("add_activation", &Graph::add_activation, nb::arg("id"), nb::arg("info"), kOwnedByIr)
      .def("set_outputs", &Graph::set_outputs, nb::arg("outputs"))
      .def("set_input_order", &Graph::set_input_order, nb::arg("inputs"))
      .def("remove_input", &remove_input, nb::arg("index"))
      .def("remove_output", &remove_output, nb::arg("index"))
      .def("erase_tensor", &Graph::erase_tensor, nb::arg("tensor"))
      .def(
          "clone_unconnected",
          [](Graph& g, const Op& op) -> Op& { return OpMaker(g).clone_unconnected(op); },
          nb::arg("op"), kOwnedByIr)
      .def("reorder", &Graph::reorder, nb::arg("ops"))
      .def(
          "erase_op", [](Graph& g, Op& op) { g.erase_ops({&op}); }, nb::arg("op"))
      .def(
          "replace_uses", [](Graph&, Tensor& from, Tensor& to) { replace_uses(from, to); },
          nb::arg("old"), nb::arg("new"))
      .def("mark_output", &Graph::mark_output, nb::arg("tensor"))
      .def("set_insertion_point", &Graph::set_insertion_point, nb::arg("op").none())
      .def(
          "set_by_ref",
          [](Graph& g, Tensor& input, bool by_ref) {
            internal_check(&input.graph() == &g,
                           "only an input of the graph is passed by reference");
            input.set_by_ref(by_ref);
          },
          nb::arg("input"), nb::arg("by_ref"));
}

/// For errors before there is an op to describe.
std::string op_text(const OpDef& def, const OpContext& context) {
  const SourceLocation& at = context.location;
  return at.known() ? str_cat(def.name, ", made at ", at.file, ":", at.line) : def.name;
}

Op& create_op(Graph& graph, std::string_view kind, const std::vector<Tensor*>& inputs,
              const nb::dict& values, const OpContext& context, std::vector<Graph*> called_graphs,
              const std::vector<std::string>& output_names) {
  const OpDef& def = op_registry().get(kind);
  Attributes attributes;
  if (!values.empty()) {
    attributes = attributes_from(values, [&] { return op_text(def, context); });
  }
  return graph.create_op(def, inputs, std::move(attributes), context, std::move(called_graphs),
                         output_names);
}

/// Most ops have one output, and nobody asks for the op itself.
Tensor* create_tensor(Graph& graph, std::string_view kind, const std::vector<Tensor*>& inputs,
                      const nb::dict& values, const OpContext& context, std::string name) {
  return create_op(graph, kind, inputs, values, context, {}, {std::move(name)}).output(0);
}

void bind_op_creation(nb::class_<Graph>& graph) {
  graph
      .def(
          "create_op", &create_op, nb::arg("kind"), nb::arg("inputs"), nb::arg("attributes"),
          nb::arg("context"), nb::arg("called_graphs") = std::vector<Graph*>{},
          nb::arg("output_names") = std::vector<std::string>{}, kOwnedByIr,
          nb::sig("def create_op(self, kind: str, inputs: collections.abc.Sequence[Tensor | None], "
                  "attributes: dict, context: OpContext, called_graphs: "
                  "collections.abc.Sequence[Graph] = [], output_names: "
                  "collections.abc.Sequence[str] = []) -> Op"))
      .def("create_tensor", &create_tensor, nb::arg("kind"), nb::arg("inputs"),
           nb::arg("attributes"), nb::arg("context"), nb::arg("name"), kOwnedByIr,
           nb::sig("def create_tensor(self, kind: str, inputs: collections.abc.Sequence[Tensor | "
                   "None], attributes: dict, context: OpContext, name: str) -> Tensor"),
           "The first output of a new op that calls no graph.");
}

}  // namespace

void bind_graph(nb::module_& m) {
  nb::class_<Graph> graph(m, "Graph");
  graph.def_prop_ro("id", &Graph::id)
      .def_prop_ro("ir_id", [](const Graph& g) { return g.ir().id(); })
      .def_prop_ro("is_main", &Graph::is_main)
      .def_prop_ro("inputs", &Graph::inputs, kOwnedByIr)
      .def_prop_ro("outputs", &Graph::outputs, kOwnedByIr)
      .def(
          "input_index",
          [](const Graph& g, const Tensor& tensor) { return index_of(g.inputs(), tensor); },
          nb::arg("tensor"))
      .def(
          "output_index",
          [](const Graph& g, const Tensor& tensor) { return index_of(g.outputs(), tensor); },
          nb::arg("tensor"))
      .def_prop_ro("ops", &Graph::ops, kOwnedByIr)
      .def_prop_ro(
          "tensors", [](const Graph& g) { return g.tensors().all(); }, kOwnedByIr)
      .def_prop_ro("called_graphs", &called_graphs, kOwnedByIr)
      .def(
          "can_take",
          [](const Graph& g, const std::vector<Tensor*>& tensors) {
            return can_be_inputs(g, tensors);
          },
          nb::arg("tensors"), "Whether all are in the graph, and in one place as far as is known.")
      .def("find_tensor", &Graph::find_tensor, nb::arg("id"), kOwnedByIr)
      .def(
          "find_op", [](const Graph& g, std::int64_t id) { return g.op_list().find(id); },
          nb::arg("id"), kOwnedByIr)
      .def("unique_tensor_id", &Graph::unique_tensor_id, nb::arg("scoped_name"))
      .def("add_input", &Graph::add_input, nb::arg("id"), nb::arg("info"),
           nb::arg("by_ref") = false, kOwnedByIr)
      .def(
          "add_variable",
          [](Graph& g, const std::string& id, const TensorInfo& info, nb::object array,
             const VariableSettings& settings) {
            const std::int64_t entries = settings.host_entries(g.ir().replication_factor);
            Tensor* variable = g.add_variable(
                id, info, share_object(array, info, static_cast<std::size_t>(entries)));
            variable->set_settings(settings);
            return variable;
          },
          nb::arg("id"), nb::arg("info"), nb::arg("array"),
          nb::arg("settings") = VariableSettings(), kOwnedByIr)
      .def(
          "add_constant",
          [](Graph& g, const std::string& id, const TensorInfo& info, nb::object array) {
            return g.add_constant(id, info, share_object(array, info));
          },
          nb::arg("id"), nb::arg("info"), nb::arg("array"), kOwnedByIr)
      .def("add_stream", &Graph::add_stream, nb::arg("id"), nb::arg("info"), kOwnedByIr)
      .def_rw("differentiable", &Graph::differentiable);
  bind_op_creation(graph);
  bind_graph_edits(graph);
}

}  // namespace pando::python
