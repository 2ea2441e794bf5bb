#include "pando/transforms/concat_views.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "pando/transforms/dependencies.hpp"

namespace pando {
namespace {

/// One input of one concatenation, and where it begins in the result.
struct Part {
  const Op* concat;
  Tensor* tensor;
  std::int64_t start;

  Tensor* result() const { return concat->output(0); }
};

void add_parts(const Op& concat, std::vector<Part>& parts) {
  const auto axis = static_cast<std::size_t>(concat.attributes.integer("axis"));
  std::int64_t start = 0;
  for (Tensor* input : concat.inputs()) {
    parts.push_back({&concat, input, start});
    start += input->shape()[axis];
  }
}

/// The view of the result that is the part.
Tensor* window_of(OpBuilder& builder, const Part& part) {
  const Shape& counts = part.tensor->shape();
  Ints starts(counts.size(), 0);
  starts.at(static_cast<std::size_t>(part.concat->attributes.integer("axis"))) = part.start;
  return builder.make(
      "SliceInplace", {part.result()},
      {{"starts", starts}, {"steps", Ints(counts.size(), 1)}, {"counts", Ints(counts)}});
}

class Mirror {
 public:
  explicit Mirror(Graph& graph) : graph_(graph), aliases_(graph) {}

  void run() {
    for (Op *next = graph_.op_list().first(), *current = nullptr; next != nullptr;) {
      current = std::exchange(next, next->next());
      const Op& op = *current;
      if (op.kind() == OpKind::ConcatInplace) add_parts(op, parts_);
      if (parts_.empty()) continue;
      std::vector<const Tensor*> written;
      for (int k : op.modified_inputs()) {
        if (op.input(k) != nullptr) add_new<const Tensor*>(written, aliases_.root(op.input(k)));
      }
      graph_.set_insertion_point(next);
      OpBuilder builder(graph_, op.context);
      for (const Tensor* root : written) spread(builder, root);
      graph_.set_insertion_point(nullptr);
    }
  }

 private:
  /// Brings everything that shares elements with the storage up to date.
  void spread(OpBuilder& builder, const Tensor* root) {
    for (const Part& part : parts_) {
      const bool from_result = aliases_.root(part.result()) == root;
      if (!from_result && aliases_.root(part.tensor) != root) continue;
      if (!add_new(sources_, part.concat)) continue;
      Tensor* window = window_of(builder, part);
      Tensor* target = from_result ? part.tensor : window;
      builder.make("CopyVarUpdate", {target, from_result ? window : part.tensor});
      spread(builder, aliases_.root(from_result ? part.tensor : part.result()));
      sources_.pop_back();
    }
  }

  template <class T>
  static bool add_new(std::vector<T>& values, T value) {
    if (std::find(values.begin(), values.end(), value) != values.end()) return false;
    values.push_back(value);
    return true;
  }

  Graph& graph_;
  AliasClasses aliases_;
  std::vector<Part> parts_;
  /// Concatenations that the values under way came through.
  std::vector<const Op*> sources_;
};

}  // namespace

void keep_concat_views(Graph& graph) {
  if (graph.op_list().has(OpKind::ConcatInplace)) Mirror(graph).run();
}

}  // namespace pando
