#include "pando/transforms/op_order.hpp"

#include <algorithm>
#include <utility>

#include "pando/ir/numbered_map.hpp"

namespace pando {
namespace {

/// Where the ops are, if some come after others by `Op::after`; else nowhere.
OpMap<int> positions_of_sequenced(const Graph& graph) {
  OpMap<int> positions(-1);
  const std::vector<Op*>& ops = graph.ops();
  const auto is_free = [](const Op* op) { return op->after().empty(); };
  if (std::all_of(ops.begin(), ops.end(), is_free)) return positions;
  for (std::size_t i = 0; i < ops.size(); ++i) positions[ops[i]] = static_cast<int>(i);
  return positions;
}

}  // namespace

OpOrder::OpOrder(const Graph& graph) {
  TensorMap<int> producer(-1);
  const OpMap<int> in_sequence = positions_of_sequenced(graph);
  begins_.reserve(graph.ops().size() + 1);
  for (std::size_t i = 0; i < graph.ops().size(); ++i) {
    const Op* op = graph.ops()[i];
    for (const Tensor* input : op->inputs()) {
      const int earlier = input == nullptr ? -1 : producer.at(input);
      if (earlier >= 0) predecessors_.push_back(earlier);
    }
    for (const Op* before : op->after()) {
      const int earlier = in_sequence.at(before);
      if (earlier >= 0 && earlier < static_cast<int>(i)) predecessors_.push_back(earlier);
    }
    for (const Tensor* output : op->outputs()) producer[output] = static_cast<int>(i);
    begins_.push_back(predecessors_.size());
  }
}

bool OpOrder::is_direct(const OpPair& pair) const {
  const auto later = static_cast<std::size_t>(pair.later);
  const auto begin = predecessors_.begin() + static_cast<std::ptrdiff_t>(begins_[later]);
  const auto end = predecessors_.begin() + static_cast<std::ptrdiff_t>(begins_[later + 1]);
  return std::find(begin, end, pair.earlier) != end;
}

std::vector<bool> OpOrder::are_ordered(const std::vector<OpPair>& pairs) const {
  std::vector<bool> ordered(pairs.size());
  std::vector<int> as_earlier(begins_.size()), as_later(begins_.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    ordered[i] = is_direct(pairs[i]);
    if (ordered[i]) continue;
    ++as_earlier[static_cast<std::size_t>(pairs[i].earlier)];
    ++as_later[static_cast<std::size_t>(pairs[i].later)];
  }
  // From the op that more of the pairs have: a variable is read often and written once.
  std::vector<std::size_t> from_earlier, from_later;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (ordered[i]) continue;
    const bool forward = as_earlier[static_cast<std::size_t>(pairs[i].earlier)] >
                         as_later[static_cast<std::size_t>(pairs[i].later)];
    (forward ? from_earlier : from_later).push_back(i);
  }
  follow(pairs, std::move(from_earlier), &OpPair::earlier, ordered);
  follow(pairs, std::move(from_later), &OpPair::later, ordered);
  return ordered;
}

/// Gives each op at this end of the pairs `numbers` a bit, 64 of them at a time, and looks how far
/// they come.
void OpOrder::follow(const std::vector<OpPair>& pairs, std::vector<std::size_t> numbers, End end,
                     std::vector<bool>& ordered) const {
  const bool forward = end == &OpPair::earlier;
  const End other_end = forward ? &OpPair::later : &OpPair::earlier;
  std::sort(numbers.begin(), numbers.end(),
            [&](std::size_t a, std::size_t b) { return pairs[a].*end < pairs[b].*end; });
  std::vector<std::uint64_t> bits(begins_.size() - 1);
  std::vector<std::uint64_t> bit_of(numbers.size());
  for (std::size_t begin = 0, next = 0; begin < numbers.size(); begin = next) {
    int first = pairs[numbers[begin]].earlier;
    int last = pairs[numbers[begin]].later;
    int used = 0;
    for (; next < numbers.size(); ++next) {
      const OpPair& pair = pairs[numbers[next]];
      const bool is_same = next > begin && pairs[numbers[next - 1]].*end == pair.*end;
      if (!is_same && used++ == 64) break;
      bit_of[next] = std::uint64_t{1} << (used - 1);
      bits[static_cast<std::size_t>(pair.*end)] = bit_of[next];
      first = std::min(first, pair.earlier);
      last = std::max(last, pair.later);
    }
    if (forward) {
      spread_forward(first, last, bits);
    } else {
      spread_backward(first, last, bits);
    }
    for (std::size_t i = begin; i < next; ++i) {
      const auto reached = static_cast<std::size_t>(pairs[numbers[i]].*other_end);
      ordered[numbers[i]] = (bits[reached] & bit_of[i]) != 0;
    }
    std::fill(bits.begin() + first, bits.begin() + last + 1, 0);
  }
}

void OpOrder::spread_forward(int first, int last, std::vector<std::uint64_t>& bits) const {
  for (auto i = static_cast<std::size_t>(first); i <= static_cast<std::size_t>(last); ++i) {
    for (std::size_t k = begins_[i]; k < begins_[i + 1]; ++k) {
      bits[i] |= bits[static_cast<std::size_t>(predecessors_[k])];
    }
  }
}

void OpOrder::spread_backward(int first, int last, std::vector<std::uint64_t>& bits) const {
  for (auto i = static_cast<std::size_t>(last); i > static_cast<std::size_t>(first); --i) {
    if (bits[i] == 0) continue;
    for (std::size_t k = begins_[i]; k < begins_[i + 1]; ++k) {
      if (predecessors_[k] >= first) bits[static_cast<std::size_t>(predecessors_[k])] |= bits[i];
    }
  }
}

}  // namespace pando
