// ScaledDotProductAttention: block after block of queries, each over blocks of keys with running
// maxima and sums (Dao, "FlashAttention-2", 2023), so that no matrix of scores is written.
#include <cmath>
#include <limits>

#include "pando/backends/cpu/kernels/attention.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

constexpr AttentionOperands kForwardOperands{0, 1, 2, 3, 4, 5};
constexpr std::size_t kOutResult = 0, kLogSumExpResult = 1;  // outputs

/// Offsets of arrays in the scratch of a part.
struct ForwardScratch {
  std::int64_t key_panels, values, key_rows, q, scores, out, max, sum, factor, line;
  AttentionBlockMaker::Scratch blocks;
  std::int64_t total;

  static ForwardScratch of(const AttentionProblem& p) {
    ScratchFloats floats;
    ForwardScratch at{};
    at.key_panels = floats.take(p.key_blocks() * kAttentionKeys * p.depth);
    at.values = floats.take(p.key_blocks() * kAttentionKeys * p.value_row());
    at.key_rows = floats.take(kAttentionKeys * p.q_row());
    at.q = floats.take(kAttentionRows * p.q_row());
    at.scores = floats.take(kAttentionRows * kAttentionScoreRow);
    at.out = floats.take(kAttentionRows * p.value_row());
    for (std::int64_t* row : {&at.max, &at.sum, &at.factor}) *row = floats.take(kAttentionRows);
    at.line = floats.take(p.value_row());
    at.blocks = AttentionBlockMaker::Scratch::take(p, floats);
    at.total = floats.total();
    return at;
  }
};

template <class T>
class ForwardPart {
 public:
  ForwardPart(const AttentionProblem& problem, const ForwardScratch& at, std::byte* const* operands,
              float* scratch)
      : problem_(problem),
        at_(at),
        operands_(operands),
        scratch_(scratch),
        blocks_(problem, at.blocks, operands, scratch) {}

  void run(const AttentionParts& parts, std::int64_t part) {
    const std::int64_t end = parts.end(part);
    for (std::int64_t first = parts.begin(part); first < end;) {
      const std::int64_t last = std::min(end, (first / parts.per_kv() + 1) * parts.per_kv());
      pack(parts.item(problem_, first),
           key_blocks_seen(problem_, parts, first, last, blocks_.length()));
      for (; first < last; ++first) attend(parts.item(problem_, first));
    }
  }

 private:
  float* array(std::int64_t offset) const { return scratch_ + offset; }

  const T* matrix(const HeadOperand& operand, std::int64_t batch, std::int64_t head) const {
    return operand_in<T>(operands_, operand.operand) + operand.offset(problem_.batch, batch, head);
  }

  /// Keys and values of the head of an item.
  void pack(const AttentionItem& item, const IndexRange& key_blocks) {
    const AttentionProblem& p = problem_;
    const std::int64_t head = item.kv % p.kv_heads;
    for (std::int64_t block = key_blocks.begin; block < key_blocks.end; ++block) {
      const std::int64_t first = block * kAttentionKeys;
      pack_key_block(matrix(p.k, item.batch, head), p.k, block, blocks_.length(), p.depth,
                     p.q_row(), p.widths.panel, array(at_.key_rows),
                     array(at_.key_panels) + first * p.depth);
      pack_key_block(matrix(p.v, item.batch, head), p.v, block, blocks_.length(), p.value_depth,
                     p.value_row(), p.widths.panel, array(at_.values) + first * p.value_row(),
                     nullptr);
    }
  }

  void attend(const AttentionItem& item) {
    const AttentionProblem& p = problem_;
    pack_rows(matrix(p.q, item.batch, item.head) + item.first * p.q.row, p.q, item.rows, p.depth,
              round_up(item.rows, kAttentionTileRows), p.q_row(), array(at_.q));
    std::fill_n(array(at_.max), kAttentionRows, -kInfinity);
    std::fill_n(array(at_.factor), kAttentionRows, -kInfinity);
    std::fill_n(array(at_.sum), kAttentionRows, 0.f);
    std::fill_n(array(at_.out), kAttentionRows * p.value_row(), 0.f);
    AttentionForwardBlock block;
    block.scores.q = array(at_.q);
    block.scores.scores = array(at_.scores);
    block.value_row = p.value_row();
    block.max = array(at_.max);
    block.sum = array(at_.sum);
    block.factor = array(at_.factor);
    block.out = array(at_.out);
    blocks_.begin(item);
    const IndexRange keys = blocks_.keys();
    for (std::int64_t key = keys.begin / kAttentionKeys * kAttentionKeys; key < keys.end;
         key += kAttentionKeys) {
      blocks_.fill(key, block.scores);
      block.scores.key_panels = array(at_.key_panels) + key * p.depth;
      block.values = array(at_.values) + key * p.value_row();
      attend_forward_f32(block);
    }
    finish(item);
  }

  void finish(const AttentionItem& item) {
    const AttentionProblem& p = problem_;
    const std::int64_t first = (item.batch * p.heads + item.head) * p.rows + item.first;
    for (std::int64_t row = 0; row < item.rows; ++row) {
      const float sum = array(at_.sum)[row], max = array(at_.max)[row];
      const bool sees_nothing = sum == 0;
      const float factor = sees_nothing ? 0.f : 1 / sum;
      operand_out<float>(operands_, p.outputs + kLogSumExpResult)[first + row] =
          sees_nothing ? -kInfinity : max + std::log(sum);
      const float* from = array(at_.out) + row * p.value_row();
      T* out = operand_out<T>(operands_, p.outputs + kOutResult) + (first + row) * p.value_depth;
      float* to = begin_row(out, array(at_.line));
      for (std::int64_t i = 0; i < p.value_depth; ++i) to[i] = from[i] * factor;
      finish_row(out, to, p.value_depth);
    }
  }

  const AttentionProblem& problem_;
  const ForwardScratch& at_;
  std::byte* const* operands_;
  float* scratch_;
  AttentionBlockMaker blocks_;
};

}  // namespace

KernelPlan make_attention(const KernelRequest& request) {
  const AttentionProblem problem = parse_attention(request, kForwardOperands);
  const AttentionParts parts(problem, request.num_threads);
  const ForwardScratch at = ForwardScratch::of(problem);
  KernelPlan plan;
  const bool known = dispatch_float(problem.dtype, [&]<class T>(T) {
    if constexpr (!std::is_same_v<T, double>) {
      plan.run = [problem, parts, at](std::byte* const* operands, std::byte* scratch) {
        parallel_for(static_cast<int>(parts.count()), parts.count(), 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t part = begin; part < end; ++part) {
                         float* mine = reinterpret_cast<float*>(scratch) + part * at.total;
                         ForwardPart<T>(problem, at, operands, mine).run(parts, part);
                       }
                     });
      };
    }
  });
  if (!known || !plan.run) return KernelPlan::reject(unsupported_dtype(problem.dtype));
  plan.scratch_bytes = static_cast<std::size_t>(at.total * parts.count()) * sizeof(float);
  plan.detail = str_cat(parts.count(), " parts");
  return plan;
}

}  // namespace pando::cpu
