// Graph transforms.
#include "bindings.hpp"
#include "pando/transforms/autodiff.hpp"
#include "pando/transforms/dependencies.hpp"

namespace pando::python {

void bind_transforms(nb::module_& m) {
  nb::enum_<ConnectionType>(m, "ConnectionType")
      .value("Fwd", ConnectionType::Fwd)
      .value("FwdGrad", ConnectionType::FwdGrad);
  nb::class_<ExpectedConnection>(m, "ExpectedConnection")
      .def(
          "__init__",
          [](ExpectedConnection* self, Tensor* tensor, ConnectionType type) {
            new (self) ExpectedConnection{tensor, type};
          },
          nb::arg("forward_tensor"), nb::arg("type"))
      .def_ro("forward_tensor", &ExpectedConnection::forward_tensor, nb::rv_policy::reference)
      .def_ro("type", &ExpectedConnection::type);
  nb::class_<GradGraphInfo>(m, "GradGraphInfo")
      .def(
          "__init__",
          [](GradGraphInfo* self, Graph* forward, Graph* gradient,
             std::vector<ExpectedConnection> inputs, std::vector<ExpectedConnection> outputs) {
            new (self) GradGraphInfo{forward, gradient, std::move(inputs), std::move(outputs)};
          },
          nb::arg("forward_graph"), nb::arg("gradient_graph"), nb::arg("expected_inputs"),
          nb::arg("expected_outputs"))
      .def_ro("forward_graph", &GradGraphInfo::forward_graph, nb::rv_policy::reference)
      .def_ro("gradient_graph", &GradGraphInfo::gradient_graph, nb::rv_policy::reference)
      .def_ro("expected_inputs", &GradGraphInfo::expected_inputs, nb::rv_policy::copy)
      .def_ro("expected_outputs", &GradGraphInfo::expected_outputs, nb::rv_policy::copy);
  m.def(
      "autodiff",
      [](Graph& graph, const std::optional<std::vector<Tensor*>>& provided,
         const std::optional<std::vector<Tensor*>>& required,
         const std::vector<GradGraphInfo>& infos) {
        GradGraphInfos known;
        for (const GradGraphInfo& info : infos) known[info.forward_graph] = info;
        std::vector<GradGraphInfo> result;
        for (auto& [forward, info] : autodiff(graph, provided, required, known)) {
          result.push_back(std::move(info));
        }
        return result;
      },
      nb::arg("graph"), nb::arg("grads_provided").none() = nb::none(),
      nb::arg("grads_required").none() = nb::none(),
      nb::arg("called_graphs_info") = std::vector<GradGraphInfo>{},
      "Differentiates a graph; returns one info per differentiated or supplied forward graph.");
  m.def("check_inplace_ambiguity", &check_inplace_ambiguity, nb::arg("ir"));
}

}  // namespace pando::python
