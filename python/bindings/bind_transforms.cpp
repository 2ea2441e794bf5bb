// Graph transforms.
#include "bindings.hpp"
#include "pando/transforms/accumulate.hpp"
#include "pando/transforms/autodiff.hpp"
#include "pando/transforms/batch_serialise.hpp"
#include "pando/transforms/find_attention.hpp"
#include "pando/transforms/inplace_ambiguity.hpp"
#include "pando/transforms/pipelining.hpp"
#include "pando/transforms/recompute.hpp"
#include "pando/transforms/repeat_graph.hpp"
#include "pando/transforms/route_tensor.hpp"

namespace pando::python {
namespace {

/// Tensors and graphs belong to their Ir, which the front end keeps alive with every handle.
constexpr auto kOwnedByIr = nb::rv_policy::reference;

void bind_autodiff(nb::module_& m) {
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
         const std::vector<GradGraphInfo>& infos, bool leaves_out_unreached) {
        GradGraphInfos known;
        for (const GradGraphInfo& info : infos) known[info.forward_graph] = info;
        std::vector<GradGraphInfo> result;
        const Unreached unreached = leaves_out_unreached ? Unreached::LeftOut : Unreached::Error;
        GradGraphInfos found = autodiff(graph, provided, required, known, unreached);
        // In an order that does not depend on addresses.
        for (Graph* forward : graph.ir().graphs()) {
          const auto info = found.find(forward);
          if (info != found.end()) result.push_back(std::move(info->second));
        }
        return result;
      },
      nb::arg("graph"), nb::arg("grads_provided").none() = nb::none(),
      nb::arg("grads_required").none() = nb::none(),
      nb::arg("called_graphs_info") = std::vector<GradGraphInfo>{},
      nb::arg("leaves_out_unreached") = false,
      "Differentiates a graph; returns one info per differentiated or supplied forward graph.");
  m.def("find_attention", &find_attention, nb::arg("graph"),
        "Makes one op of the products and the softmax of each attention.");
  m.def("check_inplace_ambiguity", &check_inplace_ambiguity, nb::arg("ir"));
}

void bind_gradient_rewrites(nb::module_& m) {
  nb::class_<Accumulation>(m, "Accumulation")
      .def_ro("counter", &Accumulation::counter, kOwnedByIr)
      .def_ro("accumulators", &Accumulation::accumulators, kOwnedByIr)
      .def_ro("info", &Accumulation::info, nb::rv_policy::copy);
  m.def(
      "accumulate_gradients",
      [](const GradGraphInfo& info, const std::string& counter_name,
         const std::vector<std::string>& names, bool sums, const OpContext& context) {
        const auto kind = sums ? AccumulationKind::Sum : AccumulationKind::Mean;
        return accumulate_gradients(info, counter_name, names, kind, context);
      },
      nb::arg("info"), nb::arg("counter_name"), nb::arg("names"), nb::arg("sums"),
      nb::arg("context"),
      "Keeps the running mean, or the sum, of the last gradients of a gradient graph in "
      "by-reference inputs.");
  nb::class_<RecomputeInputs>(m, "RecomputeInputs")
      .def_ro("forward", &RecomputeInputs::forward, kOwnedByIr)
      .def_ro("gradient", &RecomputeInputs::gradient, kOwnedByIr)
      .def_ro("expected", &RecomputeInputs::expected, nb::rv_policy::copy);
  m.def("add_recompute_inputs", &add_recompute_inputs, nb::arg("target"), nb::arg("info"),
        "Adds the inputs that recomputing needs to a graph.");
  nb::class_<Recomputation>(m, "Recomputation")
      .def_ro("info", &Recomputation::info, nb::rv_policy::copy)
      .def_ro("inputs", &Recomputation::inputs, nb::rv_policy::copy);
  m.def("recompute", &recompute, nb::arg("info"), nb::arg("name"), nb::arg("context"),
        "A gradient graph that runs the forward graph again.");
}

void bind_serialisation(nb::module_& m) {
  nb::enum_<SerialHandle::Row>(m, "SerialRow")
      .value("Relative", SerialHandle::Row::Relative)
      .value("First", SerialHandle::Row::First)
      .value("Computed", SerialHandle::Row::Computed);
  nb::class_<SerialHandle>(m, "SerialHandle")
      .def(
          "__init__",
          [](SerialHandle* self, const Stream* stream, RemoteBuffer* buffer, SerialHandle::Row row,
             std::int64_t row_offset, Graph* row_graph, Graph* gather, Graph* shard) {
            new (self) SerialHandle{stream, buffer, row, row_offset, row_graph, gather, shard};
          },
          nb::arg("stream").none() = nb::none(), nb::arg("buffer").none() = nb::none(),
          nb::arg("row") = SerialHandle::Row::Relative, nb::arg("row_offset") = 0,
          nb::arg("row_graph").none() = nb::none(), nb::arg("gather").none() = nb::none(),
          nb::arg("shard").none() = nb::none())
      .def_ro("buffer", &SerialHandle::buffer, kOwnedByIr)
      .def_ro("row", &SerialHandle::row)
      .def_ro("row_offset", &SerialHandle::row_offset);
  nb::class_<SerialOptions>(m, "SerialOptions")
      .def(
          "__init__",
          [](SerialOptions* self, std::string name, std::int64_t steps, std::int64_t rows,
             SerialHandles loads, SerialHandles stores, Tensor* seed, bool io_tiles,
             bool overlapped, OpContext context) {
            new (self) SerialOptions{std::move(name),   steps, rows,     std::move(loads),
                                     std::move(stores), seed,  io_tiles, overlapped,
                                     std::move(context)};
          },
          nb::arg("name"), nb::arg("steps"), nb::arg("rows"), nb::arg("loads"), nb::arg("stores"),
          nb::arg("seed").none(), nb::arg("io_tiles"), nb::arg("overlapped"), nb::arg("context"));
  nb::class_<BatchSerialised>(m, "BatchSerialised")
      .def_ro("graph", &BatchSerialised::graph, kOwnedByIr)
      .def_ro("passed", &BatchSerialised::passed, kOwnedByIr);
  nb::class_<BatchSerialisedPair>(m, "BatchSerialisedPair")
      .def_ro("forward", &BatchSerialisedPair::forward, nb::rv_policy::copy)
      .def_ro("gradient", &BatchSerialisedPair::gradient, nb::rv_policy::copy)
      .def_prop_ro(
          "stored",
          [](const BatchSerialisedPair& pair) {
            nb::list result;
            for (const auto& [tensor, handle] : pair.stored) {
              result.append(nb::make_tuple(nb::cast(tensor, kOwnedByIr), nb::cast(handle)));
            }
            return result;
          },
          nb::sig("def stored(self) -> list[tuple[Tensor, SerialHandle]]"));
  m.def("batch_serialise", nb::overload_cast<Graph&, const SerialOptions&>(&batch_serialise),
        nb::arg("graph"), nb::arg("options"),
        "A graph that runs a graph for several micro-batches in a row.");
  m.def("batch_serialise_pair",
        nb::overload_cast<const GradGraphInfo&, const std::vector<Tensor*>&, const SerialOptions&,
                          const std::string&>(&batch_serialise),
        nb::arg("info"), nb::arg("named"), nb::arg("options"), nb::arg("gradient_name"),
        "Serialises a forward graph and its gradient graph.");
}

void bind_pipelines(nb::module_& m) {
  nb::class_<PipelineSchedule::Stage>(m, "PipelineStage")
      .def_ro("graph", &PipelineSchedule::Stage::graph, "The id of the graph of its ops.")
      .def_ro("devices", &PipelineSchedule::Stage::devices,
              "The virtual devices that compute them, ascending.");
  nb::class_<PipelineSchedule>(m, "PipelineSchedule",
                               "Which stage of a pipeline works on which micro-batch in which "
                               "cycle; str() is a table of it.")
      .def_ro("graph", &PipelineSchedule::graph, "The id of the graph that runs the cycles.")
      .def_prop_ro("stages", [](const PipelineSchedule& s) { return s.stages; })
      .def_ro("steps", &PipelineSchedule::steps, "The number of micro-batches.")
      .def_prop_ro("num_cycles", &PipelineSchedule::num_cycles)
      .def_prop_ro("main_begin", &PipelineSchedule::main_begin,
                   "The first cycle in which all stages work.")
      .def_prop_ro("main_end", &PipelineSchedule::main_end, "The first cycle of the ramp down.")
      .def("micro_batch", &PipelineSchedule::micro_batch, nb::arg("stage"), nb::arg("cycle"),
           "What a stage works on in a cycle; None: nothing.")
      .def("shown_cycles", &PipelineSchedule::shown_cycles, nb::arg("most"),
           "The columns of a picture with room for about `most` cycles; None: some are left out.")
      .def("__str__", &PipelineSchedule::text);
  m.def("pipeline", &pipeline, nb::arg("graph"), nb::arg("ops"), nb::arg("steps"),
        nb::arg("context"),
        "Moves ops with their stages into a graph that runs them as a pipeline.");
}

void bind_schedules(nb::module_& m) {
  m.def("repeat_graph", &repeat_graph, nb::arg("graph"), nb::arg("count"), nb::arg("context"),
        kOwnedByIr, "Moves all ops of a graph into a graph that a loop in their place runs.");
  m.def("route_tensor", &route_tensor, nb::arg("tensor"), nb::arg("target"), nb::arg("modified"),
        kOwnedByIr, "The tensor of a graph below that stands for a tensor.");
}

}  // namespace

void bind_transforms(nb::module_& m) {
  bind_autodiff(m);
  bind_gradient_rewrites(m);
  bind_serialisation(m);
  bind_pipelines(m);
  bind_schedules(m);
}

}  // namespace pando::python
