#include "pando/transforms/rematerialize.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pando/base/shape.hpp"
#include "pando/ir/numbered_map.hpp"
#include "pando/transforms/dependencies.hpp"

namespace pando {
namespace {

/// Ops that are run again for one tensor: cheap ones, and with a product, where views count, too.
constexpr int kMostOps = 4, kMostOpsToFit = 12, kMostProducts = 1;
/// A tensor of so much less than the one that is computed again may be kept longer for it.
constexpr std::int64_t kSmallPart = 16;

/// How long a storage is alive, in positions of ops.
struct Lifetime {
  int begin = -1;  // made there; -1: there before the graph runs
  int end = -1;    // read or written last
  /// Something is computed again from it until there.
  int needed_until = -1;
  bool stays = false;  // an output of the graph
  std::vector<int> writes = {};
};

/// A tensor that is computed again.
struct Repetition {
  std::vector<const Op*> ops = {};    // in order
  std::vector<const Op*> views = {};  // of the tensor, in order, which late uses read
  std::vector<Use> late_uses = {};    // of the tensor and of `views`
  const OpContext* reader = nullptr;  // of the first of them
  int num_ops = 0, num_products = 0;  // of `ops`, with those that are still to come
  /// There they run: before the first late use, and before an operand is read or changed last.
  int position = 0;
  int peak = 0;
  int last_early = 0;
  int last = 0;
};

class Rematerializer {
 public:
  Rematerializer(Graph& graph, const RematerializeOptions& options)
      : graph_(graph), options_(options), aliases_(graph), ops_(graph.ops()) {
    join_views();
    measure();
  }

  void run() {
    // However little is freed to fit, it is done.
    const auto [peak, peak_bytes] =
        to_fit() ? std::pair{planned_peak(), std::int64_t{0}} : find_peak();
    std::vector<Repetition> found;
    std::int64_t gain = 0;
    for (Tensor* tensor : candidates(peak)) {
      if (to_fit() && gain >= options_.excess->bytes) break;
      Repetition one;
      if (!can_repeat(*tensor, peak, one)) continue;
      keep_operands(one);
      lives_[tensor].end = one.last_early;
      gain += bytes_of(*tensor);
      found.push_back(std::move(one));
    }
    if (static_cast<double>(gain) < options_.least_gain * static_cast<double>(peak_bytes)) return;
    for (const Repetition& one : found) repeat(one);
  }

 private:
  static std::int64_t bytes_of(const Tensor& tensor) {
    return static_cast<std::int64_t>(tensor.info.bytes());
  }

  Op& op_at(int position) const { return *ops_[static_cast<std::size_t>(position)]; }
  int position_of(const Op& op) const { return positions_.at(&op); }
  Tensor* root(const Tensor& tensor) const { return aliases_.root(&tensor); }
  Lifetime& life_of(const Tensor& tensor) { return lives_[root(tensor)]; }

  /// A view of what strides cannot express is a copy, with a storage of its own.
  void join_views() {
    TensorMap<std::optional<View>> views;
    for (const Op* op : ops_) {
      if (!op->def().view) continue;
      for (int i = 0; i < op->num_outputs(); ++i) {
        Tensor* input = op->input(0);
        const std::optional<View>& known = views.at(input);
        std::optional<View> view =
            op->def().view(*op, i, known ? *known : View::contiguous(input->shape()));
        if (!view) {
          copies_.insert(op);
          continue;
        }
        views[op->output(i)] = std::move(view);
        aliases_.join(op->output(i), input);
      }
    }
  }

  bool to_fit() const { return options_.excess != nullptr; }
  bool is_at_peak(const Tensor& tensor) const {
    return !to_fit() || options_.excess->alive_at_peak.contains(tensor.id());
  }

  /// Whether the op may be run again.
  bool is_repeatable(const Op& op) const {
    const OpDef& def = op.def();
    if (def.is_cheap_to_repeat || copies_.contains(&op)) return true;
    return to_fit() && !def.has_side_effects && (def.is_repeated_to_fit || def.scalar_body);
  }
  bool is_view(const Op& op) const { return op.def().view && !copies_.contains(&op); }

  void measure() {
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      const Op& op = *ops_[i];
      const auto position = static_cast<int>(i);
      positions_[&op] = position;
      for (const Tensor* input : op.inputs()) {
        if (input != nullptr) life_of(*input).end = position;
      }
      for (const int index : op.modified_inputs()) {
        if (op.input(index) != nullptr) life_of(*op.input(index)).writes.push_back(position);
      }
      for (const Tensor* output : op.outputs()) {
        Lifetime& life = life_of(*output);
        life.end = position;
        if (root(*output) == output) life.begin = position;
      }
    }
    for (const Tensor* output : graph_.outputs()) life_of(*output).stays = true;
  }

  /// The op at which most bytes are alive that ops of the graph made, and how many.
  std::pair<int, std::int64_t> find_peak() {
    std::vector<std::int64_t> changes(ops_.size() + 1, 0);
    for (const Op* op : ops_) {
      for (const Tensor* output : op->outputs()) {
        if (root(*output) != output) continue;
        const Lifetime& life = lives_[output];
        const auto end = life.stays ? ops_.size() : static_cast<std::size_t>(life.end) + 1;
        changes[static_cast<std::size_t>(life.begin)] += bytes_of(*output);
        changes[end] -= bytes_of(*output);
      }
    }
    std::pair<int, std::int64_t> peak{0, 0};
    std::int64_t alive = 0;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      alive += changes[i];
      if (alive > peak.second) peak = {static_cast<int>(i), alive};
    }
    return peak;
  }

  /// The op from which on all tensors are alive that the plan has at its peak, as far as they are
  /// of this graph.
  int planned_peak() {
    int peak = 0;
    for (const Op* op : ops_) {
      for (const Tensor* output : op->outputs()) {
        if (is_at_peak(*output)) peak = std::max(peak, life_of(*output).begin);
      }
    }
    return peak;
  }

  /// What is made before the peak: large results first where not all may be needed. Of those of one
  /// size the earliest usually wait longest.
  std::vector<Tensor*> candidates(int peak) const {
    std::vector<Tensor*> found;
    for (int i = 0; i < peak; ++i) {
      for (Tensor* output : op_at(i).outputs()) {
        if (is_at_peak(*output)) found.push_back(output);
      }
    }
    const auto is_larger = [](const Tensor* a, const Tensor* b) {
      return bytes_of(*a) > bytes_of(*b);
    };
    if (to_fit()) std::stable_sort(found.begin(), found.end(), is_larger);
    return found;
  }

  bool can_repeat(Tensor& tensor, int peak, Repetition& one) {
    const Op& producer = *tensor.producer();
    if (!is_repeatable(producer) || producer.output(0) != &tensor || root(tensor) != &tensor) {
      return false;
    }
    const Lifetime& life = lives_[&tensor];
    if (bytes_of(tensor) < options_.least_bytes || life.stays || !life.writes.empty() ||
        life.needed_until > peak) {
      return false;
    }
    one.peak = peak;
    one.last_early = one.last = life.begin;
    find_uses(tensor, one);
    // Views that are read late and cannot be repeated keep all of it.
    if (one.late_uses.empty() || one.last_early >= peak || one.last != life.end) return false;
    one.reader = &op_at(one.position).context;
    return collect(producer, one, bytes_of(tensor)) && one.position > peak;
  }

  /// Sorts the uses of a tensor, and of its views, into early and late ones.
  void find_uses(const Tensor& tensor, Repetition& one) {
    for (const Use& use : tensor.uses()) {
      const int at = position_of(*use.op);
      one.last = std::max(one.last, at);
      if (at > one.peak) {
        if (one.late_uses.empty() || at < one.position) one.position = at;
        one.late_uses.push_back(use);
        continue;
      }
      one.last_early = std::max(one.last_early, at);
      if (!is_view(*use.op) || use.index != 0) continue;
      const std::size_t late = one.late_uses.size();
      const std::size_t place = one.views.size();
      find_uses(*use.op->output(0), one);
      if (one.late_uses.size() > late) {
        one.views.insert(one.views.begin() + static_cast<std::ptrdiff_t>(place), use.op);
      }
    }
  }

  /// Lists `op` after those that it needs.
  bool collect(const Op& op, Repetition& one, std::int64_t bytes) {
    one.num_ops += 1;
    one.num_products += int{op.def().is_repeated_to_fit};
    const int most = to_fit() ? kMostOpsToFit : kMostOps;
    if (one.num_ops > most || one.num_products > kMostProducts || op.modifies() ||
        op.context.execution != one.reader->execution || op.context.device != one.reader->device) {
      return false;
    }
    for (const Tensor* input : op.inputs()) {
      if (input == nullptr || is_repeated(one, *input)) continue;
      const int until = last_position(*input, position_of(op), bytes);
      if (until > one.peak) {
        one.position = std::min(one.position, until);
        continue;
      }
      const Op* producer = input->producer();
      if (producer == nullptr || producer->output(0) != input || !life_of(*input).writes.empty()) {
        return false;
      }
      const bool is_result = root(*input) == input && is_repeatable(*producer);
      const bool is_view_of_one = to_fit() && is_view(*producer);
      if ((!is_result && !is_view_of_one) || !collect(*producer, one, bytes)) return false;
    }
    one.ops.push_back(&op);
    return true;
  }

  static bool is_repeated(const Repetition& one, const Tensor& tensor) {
    return std::find(one.ops.begin(), one.ops.end(), tensor.producer()) != one.ops.end();
  }

  /// The op before which a tensor that is read at `from` can be read last with the same value, if
  /// another tensor of so many bytes is made of it.
  int last_position(const Tensor& tensor, int from, std::int64_t bytes) {
    const Tensor* storage = root(tensor);
    const Lifetime& life = lives_[storage];
    int last = static_cast<int>(ops_.size());
    for (const int write : life.writes) {
      if (write > from) last = std::min(last, write);
    }
    const bool may_stay =
        storage->producer() == nullptr || life.stays || bytes_of(*storage) * kSmallPart <= bytes;
    return may_stay ? last : std::min(last, std::max(life.end, life.needed_until));
  }

  void keep_operands(const Repetition& one) {
    for (const Op* op : one.ops) {
      for (const Tensor* input : op->inputs()) {
        if (input == nullptr || is_repeated(one, *input)) continue;
        Lifetime& life = life_of(*input);
        life.needed_until = std::max(life.needed_until, one.position);
      }
    }
  }

  void repeat(const Repetition& one) {
    std::unordered_map<const Tensor*, Tensor*> again;
    graph_.set_insertion_point(&op_at(one.position));
    for (const Op* op : one.ops) repeat(*op, again);
    for (const Op* op : one.views) repeat(*op, again);
    graph_.set_insertion_point(nullptr);
    for (const Use& use : one.late_uses) {
      use.op->set_input(use.index, again.at(use.op->input(use.index)));
    }
  }

  void repeat(const Op& op, std::unordered_map<const Tensor*, Tensor*>& again) {
    std::vector<Tensor*> inputs = op.inputs();
    for (Tensor*& input : inputs) {
      const auto made = again.find(input);
      if (made != again.end()) input = made->second;
    }
    Op& repeated = graph_.create_op(op.def(), inputs, op.attributes, op.context);
    repeated.context.is_repeated = true;
    again[op.output(0)] = repeated.output(0);
  }

  Graph& graph_;
  const RematerializeOptions& options_;
  AliasClasses aliases_;
  std::vector<Op*> ops_;  // as they were
  OpSet copies_;
  OpMap<int> positions_;
  TensorMap<Lifetime> lives_;  // of roots
};

}  // namespace

void rematerialize(Graph& graph, const RematerializeOptions& options) {
  if (options.excess != nullptr) return Rematerializer(graph, options).run();
  const auto is_wanted = [](const OpDef& def) { return def.is_cheap_to_repeat || def.view; };
  if (!graph.op_list().any_kind(is_wanted)) return;
  // Only a view of a view can be a copy.
  const auto may_be_copy = [](const Op* op) {
    if (!op->def().view || op->input(0)->producer() == nullptr) return false;
    const Op* first = op->input(0)->producer();
    return first->def().view && first->input(0)->producer() != nullptr;
  };
  const auto may_repeat = [&](const Op* op) {
    return (op->def().is_cheap_to_repeat || may_be_copy(op)) &&
           static_cast<std::int64_t>(op->output(0)->info.bytes()) >= options.least_bytes;
  };
  const std::vector<Op*>& ops = graph.ops();
  if (std::any_of(ops.begin(), ops.end(), may_repeat)) Rematerializer(graph, options).run();
}

void rematerialize_large(Graph& graph) { rematerialize(graph, {}); }

}  // namespace pando
