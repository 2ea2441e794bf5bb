#include "pando/transforms/cse.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <unordered_map>

#include "pando/base/error.hpp"
#include "pando/base/hash.hpp"
#include "pando/ir/graph_surgery.hpp"
#include "pando/transforms/purity.hpp"

namespace pando {
namespace {

/// Bytes and type of a constant as a map key.
std::string constant_key(const Tensor& tensor) {
  const auto* bytes = reinterpret_cast<const char*>(tensor.data->data);
  return str_cat(info_text(tensor.info), shape_text(tensor.info.meta_shape), ":") +
         std::string(bytes, tensor.data->bytes);
}

void merge_constants(Graph& graph) {
  constexpr std::size_t kMostBytes = 4096;
  std::vector<Tensor*> candidates = graph.tensors().sources();
  std::erase_if(candidates, [](const Tensor* tensor) {
    return tensor->kind() != TensorKind::Constant || tensor->data == nullptr ||
           tensor->data->bytes > kMostBytes || tensor->is_graph_output();
  });
  if (candidates.size() < 2) return;
  const Purity purity(graph);
  std::unordered_map<std::string, Tensor*> first;
  for (Tensor* tensor : candidates) {
    if (purity.is_written(*tensor)) continue;
    const auto [it, inserted] = first.try_emplace(constant_key(*tensor), tensor);
    if (inserted) continue;
    replace_uses(*tensor, *it->second);
    graph.erase_tensor(*tensor);
  }
}

/// Appends the bytes of a number or an address.
template <class T>
void append_bytes(std::string& key, T value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

/// What ops of equal results have in common.
void write_key(const Op& op, std::string& key) {
  key.clear();
  append_bytes(key, op.kind());
  append_bytes(key, op.context.execution);
  append_bytes(key, op.context.device.value_or(-1));
  append_bytes(key, op.inputs().size());
  for (const Tensor* input : op.inputs()) append_bytes(key, input);
  for (const auto& [name, value] : op.attributes) {
    key += name;
    append_bytes(key, value.index());
    const std::string text = attribute_text(value);
    append_bytes(key, text.size());
    key += text;
  }
}

/// The first op of each key. Only hashes are kept, no text for each op: a key is made again where
/// another one has its hash.
class FirstOps {
 public:
  explicit FirstOps(std::size_t count) { by_hash_.reserve(count); }

  /// The first op with the key of `op`; `op` itself if there was none, or one of another key.
  const Op* of(const Op& op) {
    write_key(op, key_);
    const auto [first, is_new] = by_hash_.try_emplace(hash64(key_), &op);
    if (is_new) return &op;
    write_key(*first->second, other_key_);
    return key_ == other_key_ ? first->second : &op;
  }

 private:
  std::unordered_map<std::uint64_t, const Op*> by_hash_;
  std::string key_, other_key_;
};

std::size_t result_bytes(const Op& op) {
  std::size_t bytes = 0;
  for (const Tensor* output : op.outputs()) bytes += output->info.bytes();
  return bytes;
}

bool makes_output(const Op& op) {
  return std::any_of(op.outputs().begin(), op.outputs().end(),
                     [](const Tensor* output) { return output->is_graph_output(); });
}

}  // namespace

void eliminate_common_subexpressions(Graph& graph, std::size_t max_bytes) {
  merge_constants(graph);
  const Purity purity(graph);
  FirstOps first_ops(graph.op_list().size());
  for (const Op* op : graph.ops()) {
    if (op->outputs().empty() || !purity.is_pure(*op)) continue;
    if (!op->def().view && result_bytes(*op) > max_bytes) continue;
    const Op* first = first_ops.of(*op);
    if (first == op || makes_output(*op)) continue;
    for (int i = 0; i < op->num_outputs(); ++i) replace_uses(*op->output(i), *first->output(i));
  }
}

void eliminate_common_subexpressions(Graph& graph) {
  eliminate_common_subexpressions(graph, std::numeric_limits<std::size_t>::max());
}

}  // namespace pando
