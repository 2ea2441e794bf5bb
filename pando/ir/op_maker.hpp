// New ops and copies of others.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pando/ir/numbered_map.hpp"
#include "pando/ir/op_def.hpp"

namespace pando {

class OpList;

/// Makes ops in one graph.
class OpMaker {
 public:
  explicit OpMaker(Graph& graph);

  /// See Graph::create_op.
  Op& create(const OpDef& def, const std::vector<Tensor*>& inputs, Attributes attributes,
             OpContext context, std::vector<Graph*> called_graphs,
             const std::vector<std::string>& output_names);
  /// An op like `op`, of a graph that this one runs already, with other inputs: a call in it closes
  /// no circle here.
  Op& copy(const Op& op, const std::vector<Tensor*>& inputs, OpContext context,
           const std::vector<std::string>& output_names);
  /// A copy of `op` (of a graph of another Ir, called graphs as they are, without `after`) with its
  /// id and the ids of its outputs. `copies`: of the tensors of that graph; the outputs join them.
  /// For copies of whole graphs: see TensorList::copy.
  Op& clone(const Op& op, TensorMap<Tensor*>& copies);
  /// A copy of `op` (of this or another graph of the Ir) under a new id, without inputs, outputs
  /// and `after`, as the last op: the caller connects it.
  Op& clone_unconnected(const Op& op);
  /// An op exactly as it was written down: id, outputs (id, info) and attributes are taken as
  /// given, without inference. For readers of stored graphs. A taken id throws InternalError.
  Op& restore(const OpDef& def, std::int64_t id, const std::vector<Tensor*>& inputs,
              const std::vector<std::pair<std::string, TensorInfo>>& outputs);

 private:
  enum class CallCheck : std::uint8_t { Needed, Done };
  Op& add(const OpDef& def, const std::vector<Tensor*>& inputs, Attributes attributes,
          OpContext context, std::vector<Graph*> called_graphs,
          const std::vector<std::string>& output_names, CallCheck call_check);
  /// The last op of the graph, with what `op` has besides inputs and outputs.
  Op& append_like(const Op& op, std::int64_t id);

  Graph& graph_;
  OpList& ops_;
};

}  // namespace pando
