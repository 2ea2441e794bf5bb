// Ir, graphs, tensors, ops and the registry.
#include <algorithm>
#include <optional>

#include "bindings.hpp"
#include "pando/base/error.hpp"
#include "pando/base/replicas.hpp"
#include "pando/ir/call_order.hpp"
#include "pando/ir/graph.hpp"
#include "pando/ir/graph_surgery.hpp"
#include "pando/ir/op_maker.hpp"
#include "pando/ir/tensor_place.hpp"
#include "pando/ops/ops.hpp"

namespace pando::python {
namespace {

/// Graphs, tensors and ops belong to their Ir, which the front end keeps alive with every handle.
constexpr auto kOwnedByIr = nb::rv_policy::reference;

nb::dlpack::dtype array_dtype(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  const auto bits = static_cast<std::uint8_t>(dtype_bytes(dtype) * 8);
  if (dtype == DType::Bool) return {static_cast<std::uint8_t>(Code::Bool), 8, 1};
  if (is_float8(dtype)) return {static_cast<std::uint8_t>(Code::UInt), 8, 1};
  if (is_floating_point(dtype)) return {static_cast<std::uint8_t>(Code::Float), bits, 1};
  const Code code = traits(dtype).is_signed ? Code::Int : Code::UInt;
  return {static_cast<std::uint8_t>(code), bits, 1};
}

/// The host value as a NumPy array that shares its memory.
nb::object host_array(const Tensor& tensor) {
  if (tensor.data == nullptr) return nb::none();
  std::vector<std::size_t> shape(tensor.shape().begin(), tensor.shape().end());
  auto* keep = new std::shared_ptr<HostArray>(tensor.data);
  nb::capsule owner(keep,
                    [](void* p) noexcept { delete static_cast<std::shared_ptr<HostArray>*>(p); });
  nb::ndarray<nb::numpy> array(tensor.data->data, shape.size(), shape.data(), owner, nullptr,
                               array_dtype(tensor.dtype()));
  return nb::cast(array, nb::rv_policy::reference);
}

/// Shares the memory of a C-ordered array of `entries` values and keeps the array alive.
std::shared_ptr<HostArray> share_array(const nb::ndarray<nb::c_contig, nb::device::cpu>& array,
                                       const TensorInfo& info, std::size_t entries,
                                       nb::object owner) {
  if (array.nbytes() != entries * info.bytes()) {
    throw ValueError(str_cat("wanted ", entries * info.bytes(), " bytes for ", entries, " times ",
                             info_text(info), "; given ", array.nbytes()));
  }
  auto data = std::make_shared<HostArray>();
  data->data = static_cast<std::byte*>(array.data());
  data->bytes = array.nbytes();
  data->owner = std::shared_ptr<void>(new nb::object(std::move(owner)), [](void* p) {
    const nb::gil_scoped_acquire gil;
    delete static_cast<nb::object*>(p);
  });
  return data;
}

using ContiguousArray = nb::ndarray<nb::c_contig, nb::device::cpu, nb::ro>;

std::shared_ptr<HostArray> share_object(nb::handle array, const TensorInfo& info,
                                        std::size_t entries = 1) {
  const auto typed = nb::cast<nb::ndarray<nb::c_contig, nb::device::cpu, nb::ro>>(array);
  auto writable = nb::ndarray<nb::c_contig, nb::device::cpu>(typed.handle());
  return share_array(writable, info, entries, nb::borrow(array));
}

Tensor* element(const std::vector<Tensor*>& tensors, std::size_t index) {
  return index < tensors.size() ? tensors[index] : nullptr;
}

std::optional<std::size_t> index_of(const std::vector<Tensor*>& tensors, const Tensor& tensor) {
  const auto it = std::find(tensors.begin(), tensors.end(), &tensor);
  if (it == tensors.end()) return std::nullopt;
  return static_cast<std::size_t>(it - tensors.begin());
}

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
      .def_ro("shape", &TensorInfo::shape)
      .def_prop_rw(
          "meta_shape", [](const TensorInfo& info) { return info.meta_shape; },
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
          "meta_shape", [](const Tensor& t) { return t.info.meta_shape; },
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
      .def("set_after", [](Op& op, std::vector<Op*> earlier) { op.set_after(std::move(earlier)); });
}

void bind_op(nb::module_& m) {
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
  bind_op_context(m);
  bind_op(m);
  bind_graph(m);
  bind_streams_and_buffers(m);
  bind_whole_ir(m);
}

}  // namespace pando::python
