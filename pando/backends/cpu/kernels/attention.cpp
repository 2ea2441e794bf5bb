// Blocks of attention: operands, parts of the work, masks.
#include "pando/backends/cpu/kernels/attention.hpp"

#include <cmath>
#include <limits>

#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();
/// Scores that are worth a thread of their own.
constexpr double kScoresOfPart = 4096;

void set_shapes(const KernelRequest& request, const AttentionOperands& at,
                AttentionProblem& problem) {
  const Shape &q = request.input(at.q).shape, &v = request.input(at.v).shape;
  const std::size_t rank = q.size();
  problem.rows = q[rank - 2];
  problem.depth = q[rank - 1];
  problem.keys = v[rank - 2];
  problem.value_depth = v[rank - 1];
  if (rank > 2) {
    problem.batch = Shape(q.begin(), q.end() - 3);
    problem.heads = q[rank - 3];
    problem.kv_heads = v[rank - 3];
  }
  problem.batches = num_elements(problem.batch);
  problem.q = head_operand(at.q, request.input(at.q), rank);
  problem.k = head_operand(at.k, request.input(at.k), rank);
  problem.v = head_operand(at.v, request.input(at.v), rank);
}

}  // namespace

HeadOperand head_operand(std::size_t index, const OperandDesc& operand, std::size_t rank) {
  Strides strides(rank, 0);
  for (std::size_t d = 0; d < operand.shape.size(); ++d) {
    if (operand.shape[d] == 1) continue;
    strides[rank - operand.shape.size() + d] = operand.strides[d];
  }
  HeadOperand result;
  result.operand = index;
  result.column = strides[rank - 1];
  result.row = strides[rank - 2];
  if (rank > 2) {
    result.head = strides[rank - 3];
    result.batch = Strides(strides.begin(), strides.end() - 3);
  }
  return result;
}

AttentionProblem parse_attention(const KernelRequest& request, const AttentionOperands& at) {
  AttentionProblem problem;
  problem.dtype = request.input(at.q).dtype;
  set_shapes(request, at, problem);
  problem.has_mask = request.has_input(at.mask);
  if (problem.has_mask) {
    problem.mask_is_bool = request.input(at.mask).dtype == DType::Bool;
    problem.mask = head_operand(at.mask, request.input(at.mask), request.input(at.q).shape.size());
  }
  problem.outputs = request.spec.inputs.size();
  problem.seed = at.seed;
  problem.length = at.length;
  problem.has_length = request.has_input(at.length);
  if (problem.has_length) problem.length_dtype = request.input(at.length).dtype;
  const Attributes& attributes = request.attributes();
  problem.scale = static_cast<float>(
      attributes.number_or("scale", 1 / std::sqrt(static_cast<double>(problem.depth))));
  problem.drop = attributes.number_or("p", 0);
  problem.window = AttentionWindow::of(attributes);
  problem.widths = attention_widths();
  return problem;
}

std::int64_t AttentionProblem::run_length(std::byte* const* operands) const {
  if (!has_length) return keys;
  std::int64_t value = 0;
  dispatch_index(length_dtype, [&]<class T>(T) {
    const T given = *operand_in<T>(operands, length);
    // A large unsigned one stays large.
    value = given > T{0} ? static_cast<std::int64_t>(std::min<std::uint64_t>(
                               static_cast<std::uint64_t>(given), static_cast<std::uint64_t>(keys)))
                         : 0;
  });
  return value;
}

AttentionParts::AttentionParts(const AttentionProblem& problem, int num_threads) {
  const std::int64_t blocks = problem.row_blocks();
  per_kv_ = problem.heads_per_kv() * blocks;
  const std::int64_t items = problem.batches * problem.kv_heads * per_kv_;
  // Scores before each block of a head; the last is all of them.
  std::vector<double> before = {0};
  for (std::int64_t block = 0; block < blocks; ++block) {
    double scores = 0;
    const std::int64_t end = std::min(problem.rows, (block + 1) * kAttentionRows);
    for (std::int64_t row = block * kAttentionRows; row < end; ++row) {
      scores += double(problem.window.keys(row, problem.rows, problem.keys).size() + 1);
    }
    before.push_back(before.back() + scores);
  }
  const double total = before.back() * double(problem.batches * problem.heads);
  const std::int64_t parts = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(total / kScoresOfPart), 1, std::max(1, num_threads));
  for (std::int64_t part = 1; part < parts; ++part) {
    const double wanted = total * double(part) / double(parts);
    std::int64_t at = begins_.back();
    for (; at < items; ++at) {
      const std::int64_t heads = at / blocks;
      const double done =
          before.back() * double(heads) + before[static_cast<std::size_t>(at % blocks)];
      if (done >= wanted) break;
    }
    if (at > begins_.back() && at < items) begins_.push_back(at);
  }
  if (items > 0) begins_.push_back(items);
}

bool AttentionParts::cuts_heads() const {
  return per_kv_ > 0 && std::any_of(begins_.begin(), begins_.end(),
                                    [this](std::int64_t begin) { return begin % per_kv_ != 0; });
}

AttentionItem AttentionParts::item(const AttentionProblem& problem, std::int64_t index) const {
  AttentionItem item;
  const std::int64_t blocks = problem.row_blocks();
  item.kv = index / per_kv_;
  item.batch = item.kv / problem.kv_heads;
  item.head = item.kv % problem.kv_heads * problem.heads_per_kv() + index % per_kv_ / blocks;
  item.first = index % blocks * kAttentionRows;
  item.rows = std::min(kAttentionRows, problem.rows - item.first);
  return item;
}

AttentionBlockMaker::Scratch AttentionBlockMaker::Scratch::take(const AttentionProblem& problem,
                                                                ScratchFloats& floats) {
  constexpr std::int64_t kMatrix = kAttentionRows * kAttentionScoreRow;
  return {floats.take(problem.has_mask ? kMatrix : 0), floats.take(problem.drop > 0 ? kMatrix : 0)};
}

AttentionBlockMaker::AttentionBlockMaker(const AttentionProblem& problem, const Scratch& at,
                                         std::byte* const* operands, float* scratch)
    : problem_(problem),
      operands_(operands),
      mask_(problem.has_mask ? scratch + at.mask : nullptr),
      keep_(problem.drop > 0 ? scratch + at.keep : nullptr),
      length_(problem.run_length(operands)) {}

IndexRange AttentionBlockMaker::seen(std::int64_t row) const {
  return problem_.window.keys(item_.first + row, problem_.rows, length_);
}

void AttentionBlockMaker::begin(const AttentionItem& item) {
  item_ = item;
  keys_ = {seen(0).begin, seen(item.rows - 1).end};
}

void AttentionBlockMaker::fill(std::int64_t key, AttentionScores& scores) {
  scores.rows = round_up(item_.rows, kAttentionTileRows);
  scores.depth = problem_.depth;
  scores.q_row = problem_.q_row();
  scores.scale = problem_.scale;
  scores.visible = visible_;
  scores.mask = mask_;
  scores.keep = keep_;
  for (std::int64_t row = 0; row < scores.rows; ++row) {
    // Rows that are only there to fill a tile see nothing, after all others.
    IndexRange range = {kAttentionKeys, kAttentionKeys};
    if (row < item_.rows) {
      range = seen(row);
      range = {std::clamp<std::int64_t>(range.begin - key, 0, kAttentionKeys),
               std::clamp<std::int64_t>(range.end - key, 0, kAttentionKeys)};
    }
    visible_[row] = range;
  }
  if (mask_ != nullptr) fill_mask(key);
  if (keep_ != nullptr) fill_keep(key);
}

void AttentionBlockMaker::fill_mask(std::int64_t key) {
  const HeadOperand& mask = problem_.mask;
  const std::int64_t head = mask.offset(problem_.batch, item_.batch, item_.head);
  const std::int64_t count = std::min(kAttentionKeys, problem_.keys - key);
  const auto fill_rows = [&]<class T>(T, auto value_of) {
    for (std::int64_t row = 0; row < item_.rows; ++row) {
      const T* from = operand_in<T>(operands_, mask.operand) + head +
                      (item_.first + row) * mask.row + key * mask.column;
      float* to = mask_ + row * kAttentionScoreRow;
      for (std::int64_t j = 0; j < count; ++j) to[j] = value_of(from[j * mask.column]);
      std::fill(to + count, to + kAttentionKeys, kHidden);
    }
    std::fill(mask_ + item_.rows * kAttentionScoreRow,
              mask_ + round_up(item_.rows, kAttentionTileRows) * kAttentionScoreRow, 0.f);
  };
  if (problem_.mask_is_bool) {
    return fill_rows(std::uint8_t{}, [](std::uint8_t seen) { return seen != 0 ? 0.f : kHidden; });
  }
  dispatch_float(problem_.dtype, [&]<class T>(T tag) {
    fill_rows(tag, [](T value) { return static_cast<float>(value); });
  });
}

void AttentionBlockMaker::fill_keep(std::int64_t key) {
  const auto* seed = operand_in<std::uint32_t>(operands_, problem_.seed);
  const double threshold = std::clamp(std::round(problem_.drop * 0x1p32), 0.0, 0x1p32 - 1.0);
  DropoutRow dropout{seed[0], seed[1], 0, static_cast<std::uint32_t>(threshold),
                     1.0f / (1.0f - static_cast<float>(problem_.drop))};
  const std::int64_t head = item_.batch * problem_.heads + item_.head;
  for (std::int64_t row = 0; row < round_up(item_.rows, kAttentionTileRows); ++row) {
    const std::int64_t element = (head * problem_.rows + item_.first + row) * problem_.keys + key;
    dropout.first = static_cast<std::uint32_t>(element);
    dropout_factors_f32(dropout, kAttentionKeys, keep_ + row * kAttentionScoreRow);
  }
}

IndexRange key_blocks_seen(const AttentionProblem& problem, const AttentionParts& parts,
                           std::int64_t begin, std::int64_t end, std::int64_t length) {
  IndexRange keys{length, 0};
  for (std::int64_t i = begin; i < end; ++i) {
    const AttentionItem item = parts.item(problem, i);
    keys.begin = std::min(keys.begin, problem.window.keys(item.first, problem.rows, length).begin);
    keys.end = std::max(keys.end,
                        problem.window.keys(item.first + item.rows - 1, problem.rows, length).end);
  }
  if (keys.size() == 0) return {0, 0};
  return {keys.begin / kAttentionKeys, round_up(keys.end, kAttentionKeys) / kAttentionKeys};
}

void register_attention_kernels(KernelTable& table) {
  table["ScaledDotProductAttention"] = {{{"blocks", make_attention}}, AcceptedLayout::AnyStrides};
  table["ScaledDotProductAttentionGrad"] = {{{"blocks", make_attention_grad}},
                                            AcceptedLayout::AnyStrides};
}

}  // namespace pando::cpu
