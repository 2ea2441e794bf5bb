// Tensors, streams, remote buffers and the Ir.
#include <algorithm>
#include <optional>

#include "host_arrays.hpp"
#include "pando/base/error.hpp"
#include "pando/base/replicas.hpp"
#include "pando/ir/graph.hpp"
#include "pando/ir/tensor_place.hpp"
#include "pando/ir/text_printer.hpp"

namespace pando::python {
namespace {

void bind_tensor_info(nb::module_& m) {
  nb::enum_<TensorKind>(m, "TensorKind")
      .value("Activation", TensorKind::Activation)
      .value("GraphInput", TensorKind::GraphInput)
      .value("Variable", TensorKind::Variable)
      .value("Constant", TensorKind::Constant)
      .value("Stream", TensorKind::Stream);
  nb::class_<TensorInfo>(m, "TensorInfo")
      .def(
          "__init__",
          [](TensorInfo* self, DType dtype, const Integers& shape,
             const std::optional<Integers>& meta_shape) {
            new (self) TensorInfo{dtype, shape.as("shape"),
                                  meta_shape ? meta_shape->as("meta_shape") : Shape()};
          },
          nb::arg("dtype"), nb::arg("shape"), nb::arg("meta_shape") = nb::none())
      .def_ro("dtype", &TensorInfo::dtype)
      .def_prop_ro("shape", [](const TensorInfo& info) { return info.shape.get(); })
      .def_prop_rw(
          "meta_shape", [](const TensorInfo& info) { return info.meta_shape.get(); },
          [](TensorInfo& info, const Integers& shape) { info.meta_shape = shape.as("meta_shape"); })
      .def_prop_ro("num_elements", &TensorInfo::num_elements)
      .def_prop_ro("bytes", &TensorInfo::bytes)
      .def("__repr__", &info_text);
}

void bind_variable_settings(nb::module_& m) {
  nb::class_<VariableSettings>(m, "VariableSettings")
      .def(
          "__init__",
          [](VariableSettings* self, std::vector<std::int64_t> groups, bool entry_per_replica,
             std::int64_t remote_buffer, const Integer& slot, std::int64_t shard_over) {
            new (self) VariableSettings{std::move(groups), entry_per_replica, remote_buffer,
                                        slot.as("slot"), shard_over};
          },
          nb::arg("groups") = std::vector<std::int64_t>{}, nb::arg("entry_per_replica") = false,
          nb::arg("remote_buffer") = 0, nb::arg("slot") = 0, nb::arg("shard_over") = 1)
      .def_ro("groups", &VariableSettings::groups)
      .def_ro("entry_per_replica", &VariableSettings::entry_per_replica)
      .def_ro("remote_buffer", &VariableSettings::remote_buffer)
      .def_ro("slot", &VariableSettings::slot)
      .def_ro("shard_over", &VariableSettings::shard_over);
}

void bind_tensor(nb::module_& m) {
  nb::class_<Tensor>(m, "Tensor")
      .def_prop_ro("id", &Tensor::id)
      .def_prop_ro("name", &Tensor::name)
      .def_prop_ro("graph", &Tensor::graph, kOwnedByIr)
      .def_prop_ro("kind", &Tensor::kind)
      .def_prop_ro("dtype", &Tensor::dtype)
      .def_prop_ro("shape", &Tensor::shape)
      .def_prop_rw(
          "meta_shape", [](const Tensor& t) { return t.info.meta_shape.get(); },
          [](Tensor& t, const Integers& shape) { t.info.meta_shape = shape.as("meta_shape"); })
      .def_ro("info", &Tensor::info)
      .def_prop_ro("producer", &Tensor::producer, kOwnedByIr)
      .def_prop_ro("producer_index", &Tensor::producer_index)
      .def_prop_ro(
          "uses",
          [](const Tensor& t) {
            std::vector<std::pair<Op*, int>> uses;
            for (const Use& use : t.uses()) uses.emplace_back(use.op, use.index);
            return uses;
          },
          kOwnedByIr)
      .def_prop_ro("is_used", [](const Tensor& t) { return !t.uses().empty(); })
      .def_prop_ro("device", &device_of,
                   "That of the producer, else of the first use that has one.")
      .def_prop_ro("on_io_tiles", &is_on_io_tiles,
                   "Whether the producer, else the first use, is on them; None if nothing tells.")
      .def_prop_ro("is_by_ref", &Tensor::is_by_ref)
      .def_prop_ro("settings", &Tensor::settings)
      .def_prop_ro("data", &host_array, nb::for_getter(nb::sig("def data(self, /) -> typing.Any")))
      .def(
          "share_data", [](Tensor& t, nb::object array) { t.data = share_object(array, t.info); },
          nb::arg("array"));
}

/// The streams of ops that load, and of ops that store, in order of first use.
std::pair<std::vector<std::string>, std::vector<std::string>> used_streams(const Ir& ir) {
  std::vector<std::string> loaded, stored;
  for (const Graph* graph : ir.graphs()) {
    for (const Op* op : graph->ops()) {
      const OpDef& def = op->def();
      if (!(def.is_load || def.is_store) || !op->attributes.has("stream")) continue;
      std::vector<std::string>& streams = def.is_load ? loaded : stored;
      const std::string& stream = op->attributes.text("stream");
      if (std::find(streams.begin(), streams.end(), stream) == streams.end()) {
        streams.push_back(stream);
      }
    }
  }
  return {loaded, stored};
}

bool has_ops(const Ir& ir) {
  const std::vector<Graph*> graphs = ir.graphs();
  return std::any_of(graphs.begin(), graphs.end(),
                     [](const Graph* graph) { return !graph->ops().empty(); });
}

void bind_streams_and_buffers(nb::module_& m) {
  m.attr("MOST_REPLICAS") = kMostReplicas;
  nb::enum_<StreamDirection>(m, "StreamDirection")
      .value("HostToDevice", StreamDirection::HostToDevice)
      .value("DeviceToHost", StreamDirection::DeviceToHost);
  nb::class_<Stream>(m, "Stream")
      .def_ro("handle", &Stream::handle, kOwnedByIr)
      .def_ro("direction", &Stream::direction);
  nb::class_<RemoteBuffer>(m, "RemoteBuffer")
      .def_ro("id", &RemoteBuffer::id)
      .def_ro("info", &RemoteBuffer::info)
      .def_ro("entries", &RemoteBuffer::entries)
      .def(
          "replace",
          [](RemoteBuffer& buffer, const TensorInfo& info, const Integer& entries) {
            const std::int64_t count = entries.as("entries");
            if (!has_sound_size(info, count)) refuse_size(info, "remote buffer", count);
            buffer.info = info;
            buffer.entries = count;
          },
          nb::arg("info"), nb::arg("entries"), "Gives it other slots, and as many.");
}

std::string text_of(const Ir& ir, std::optional<std::size_t> max_data_bytes) {
  PrintOptions options;
  if (max_data_bytes) options.max_data_bytes = *max_data_bytes;
  return print_ir(ir, options);
}

void bind_whole_ir(nb::module_& m) {
  nb::class_<Ir>(m, "Ir")
      .def("__init__", [](Ir* self) { new (self) Ir(); })
      .def_prop_ro("id", &Ir::id)
      .def_prop_ro("main_graph", &Ir::main_graph, kOwnedByIr)
      .def_prop_ro("graphs", &Ir::graphs, kOwnedByIr)
      .def("find_graph", &Ir::find_graph, nb::arg("id"), kOwnedByIr)
      .def("create_graph", &Ir::create_graph, nb::arg("base"), kOwnedByIr)
      .def("create_graph_with_id", &Ir::create_graph_with_id, nb::arg("id"), kOwnedByIr)
      .def("erase_graph", &Ir::erase_graph, nb::arg("graph"))
      .def("add_stream", &Ir::add_stream, nb::arg("handle"), nb::arg("direction"), kOwnedByIr)
      .def("find_stream", &Ir::find_stream, nb::arg("handle_id"), kOwnedByIr)
      .def_prop_ro(
          "streams",
          [](const Ir& ir) {
            std::vector<Stream*> streams;
            for (const auto& stream : ir.streams()) streams.push_back(stream.get());
            return streams;
          },
          kOwnedByIr)
      .def("used_streams", &used_streams,
           "The ids of the streams that ops load, and of those that they store to, in order of "
           "first use.")
      .def_prop_ro("has_ops", &has_ops)
      .def(
          "add_remote_buffer",
          [](Ir& ir, const TensorInfo& info, const Integer& entries) -> RemoteBuffer& {
            return ir.add_remote_buffer(info, entries.as("entries"));
          },
          nb::arg("info"), nb::arg("entries"), kOwnedByIr)
      .def_prop_ro(
          "remote_buffers",
          [](const Ir& ir) {
            std::vector<RemoteBuffer*> buffers;
            for (const auto& buffer : ir.remote_buffers()) buffers.push_back(buffer.get());
            return buffers;
          },
          kOwnedByIr)
      .def("next_op_id", &Ir::next_op_id)
      .def("next_tensor_suffix", &Ir::next_tensor_suffix)
      .def("clone", &Ir::clone)
      .def("text", &text_of, nb::arg("max_data_bytes").none(),
           nb::call_guard<nb::gil_scoped_release>(), "The form that parse_ir reads.")
      .def_prop_rw(
          "num_host_transfers", [](const Ir& ir) { return ir.num_host_transfers; },
          [](Ir& ir, const Integer& count) {
            ir.num_host_transfers = count.as("num_host_transfers");
          })
      .def_prop_rw(
          "replication_factor", [](const Ir& ir) { return ir.replication_factor; },
          [](Ir& ir, const Integer& count) {
            const std::int64_t replicas = count.as("replication_factor");
            check_replicas(replicas);
            ir.replication_factor = replicas;
          });
}

}  // namespace

void bind_ir(nb::module_& m) {
  bind_tensor_info(m);
  bind_variable_settings(m);
  bind_tensor(m);
  bind_op(m);
  bind_graph(m);
  bind_streams_and_buffers(m);
  bind_whole_ir(m);
}

}  // namespace pando::python
