#include "pando/ir/ir_data.hpp"

#include <algorithm>
#include <unordered_set>

#include "pando/base/error.hpp"
#include "pando/base/replicas.hpp"
#include "pando/ir/call_order.hpp"
#include "pando/ir/op_maker.hpp"
#include "pando/ir/verifier.hpp"

namespace pando {
namespace {

[[noreturn]] void fail(const TextPosition& position, const std::string& message) {
  if (position.line == 0) throw Error(message);
  throw Error(str_cat("line ", position.line, ", column ", position.column, ": ", message));
}

/// Runs `work`; what it refuses is reported at `position`.
template <class Work>
void at(const TextPosition& position, Work work) {
  try {
    work();
  } catch (const std::exception& error) {
    fail(position, error.what());
  }
}

SourceTensorData source_data(const Tensor& tensor) {
  return {tensor.id(),       tensor.info, tensor.kind(), tensor.is_by_ref(), tensor.data,
          tensor.settings(), {}};
}

OpData op_data(const Op& op) {
  OpData data{
      .id = op.id(), .kind = op.kind_name(), .attributes = op.attributes, .context = op.context};
  for (const Tensor* input : op.inputs()) {
    data.inputs.push_back(input == nullptr ? std::nullopt : std::optional(input->id()));
  }
  for (const Tensor* output : op.outputs()) data.outputs.emplace_back(output->id(), output->info);
  for (const Graph* callee : op.called_graphs) data.called_graphs.push_back(callee->id());
  for (const Op* earlier : op.after()) data.after.push_back(earlier->id());
  return data;
}

GraphData graph_data(const Graph& graph) {
  GraphData data{.id = graph.id(), .differentiable = graph.differentiable};
  for (const Tensor* input : graph.inputs()) data.sources.push_back(source_data(*input));
  for (const Tensor* tensor : graph.tensors().sources()) {
    data.sources.push_back(source_data(*tensor));
  }
  for (const Op* op : graph.ops()) data.ops.push_back(op_data(*op));
  for (const Tensor* output : graph.outputs()) data.outputs.push_back(output->id());
  return data;
}

class Builder {
 public:
  explicit Builder(const IrData& data) : data_(data), ir_(std::make_unique<Ir>()) {}

  std::unique_ptr<Ir> run() {
    if (data_.graphs.empty() || !data_.graphs.front().id.empty()) {
      throw Error("wanted the main graph (with an empty id) first");
    }
    check_header();
    add_buffers();
    for (const GraphData& graph : data_.graphs) add_graph(graph);
    for (const GraphData& graph : data_.graphs) link(graph);
    check_recursion();
    add_streams();
    for (const GraphData& graph : data_.graphs) check_ops(graph);
    ir_->set_counters(data_.counters);
    ir_->num_host_transfers = data_.num_host_transfers;
    ir_->replication_factor = data_.replication_factor;
    return std::move(ir_);
  }

 private:
  static void require_least(std::int64_t given, std::int64_t least, const char* what,
                            const TextPosition& position = {}) {
    if (given < least) fail(position, str_cat(what, ": wanted ", least, " or more; given ", given));
  }

  void check_header() const {
    at({}, [&] { check_replicas(data_.replication_factor); });
    require_least(data_.num_host_transfers, 1, "the number of transfers");
    const IrCounters& counters = data_.counters;
    for (std::int64_t next : {counters.op_id, counters.tensor_suffix, counters.graph_suffix}) {
      require_least(next, 0, "a counter");
    }
  }

  void add_buffers() {
    for (const RemoteBuffer& buffer : data_.remote_buffers) {
      check_storable(buffer.info);
      require_least(buffer.entries, 1, "the entries of a remote buffer");
      const std::int64_t id = ir_->add_remote_buffer(buffer.info, buffer.entries).id;
      if (id != buffer.id) {
        throw Error(
            str_cat("remote buffers are numbered from 1: wanted ", id, ", given ", buffer.id));
      }
    }
  }

  void add_streams() {
    for (const StreamData& stream : data_.streams) {
      Tensor* handle = ir_->main_graph().find_tensor(stream.handle);
      if (handle == nullptr || handle->kind() != TensorKind::Stream) {
        fail(stream.position,
             str_cat("the main graph has no stream tensor called '", stream.handle, "'"));
      }
      if (ir_->find_stream(stream.handle) != nullptr) {
        fail(stream.position, str_cat("the stream '", stream.handle, "' is given twice"));
      }
      ir_->add_stream(*handle, stream.direction);
    }
  }

  void add_source(Graph& graph, const SourceTensorData& source) {
    check_storable(source.info);
    check_id(source.id, source.position);
    const bool has_value =
        source.kind == TensorKind::Variable || source.kind == TensorKind::Constant;
    check_settings(source);
    const std::size_t bytes = has_value ? source_bytes(source, data_.replication_factor) : 0;
    if (source.data != nullptr && (!has_value || source.data->bytes != bytes)) {
      throw Error(
          str_cat("'", source.id, "' has ", source.data->bytes, " bytes of data; wanted ", bytes));
    }
    switch (source.kind) {
      case TensorKind::GraphInput:
        graph.add_input(source.id, source.info, source.by_ref);
        break;
      case TensorKind::Variable:
        graph.add_variable(source.id, source.info, source.data)->set_settings(source.settings);
        break;
      case TensorKind::Constant:
        graph.add_constant(source.id, source.info, source.data);
        break;
      case TensorKind::Stream:
        graph.add_stream(source.id, source.info);
        break;
      case TensorKind::Activation:
        throw Error(str_cat("'", source.id, "' is made by no op"));
    }
  }

  void check_settings(const SourceTensorData& source) const {
    const VariableSettings& settings = source.settings;
    if (settings == VariableSettings()) return;
    const auto replicas = static_cast<std::size_t>(data_.replication_factor);
    std::vector<std::int64_t> seen = settings.groups;
    std::sort(seen.begin(), seen.end());
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    const bool numbered =
        seen.empty() ||
        (seen.front() == 0 && seen.back() + 1 == static_cast<std::int64_t>(seen.size()));
    const bool fits = settings.groups.empty() || settings.groups.size() == replicas;
    const bool positive =
        settings.remote_buffer >= 0 && settings.slot >= 0 && settings.shard_over >= 1;
    if (source.kind == TensorKind::Variable && numbered && fits && positive) return;
    throw Error(str_cat("'", source.id,
                        "': wanted settings of a variable with a group from 0 for "
                        "each of ",
                        replicas, " replicas"));
  }

  void check_id(const std::string& id, const TextPosition& position) {
    if (id.empty()) fail(position, "a tensor needs a name");
    if (!tensor_ids_.insert(id).second) {
      fail(position, str_cat("the tensor '", id, "' is given twice"));
    }
  }

  Tensor& tensor(const Graph& graph, const std::string& id, const TextPosition& position) {
    Tensor* found = graph.find_tensor(id);
    if (found == nullptr) {
      fail(position, str_cat("there is no tensor '", id, "' before this line in ",
                             graph.is_main() ? "the main graph" : "graph '" + graph.id() + "'"));
    }
    return *found;
  }

  void add_op(Graph& graph, const OpData& data) {
    const OpDef* def = Registry::instance().find(data.kind);
    if (def == nullptr) {
      fail(data.position, str_cat("unknown op kind '", data.kind,
                                  "'; if it is an op of a library, load the library first"));
    }
    require_least(data.id, 0, "the id of an op", data.position);
    if (data.id >= data_.counters.op_id) {
      fail(data.position, str_cat("the op id ", data.id,
                                  " will be given out again: wanted a counter "
                                  "of ops above it, given ",
                                  data_.counters.op_id));
    }
    if (!op_ids_.insert(data.id).second) {
      fail(data.position, str_cat("the op id ", data.id, " is given twice"));
    }
    std::vector<Tensor*> inputs;
    inputs.reserve(data.inputs.size());
    for (const auto& id : data.inputs) {
      inputs.push_back(id ? &tensor(graph, *id, data.position) : nullptr);
    }
    for (const auto& [id, info] : data.outputs) {
      at(data.position, [&, &info = info] { check_storable(info); });
      check_id(id, data.position);
    }
    Op& op = OpMaker(graph).restore(*def, data.id, inputs, data.outputs);
    op.attributes = data.attributes;
    op.context = data.context;
  }

  void add_graph(const GraphData& data) {
    if (&data != &data_.graphs.front() && ir_->find_graph(data.id) != nullptr) {
      fail(data.position, str_cat("the graph '", data.id, "' is given twice"));
    }
    Graph& graph = data.id.empty() ? ir_->main_graph() : ir_->create_graph_with_id(data.id);
    graph.differentiable = data.differentiable;
    for (const SourceTensorData& source : data.sources) {
      at(source.position, [&] { add_source(graph, source); });
    }
    for (const OpData& op : data.ops) add_op(graph, op);
    for (const std::string& id : data.outputs) graph.mark_output(&tensor(graph, id, data.position));
  }

  void link(const GraphData& data) {
    Graph& graph = *ir_->find_graph(data.id);
    std::unordered_set<std::int64_t> earlier_ids;
    for (const OpData& op_data : data.ops) {
      Op& op = *graph.op_list().find(op_data.id);
      for (const std::string& id : op_data.called_graphs) {
        Graph* callee = ir_->find_graph(id);
        if (callee == nullptr || callee->is_main()) {
          fail(op_data.position, str_cat("there is no graph '", id, "' that can be called"));
        }
        op.called_graphs.push_back(callee);
        callee->was_called = true;
      }
      for (std::int64_t id : op_data.after) {
        if (!earlier_ids.contains(id)) {
          fail(op_data.position, str_cat("`after` names no earlier op of the graph: ", id));
        }
        op.run_after(*graph.op_list().find(id));
      }
      earlier_ids.insert(op_data.id);
    }
  }

  void check_recursion() const {
    const std::vector<const Graph*> circle = find_recursion(*ir_);
    if (circle.empty()) return;
    for (const GraphData& graph : data_.graphs) {
      if (graph.id != circle[0]->id()) continue;
      for (const OpData& op : graph.ops) {
        const auto& callees = op.called_graphs;
        if (std::find(callees.begin(), callees.end(), circle[1]->id()) == callees.end()) continue;
        fail(op.position,
             str_cat("graph '", graph.id, "' calls itself: ", call_chain_text(circle)));
      }
    }
  }

  void check_ops(const GraphData& data) {
    const Graph& graph = *ir_->find_graph(data.id);
    for (const OpData& op : data.ops) {
      const std::string fault = op_fault(*graph.op_list().find(op.id));
      if (!fault.empty()) fail(op.position, fault);
    }
  }

  const IrData& data_;
  std::unique_ptr<Ir> ir_;
  std::unordered_set<std::string> tensor_ids_;
  std::unordered_set<std::int64_t> op_ids_;
};

}  // namespace

std::size_t source_bytes(const SourceTensorData& source, std::int64_t replicas) {
  return static_cast<std::size_t>(source.settings.host_entries(replicas)) * source.info.bytes();
}

void check_storable(const TensorInfo& info) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 48;
  for (const Shape* shape : {&info.shape.get(), &info.meta_shape.get()}) {
    std::int64_t bytes = static_cast<std::int64_t>(dtype_bytes(info.dtype));
    for (std::int64_t dim : *shape) {
      if (dim < 0) throw Error(str_cat("wanted dimensions of 0 or more, given ", dim));
      if (dim > 0 && bytes > kMostBytes / dim) {
        throw Error(str_cat("a tensor of ", shape_text(*shape), " is larger than 2^48 bytes"));
      }
      bytes *= std::max<std::int64_t>(dim, 1);
    }
  }
}

IrData ir_data(const Ir& ir) {
  IrData data{.num_host_transfers = ir.num_host_transfers,
              .replication_factor = ir.replication_factor,
              .counters = ir.counters()};
  for (const auto& buffer : ir.remote_buffers()) data.remote_buffers.push_back(*buffer);
  for (const auto& stream : ir.streams()) {
    data.streams.push_back({stream->handle->id(), stream->direction, {}});
  }
  for (const Graph* graph : ir.graphs()) data.graphs.push_back(graph_data(*graph));
  return data;
}

std::unique_ptr<Ir> build_ir(const IrData& data) { return Builder(data).run(); }

}  // namespace pando
