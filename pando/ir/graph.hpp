// Graphs and the Ir that owns them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pando/ir/op.hpp"
#include "pando/ir/op_def.hpp"
#include "pando/ir/tensor.hpp"
#include "pando/ir/tensor_table.hpp"

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
  /// inserted, erased or reordered, the first call takes time for all: walk with first_op() and
  /// Op::next() where a pass does that on its way.
  const std::vector<Op*>& ops() const {
    if (!is_listed_.load(std::memory_order_acquire)) list_ops();
    return ops_;
  }
  std::size_t num_ops() const { return num_ops_; }
  /// nullptr in a graph without ops.
  Op* first_op() const { return first_op_; }
  Op* last_op() const { return last_op_; }
  /// Sorted by id.
  std::vector<Tensor*> tensors() const;
  /// Variables, constants and streams, sorted by id.
  std::vector<Tensor*> sources() const;
  /// nullptr when absent.
  Tensor* find_tensor(std::string_view id) const;
  Op* find_op(std::int64_t id) const;
  bool contains(const Tensor& tensor) const { return &tensor.graph() == this; }
  /// Distinct graphs called by ops of this graph, in order of first call.
  std::vector<Graph*> called_graphs() const;
  /// Whether an op has called this graph at some time: if none has, calls in it close no circle.
  bool was_called() const { return was_called_; }
  /// For who changes Op::called_graphs of an op that exists.
  void note_call() { was_called_ = true; }

  /// `<graph id>/<scoped_name>`, made unique with `__t<n>`; an empty name becomes `t`.
  std::string unique_tensor_id(std::string_view scoped_name);

  /// New tensors; `id` from unique_tensor_id. A taken id throws InternalError.
  Tensor* add_input(const std::string& id, const TensorInfo& info, bool by_ref = false);
  Tensor* add_variable(const std::string& id, const TensorInfo& info,
                       std::shared_ptr<HostArray> data);
  Tensor* add_constant(const std::string& id, const TensorInfo& info,
                       std::shared_ptr<HostArray> data);
  Tensor* add_stream(const std::string& id, const TensorInfo& info);
  /// A tensor that no op makes yet, for Op::set_output.
  Tensor* add_activation(const std::string& id, const TensorInfo& info);
  /// Appends to the outputs; the same tensor may be marked several times.
  void mark_output(Tensor* tensor);
  void set_outputs(std::vector<Tensor*> outputs);
  /// `inputs`: a permutation of inputs().
  void set_input_order(std::vector<Tensor*> inputs);
  void remove_input(int index);
  void remove_output(int index);

  bool is_by_ref(const Tensor* input) const { return contains(*input) && input->by_ref_; }
  void set_by_ref(Tensor* input, bool by_ref);

  /// Creates an op, infers its outputs and names them. `output_names` are scoped names, one per
  /// output or fewer (missing ones get the kind's default). On error nothing is left behind.
  Op& create_op(const OpDef& def, const std::vector<Tensor*>& inputs, Attributes attributes,
                OpContext context, std::vector<Graph*> called_graphs = {},
                const std::vector<std::string>& output_names = {});
  /// An op like `op`, of a graph that this one runs already, with other inputs: a call in it closes
  /// no circle here.
  Op& copy_op(const Op& op, const std::vector<Tensor*>& inputs, OpContext context,
              const std::vector<std::string>& output_names);
  /// A copy of `op` (of this or another graph, called graphs as they are, without `after`) with its
  /// id, output ids and outputs kept; inputs through `map_input`. For whole-graph copies into a
  /// fresh graph of another Ir.
  Op& clone_op(const Op& op, const std::function<Tensor*(const Tensor*)>& map_input);
  /// An op exactly as it was written down: id, outputs (id, info) and attributes are taken as
  /// given, without inference. For readers of stored graphs. A taken id throws InternalError.
  Op& restore_op(const OpDef& def, std::int64_t id, const std::vector<Tensor*>& inputs,
                 const std::vector<std::pair<std::string, TensorInfo>>& outputs);
  /// A copy of `op` (of this or another graph of the Ir) under a new id, without inputs, outputs
  /// and `after`, as the last op: the caller connects it.
  Op& clone_unconnected(const Op& op);
  /// Puts the next op created before `op` (nullptr: at the end again).
  void set_insertion_point(Op* op);
  /// Removes an op whose outputs have no uses, and its outputs. What is erased stays readable while
  /// the Ir lives (handles of a front end may be left) but belongs to `Ir::erased_graph`.
  void erase_op(Op& op) { erase_ops({&op}); }
  /// The same for several, of which one may use another's outputs: `ops` lists the user first.
  void erase_ops(const std::vector<Op*>& ops);
  /// Removes a tensor without uses and producer.
  void erase_tensor(Tensor& tensor);
  /// Every use of `from` (and graph output) becomes a use of `to`.
  void replace_uses(Tensor& from, Tensor& to);
  /// Changes the order of ops to `order`, a permutation of ops().
  void reorder(std::vector<Op*> order);

  /// False: autodiff of a caller needs a supplied gradient graph.
  bool differentiable = true;

 private:
  friend class Op;
  friend class Ir;
  void erase_from_order(const std::vector<Op*>& ops);
  static void bridge_order(const std::vector<Op*>& erased);
  /// Before `next`; nullptr: at the end.
  void link_before(Op& op, Op* next);
  void unlink(Op& op);
  void list_ops() const;
  UseList::Link* make_link(const Use& use);
  Tensor* insert_tensor(const std::string& id, const TensorInfo& info, TensorKind kind);
  /// Room for a copy of `other`.
  void reserve_like(const Graph& other);
  void retire(Tensor& tensor);
  Op& make_op(const OpDef& def, std::int64_t id);
  enum class CallCheck : std::uint8_t { Needed, Done };
  Op& add_op(const OpDef& def, const std::vector<Tensor*>& inputs, Attributes attributes,
             OpContext context, std::vector<Graph*> called_graphs,
             const std::vector<std::string>& output_names, CallCheck call_check);

  Ir* ir_;
  std::string id_;
  bool was_called_ = false;
  std::vector<Tensor*> inputs_;
  std::vector<Tensor*> outputs_;
  // The order is in the links of the ops; ops_ is a copy of it while is_listed_.
  Op* first_op_ = nullptr;
  Op* last_op_ = nullptr;
  std::size_t num_ops_ = 0;
  mutable std::vector<Op*> ops_;
  mutable std::atomic<bool> is_listed_ = true;
  Op* insertion_point_ = nullptr;
  // All that were ever made in this graph, in memory of the Ir: what is erased stays.
  std::pmr::list<Tensor> tensors_made_;
  std::pmr::list<Op> ops_made_;
  TensorTable tensors_;
  std::pmr::map<std::string_view, Tensor*> sources_;  // by id, which the tensor itself keeps
  std::pmr::unordered_map<std::int64_t, Op*> ops_by_id_;
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

  /// A deep copy; host arrays of variables and constants are shared.
  std::unique_ptr<Ir> clone() const;

  /// Transfers per stream and run (the leading dimension of stream buffers).
  std::int64_t num_host_transfers = 1;
  std::int64_t replication_factor = 1;

 private:
  friend class Graph;
  /// Holds tensors, ops and their tables, which live as long as the Ir.
  std::pmr::monotonic_buffer_resource memory_;
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
