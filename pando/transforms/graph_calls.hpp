// Building calls and loops: what transforms that move work into graphs of their own share.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "pando/ir/graph.hpp"
#include "pando/ir/numbered_map.hpp"

namespace pando {

/// The names of tensors, in order, as Graph::create_op takes them for outputs.
std::vector<std::string> names_of(const std::vector<Tensor*>& tensors);

/// A Call of `callee` with one tensor of `caller` per input. By-reference inputs are written back.
Op& create_call(Graph& caller, Graph& callee, const std::vector<Tensor*>& inputs,
                const OpContext& context);

/// The outputs of `create_call`.
std::vector<Tensor*> call(Graph& caller, Graph& callee, const std::vector<Tensor*>& inputs,
                          const OpContext& context);

/// The body of a Loop: a graph that starts with the iteration (int32 scalar) and a condition.
/// Add the carried inputs first, then those that stay the same; by-reference inputs are written
/// back after every iteration.
class LoopBody {
 public:
  /// A new graph called `<base>__loop_wrapper_subgraph(<n>)`.
  LoopBody(Ir& ir, const std::string& base);

  Graph& graph() const { return *graph_; }
  Tensor* iteration() const { return graph_->inputs()[0]; }
  Tensor* add_input(const Tensor& like, bool by_ref = false);

  /// Ends the body, which gives `carried` to the first inputs of its next run, and creates the
  /// Loop in `caller`. `inputs`: one tensor per added input. Returns the last carried values.
  std::vector<Tensor*> finish(Graph& caller, std::int64_t count, const std::vector<Tensor*>& inputs,
                              const std::vector<Tensor*>& carried, const OpContext& context);

 private:
  Graph* graph_;
};

/// Makes every op of `graph` run after the one created before it.
void put_in_sequence(Graph& graph);

/// Copies ops of one graph into another graph of the same Ir. Tensors that they use and that no
/// copied op makes become inputs of the target; constants are copied.
class Outliner {
 public:
  explicit Outliner(Graph& target) : target_(&target) {}

  Graph& graph() const { return *target_; }
  void copy(const Op& op);
  /// Marks the inputs that the copied ops write as by reference. To be called once at the end.
  void mark_written_inputs();

  /// The tensors that stand for the inputs of the target, in order.
  const std::vector<Tensor*>& arguments() const { return arguments_; }
  /// The copy of a tensor; nullptr when there is none.
  Tensor* copy_of(const Tensor* tensor) const;

 private:
  Tensor* lookup(Tensor* tensor);

  Graph* target_;
  std::vector<Tensor*> arguments_;
  std::unordered_map<const Tensor*, Tensor*> copies_;
  OpMap<Op*> copied_ops_;
};

/// Removes ops whose outputs nothing else uses, with their outputs, and the constants that are left
/// without a use. `ops` in creation order.
void erase_moved_ops(Graph& graph, const std::vector<Op*>& ops);

}  // namespace pando
