// Graphs and the Ir that owns them.
#pragma once

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pando/ir/op_def.hpp"
#include "pando/ir/op_list.hpp"
#include "pando/ir/tensor_ids.hpp"
#include "pando/ir/tensor_list.hpp"

namespace pando {

class Ir;

/// A function: inputs, outputs and ops in creation order, which is a valid execution order.
/// Conflicting accesses to one storage happen in creation order.
class Graph {
 public:
  Graph(Ir& ir, std::string id);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Ir& ir() const { return *ir_; }
  /// Unique in the Ir; empty for the main graph.
  const std::string& id() const { return id_; }
  bool is_main() const { return id_.empty(); }

  const std::vector<Tensor*>& inputs() const { return inputs_; }
  const std::vector<Tensor*>& outputs() const { return outputs_; }
  /// In creation order. Safe to append to while iterating by index, not by iterator. After ops were
  /// inserted, erased or reordered, the first call takes time for all: walk with op_list().first()
  /// and Op::next() where a pass does that on its way.
  const std::vector<Op*>& ops() const { return ops_.listed(); }
  const OpList& op_list() const { return ops_; }
  const TensorList& tensors() const { return tensors_; }
  /// nullptr when absent.
  Tensor* find_tensor(std::string_view id) const { return tensors_.find(id); }

  /// `<graph id>/<scoped_name>`, made unique with `__t<n>`; an empty name becomes `t`.
  std::string unique_tensor_id(std::string_view scoped_name);

  /// New tensors; `id` from unique_tensor_id. A taken id throws InternalError.
  Tensor* add_input(std::string id, const TensorInfo& info, bool by_ref = false);
  Tensor* add_variable(std::string id, const TensorInfo& info, std::shared_ptr<HostArray> data);
  Tensor* add_constant(std::string id, const TensorInfo& info, std::shared_ptr<HostArray> data);
  Tensor* add_stream(std::string id, const TensorInfo& info);
  /// A tensor that no op makes yet, for Op::set_output.
  Tensor* add_activation(std::string id, const TensorInfo& info);
  /// Appends to the outputs; the same tensor may be marked several times.
  void mark_output(Tensor* tensor);
  void set_outputs(std::vector<Tensor*> outputs);
  /// `inputs`: a permutation of inputs().
  void set_input_order(std::vector<Tensor*> inputs);

  /// Creates an op, infers its outputs and names them. `output_names` are scoped names, one per
  /// output or fewer (missing ones get the kind's default). On error nothing is left behind.
  Op& create_op(const OpDef& def, const std::vector<Tensor*>& inputs, Attributes attributes,
                OpContext context, std::vector<Graph*> called_graphs = {},
                const std::vector<std::string>& output_names = {});
  /// Puts the next op created before `op` (nullptr: at the end again).
  void set_insertion_point(Op* op);
  /// Removes ops and their outputs, which have no uses left but by others of them: `ops` lists the
  /// user first. What is erased stays readable while the Ir lives (handles of a front end may be
  /// left) but belongs to `Ir::erased_graph`.
  void erase_ops(const std::vector<Op*>& ops);
  /// Removes a tensor without uses and producer; an input of the graph is then none.
  void erase_tensor(Tensor& tensor);
  /// Changes the order of ops to `order`, a permutation of ops().
  void reorder(std::vector<Op*> order) { ops_.reorder(std::move(order)); }

  /// False: autodiff of a caller needs a supplied gradient graph.
  bool differentiable = true;
  /// Whether an op has called this graph at some time: if none has, calls in it close no circle. To
  /// be set by who changes Op::called_graphs of an op that exists.
  bool was_called = false;

 private:
  friend class Ir;
  friend class OpMaker;

  using GraphMap = std::unordered_map<const Graph*, Graph*>;
  /// Makes this graph, which is empty, a copy of one of another Ir. `graphs`: the copies of all
  /// graphs. `tensors` gets those of its tensors.
  void copy_contents(const Graph& from, const GraphMap& graphs, TensorMap<Tensor*>& tensors);

  Ir* ir_;
  std::string id_;
  std::vector<Tensor*> inputs_;
  std::vector<Tensor*> outputs_;
  OpList ops_;
  TensorList tensors_;
};

enum class StreamDirection : std::uint8_t { HostToDevice, DeviceToHost };

/// A host stream; `handle` is a tensor of the main graph that only names it.
struct Stream {
  Tensor* handle;
  StreamDirection direction;
};

/// An array of `entries` slots of one shape and dtype per replica, in streaming memory.
struct RemoteBuffer {
  std::int64_t id;
  TensorInfo info;
  std::int64_t entries;
};

/// The next number of each kind that an Ir gives out.
struct IrCounters {
  std::int64_t graph_suffix = 0;
  std::int64_t tensor_suffix = 0;
  std::int64_t op_id = 100;
  bool operator==(const IrCounters&) const = default;
};

/// A whole program: graphs, streams, remote buffers and the counters that name things.
class Ir {
 public:
  Ir();
  Ir(const Ir&) = delete;
  Ir& operator=(const Ir&) = delete;

  std::int64_t id() const { return id_; }
  Graph& main_graph() const { return *graphs_.front(); }
  /// The main graph first, then in creation order.
  std::vector<Graph*> graphs() const;
  /// nullptr when absent.
  Graph* find_graph(std::string_view id) const;
  /// New graph called `<base>_subgraph(<n>)` (`.<locals>` removed from base).
  Graph& create_graph(std::string_view base);
  /// New graph with exactly this id; a taken id throws InternalError.
  Graph& create_graph_with_id(const std::string& id);
  void erase_graph(Graph& graph) { erase_graphs({&graph}); }
  /// The same for several, in the time that one takes.
  void erase_graphs(const std::vector<Graph*>& graphs);
  /// The graph that erased tensors and ops belong to; not one of `graphs()`.
  Graph& erased_graph() const { return *erased_; }

  Stream& add_stream(Tensor& handle, StreamDirection direction);
  const std::vector<std::unique_ptr<Stream>>& streams() const { return streams_; }
  /// nullptr when `handle_id` names no stream.
  const Stream* find_stream(std::string_view handle_id) const;

  RemoteBuffer& add_remote_buffer(const TensorInfo& info, std::int64_t entries);
  const std::vector<std::unique_ptr<RemoteBuffer>>& remote_buffers() const {
    return remote_buffers_;
  }

  std::int64_t next_op_id() { return counters_.op_id++; }
  std::int64_t next_tensor_suffix() { return counters_.tensor_suffix++; }
  const IrCounters& counters() const { return counters_; }
  /// For readers of stored graphs.
  void set_counters(const IrCounters& counters) { counters_ = counters; }

  /// Holds tensors, ops and their tables, which live as long as the Ir.
  std::pmr::memory_resource& memory() { return memory_; }
  TensorIds& tensor_ids() { return tensor_ids_; }

  /// A deep copy; ids of tensors and host arrays of variables and constants are shared.
  std::unique_ptr<Ir> clone() const;

  /// Transfers per stream and run (the leading dimension of stream buffers).
  std::int64_t num_host_transfers = 1;
  std::int64_t replication_factor = 1;

 private:
  std::pmr::monotonic_buffer_resource memory_;
  TensorIds tensor_ids_;
  std::int64_t id_;
  std::vector<std::unique_ptr<Graph>> graphs_;
  std::unordered_map<std::string_view, Graph*> graphs_by_id_;
  std::unique_ptr<Graph> erased_;
  std::vector<std::unique_ptr<Graph>> erased_graphs_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::unordered_map<std::string_view, const Stream*> streams_by_id_;
  std::vector<std::unique_ptr<RemoteBuffer>> remote_buffers_;
  IrCounters counters_;
};

}  // namespace pando
