#include "pando/transforms/sparse_updates.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "pando/ir/graph_surgery.hpp"
#include "pando/ir/op_def.hpp"
#include "pando/transforms/purity.hpp"
#include "pando/transforms/readers.hpp"

namespace pando {
namespace {

constexpr int kAdamGradient = 3, kAdamIndices = 4;  // inputs of SparseAdam
/// The rows that an update reads and writes are twice those of the gradient.
constexpr std::int64_t kLeastRowsAnIndex = 2;

/// A gradient of the size of a table that consists of gradients of gathers.
struct GatheredGradient {
  std::vector<Op*> gathers;  // GatherGrad
  Op* sum = nullptr;         // of several
  std::vector<Op*> scales;   // what is applied to it, in the order of the graph
  std::vector<Op*> path;     // all of these and copies in between, users first

  const Op& first() const { return *gathers.front(); }
  std::int64_t axis() const { return first().attributes.integer("axis"); }
  std::int64_t num_indices() const {
    std::int64_t count = 0;
    for (const Op* op : gathers) count += op->input(1)->info.num_elements();
    return count;
  }
};

/// An op that adds a gradient to a table. In place it is the update itself; else `update` copies
/// its result to the table.
struct RowUpdate {
  Op* sum = nullptr;
  int table = 0, gradient = 1;
};

/// The input that this op casts, negates or scales by one number, so that zeros stay zeros; -1:
/// none.
int scaled_input(const Op& op) {
  const std::string_view kind = op.kind_name();
  const auto scales = [&](int rows, int factor) {
    const Tensor* by = op.input(factor);
    return by != nullptr && by->info.num_elements() == 1 &&
           op.input(rows)->shape() == op.output(0)->shape();
  };
  if (kind == "Neg") return 0;
  if (kind == "Cast") {
    const DType to = op.output(0)->dtype();
    return is_floating_point(to) && !is_float8(to) ? 0 : -1;
  }
  if (kind == "Mul" && scales(1, 0)) return 1;
  return (kind == "Mul" || kind == "Div" || kind == "ScaleByScalar") && scales(0, 1) ? 0 : -1;
}

bool is_gather_gradient(const Op& op) {
  if (op.kind() != OpKind::GatherGrad || op.attributes.integer_or("group_size", 1) != 1) {
    return false;
  }
  const DType dtype = op.output(0)->dtype();
  return is_floating_point(dtype) && !is_float8(dtype);
}

class SparseUpdates {
 public:
  explicit SparseUpdates(Graph& graph) : graph_(graph), purity_(graph), aliases_(graph) {}

  void run() {
    const std::vector<Op*> ops = graph_.ops();
    for (Op* op : ops) {
      if (op->kind_name() == "SparseAdam" && op->input(kAdamIndices) == nullptr) {
        const auto found = gathered_behind(*op, kAdamGradient);
        if (found) replace_adam(*op, *found);
      } else if (const std::optional<RowUpdate> update = row_update(*op)) {
        const auto found = gathered_behind(*update->sum, update->gradient);
        if (found && is_worth_it(*op, *found)) replace(*op, *update, *found);
      }
    }
  }

 private:
  static bool is_worth_it(const Op& update, const GatheredGradient& gradient) {
    const Shape& table = update.input(0)->shape();
    return kLeastRowsAnIndex * gradient.num_indices() <=
           table[static_cast<std::size_t>(gradient.axis())];
  }

  /// The pure op that makes `tensor` for `reader` alone; nullptr if there is none.
  Op* only_maker(const Tensor& tensor, const Op& reader) const {
    Op* producer = tensor.producer();
    const bool is_own = producer != nullptr && &producer->graph() == &graph_ &&
                        only_reader(tensor) == &reader && purity_.is_pure(*producer);
    return is_own ? producer : nullptr;
  }

  /// The op that makes input `index` of `reader`, or of the copies in between.
  Op* maker_behind_copies(const Op& reader, int index, GatheredGradient& found) const {
    Op* op = only_maker(*reader.input(index), reader);
    while (op != nullptr && op->kind_name() == "Identity") {
      found.path.push_back(op);
      op = only_maker(*op->input(0), *op);
    }
    if (op != nullptr) found.path.push_back(op);
    return op;
  }

  std::optional<GatheredGradient> gathered_behind(const Op& update, int index) const {
    GatheredGradient found;
    if (update.input(index)->shape() != update.input(0)->shape()) return std::nullopt;
    Op* op = maker_behind_copies(update, index, found);
    for (int rows = 0; op != nullptr && (rows = scaled_input(*op)) >= 0;) {
      found.scales.insert(found.scales.begin(), op);
      op = maker_behind_copies(*op, rows, found);
    }
    if (op == nullptr) return std::nullopt;
    if (is_gather_gradient(*op)) {
      found.gathers = {op};
      return found;
    }
    if (op->kind_name() != "Sum" && op->kind_name() != "Add") return std::nullopt;
    found.sum = op;
    for (int i = 0; i < op->num_inputs(); ++i) {
      Op* part = maker_behind_copies(*op, i, found);
      if (part == nullptr || !is_gather_gradient(*part)) return std::nullopt;
      found.gathers.push_back(part);
    }
    const bool is_one_axis =
        std::all_of(found.gathers.begin(), found.gathers.end(), [&](const Op* part) {
          return part->attributes.integer("axis") == found.axis() &&
                 part->output(0)->shape() == op->output(0)->shape();
        });
    if (!is_one_axis) return std::nullopt;
    return found;
  }

  /// What `op` adds to a table whose other rows stay as they are.
  std::optional<RowUpdate> row_update(Op& op) const {
    const std::string_view kind = op.kind_name();
    if (kind == "AddLhsInplace") return RowUpdate{&op};
    if (kind == "ScaledAddLhsInplace" && keeps_first(op)) return RowUpdate{&op};
    if (kind == "Accumulate") {
      const std::string& type = op.attributes.text("type");
      if (type == "Add" || type == "DampenedAdd") return RowUpdate{&op};
    }
    if (kind != "CopyVarUpdate") return std::nullopt;
    Op* sum = op.input(1)->producer();
    if (sum == nullptr || only_reader(*op.input(1)) != &op) return std::nullopt;
    const std::string_view how = sum->kind_name();
    const bool adds = how == "Add" || how == "Sub" || (how == "ScaledAdd" && keeps_first(*sum));
    if (!adds || writes_between(*sum, op)) return std::nullopt;
    if (sum->input(0) == op.input(0)) return RowUpdate{sum, 0, 1};
    if (how == "Add" && sum->input(1) == op.input(0)) return RowUpdate{sum, 1, 0};
    return std::nullopt;
  }

  /// Whether a scaled sum takes its first term as it is.
  static bool keeps_first(const Op& op) {
    return op.input(2) == nullptr && op.attributes.number_or("a", 1.0) == 1.0;
  }

  /// Whether the table of `update` changes after `sum` has read it.
  bool writes_between(const Op& sum, const Op& update) const {
    const Tensor* table = aliases_.root(update.input(0));
    for (const Op* op = sum.next(); op != &update; op = op->next()) {
      for (int index : op->modified_inputs()) {
        const Tensor* written = op->input(index);
        if (written != nullptr && aliases_.root(written) == table) return true;
      }
    }
    return false;
  }

  /// Makes the next ops before `op`.
  OpBuilder before(Op& op) {
    graph_.set_insertion_point(&op);
    return {graph_, op.context};
  }

  /// The gradients of the gathered rows side by side, and the indices of all.
  std::pair<Tensor*, Tensor*> listed(OpBuilder& builder, const GatheredGradient& gradient) const {
    if (gradient.sum == nullptr) return {gradient.first().input(0), gradient.first().input(1)};
    std::vector<Tensor*> rows, indices;
    for (const Op* op : gradient.gathers) {
      const std::int64_t count = op->input(1)->info.num_elements();
      Shape shape = op->output(0)->shape();
      shape[static_cast<std::size_t>(gradient.axis())] = count;
      rows.push_back(builder.reshape(op->input(0), shape));
      indices.push_back(builder.reshape(builder.cast(op->input(1), DType::Int64), {count}));
    }
    return {builder.make("Concat", rows, {{"axis", gradient.axis()}}),
            builder.make("Concat", indices, {{"axis", std::int64_t{0}}})};
  }

  /// The sums of the rows of `gradient`, scaled, and the index of each.
  std::pair<Tensor*, Tensor*> rows_of(const GatheredGradient& gradient, bool skip_zero_rows) {
    OpBuilder builder = before(gradient.sum != nullptr ? *gradient.sum : *gradient.gathers.front());
    const auto [x, indices] = listed(builder, gradient);
    const auto axis = static_cast<std::size_t>(gradient.axis());
    const Op& sums = builder.op("CoalesceRows", {x, indices},
                                {{"axis", gradient.axis()},
                                 {"size", gradient.first().output(0)->shape()[axis]},
                                 {"skip_zero_rows", skip_zero_rows}});
    Tensor* rows = sums.output(0);
    for (Op* scale : gradient.scales) {
      std::vector<Tensor*> inputs = scale->inputs();
      inputs[static_cast<std::size_t>(scaled_input(*scale))] = rows;
      rows = before(*scale).make(scale->kind_name(), inputs, scale->attributes);
    }
    return {rows, sums.output(1)};
  }

  void replace(Op& update, const RowUpdate& row_update, const GatheredGradient& gradient) {
    const auto [rows, indices] = rows_of(gradient, false);
    const Attributes axis{{"axis", gradient.axis()}};
    Op& sum = *row_update.sum;
    OpBuilder builder = before(sum);
    std::vector<Tensor*> inputs = sum.inputs();
    inputs[static_cast<std::size_t>(row_update.table)] =
        builder.make("Gather", {update.input(0), indices}, axis);
    inputs[static_cast<std::size_t>(row_update.gradient)] = rows;
    Tensor* changed = builder.make(sum.kind_name(), inputs, sum.attributes);
    Op& written = before(update).op("UpdateRows", {update.input(0), changed, indices}, axis);
    finish(update, written, gradient, &sum);
  }

  void replace_adam(Op& update, const GatheredGradient& gradient) {
    // Scaling may make rows 0: then only the update can tell which are.
    const bool is_last = gradient.scales.empty();
    const auto [rows, indices] = rows_of(gradient, is_last);
    std::vector<Tensor*> inputs = update.inputs();
    inputs.resize(std::max<std::size_t>(inputs.size(), kAdamIndices + 1));
    inputs[kAdamGradient] = rows;
    inputs[kAdamIndices] = indices;
    Attributes attributes = update.attributes;
    attributes.set(is_last ? "coalesced" : "skip_zero_rows", true);
    attributes.set("axis", gradient.axis());
    finish(update, before(update).op("SparseAdam", inputs, attributes), gradient, &update);
  }

  /// Puts `made` in the place of what it and the ops before it stand for.
  void finish(Op& update, Op& made, const GatheredGradient& gradient, Op* sum) {
    graph_.set_insertion_point(nullptr);
    aliases_.add(made);
    replace_uses(*update.output(0), *made.output(0));
    std::vector<Op*> old = {&update};
    if (sum != &update) old.push_back(sum);
    old.insert(old.end(), gradient.path.begin(), gradient.path.end());
    graph_.erase_ops(old);
  }

  Graph& graph_;
  Purity purity_;
  AliasClasses aliases_;
};

}  // namespace

void use_sparse_updates(Graph& graph) {
  if (graph.op_list().has(OpKind::GatherGrad)) SparseUpdates(graph).run();
}

}  // namespace pando
