// ScaledDotProductAttentionGrad: weights are made again block after block from the log-sum-exp of
// each row (Dao, "FlashAttention-2", 2023).
//
// One part adds the gradients of a head of k and v in its own scratch, in the order of its items. A
// head that two parts or more share is the last one of the first of them, which keeps its sum in
// `own`, and the first of the others, which keep theirs in `carried`; those are added afterwards.
#include <cmath>
#include <limits>

#include "pando/backends/cpu/kernels/attention.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

constexpr std::size_t kG = 0, kOut = 4, kLogSumExp = 5;
constexpr AttentionOperands kGradientOperands{1, 2, 3, 6, 7, 8};
constexpr std::size_t kDq = 0, kDk = 1, kDv = 2, kMaskGradient = 3;  // outputs

struct BackwardProblem {
  AttentionProblem attention;
  HeadOperand g, out;
  HeadOperand log_sum_exp;  // its row is a query
  bool mask_gradient = false;
};

/// Sums of one head of k and v: [keys in whole blocks, q_row] and [.., value_row].
struct HeadSums {
  std::int64_t dk = 0, dv = 0;

  static HeadSums take(const AttentionProblem& p, ScratchFloats& floats) {
    const std::int64_t keys = p.key_blocks() * kAttentionKeys;
    return {floats.take(keys * p.q_row()), floats.take(keys * p.value_row())};
  }
};

struct BackwardScratch {
  std::int64_t key_panels, keys, value_panels, value_rows, q, g, out, dq, scores, score_gradients;
  std::int64_t log_sum_exp, g_out, line;
  HeadSums own, carried;
  AttentionBlockMaker::Scratch blocks;
  std::int64_t total;

  static BackwardScratch of(const AttentionProblem& p, bool cuts_heads) {
    ScratchFloats floats;
    BackwardScratch at{};
    const std::int64_t keys = p.key_blocks() * kAttentionKeys;
    at.key_panels = floats.take(keys * p.depth);
    at.keys = floats.take(keys * p.q_row());
    at.value_panels = floats.take(keys * p.value_depth);
    at.value_rows = floats.take(kAttentionKeys * p.value_row());
    for (std::int64_t* rows : {&at.q, &at.dq}) *rows = floats.take(kAttentionRows * p.q_row());
    for (std::int64_t* rows : {&at.g, &at.out}) *rows = floats.take(kAttentionRows * p.value_row());
    for (std::int64_t* matrix : {&at.scores, &at.score_gradients}) {
      *matrix = floats.take(kAttentionRows * kAttentionScoreRow);
    }
    for (std::int64_t* row : {&at.log_sum_exp, &at.g_out}) *row = floats.take(kAttentionRows);
    at.line = floats.take(std::max({p.q_row(), p.value_row(), kAttentionKeys}));
    at.own = HeadSums::take(p, floats);
    if (cuts_heads) at.carried = HeadSums::take(p, floats);
    at.blocks = AttentionBlockMaker::Scratch::take(p, floats);
    at.total = floats.total();
    return at;
  }
};

template <class T>
void write_row(const float* from, float factor, std::int64_t count, float* line, T* to) {
  float* row = begin_row(to, line);
  for (std::int64_t i = 0; i < count; ++i) row[i] = factor * from[i];
  finish_row(to, row, count);
}

template <class T>
class BackwardPart {
 public:
  BackwardPart(const BackwardProblem& problem, const BackwardScratch& at,
               std::byte* const* operands, float* scratch)
      : all_(problem),
        problem_(problem.attention),
        at_(at),
        operands_(operands),
        scratch_(scratch),
        blocks_(problem_, at.blocks, operands, scratch) {}

  void run(const AttentionParts& parts, std::int64_t part) {
    const std::int64_t end = parts.end(part);
    for (std::int64_t first = parts.begin(part); first < end;) {
      const std::int64_t head = first / parts.per_kv() * parts.per_kv();
      const std::int64_t last = std::min(end, head + parts.per_kv());
      const AttentionItem item = parts.item(problem_, first);
      pack(item, key_blocks_seen(problem_, parts, first, last, blocks_.length()));
      const HeadSums& sums = first == head ? at_.own : at_.carried;
      begin_sums(sums);
      const bool whole = first == head && last == head + parts.per_kv();
      for (; first < last; ++first) add(parts.item(problem_, first), sums);
      if (whole) write_sums(item.kv, sums, {0, problem_.keys}, array(at_.line));
    }
  }

  /// Adds what another part carried of the head kv, of which this one has the beginning.
  void add_carried(const float* other, const IndexRange& keys) {
    add_rows(array(at_.own.dk), other + at_.carried.dk, keys, problem_.q_row());
    add_rows(array(at_.own.dv), other + at_.carried.dv, keys, problem_.value_row());
  }
  void write_own(std::int64_t kv, const IndexRange& keys, float* line) const {
    write_sums(kv, at_.own, keys, line);
  }

 private:
  float* array(std::int64_t offset) const { return scratch_ + offset; }

  const T* matrix(const HeadOperand& operand, std::int64_t batch, std::int64_t head) const {
    return operand_in<T>(operands_, operand.operand) + operand.offset(problem_.batch, batch, head);
  }

  static void add_rows(float* to, const float* from, const IndexRange& rows, std::int64_t columns) {
    for (std::int64_t i = rows.begin * columns; i < rows.end * columns; ++i) to[i] += from[i];
  }

  void pack(const AttentionItem& item, const IndexRange& key_blocks) {
    const AttentionProblem& p = problem_;
    const std::int64_t head = item.kv % p.kv_heads;
    for (std::int64_t block = key_blocks.begin; block < key_blocks.end; ++block) {
      const std::int64_t first = block * kAttentionKeys;
      pack_key_block(matrix(p.k, item.batch, head), p.k, block, blocks_.length(), p.depth,
                     p.q_row(), p.widths.panel, array(at_.keys) + first * p.q_row(),
                     array(at_.key_panels) + first * p.depth);
      pack_key_block(matrix(p.v, item.batch, head), p.v, block, blocks_.length(), p.value_depth,
                     p.value_row(), p.widths.panel, array(at_.value_rows),
                     array(at_.value_panels) + first * p.value_depth);
    }
  }

  void begin_sums(const HeadSums& sums) const {
    const std::int64_t keys = problem_.key_blocks() * kAttentionKeys;
    std::fill_n(array(sums.dk), keys * problem_.q_row(), 0.f);
    std::fill_n(array(sums.dv), keys * problem_.value_row(), 0.f);
  }

  /// Operands of the queries of an item.
  void pack_queries(const AttentionItem& item) {
    const AttentionProblem& p = problem_;
    const std::int64_t rows = round_up(item.rows, kAttentionTileRows);
    pack_rows(matrix(p.q, item.batch, item.head) + item.first * p.q.row, p.q, item.rows, p.depth,
              rows, p.q_row(), array(at_.q));
    for (const auto& [operand, to] :
         {std::pair{&all_.g, array(at_.g)}, std::pair{&all_.out, array(at_.out)}}) {
      pack_rows(matrix(*operand, item.batch, item.head) + item.first * operand->row, *operand,
                item.rows, p.value_depth, rows, p.value_row(), to);
    }
    const HeadOperand& at = all_.log_sum_exp;
    const float* log_sum_exp = operand_in<float>(operands_, at.operand) +
                               at.offset(p.batch, item.batch, item.head) + item.first * at.row;
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* g = array(at_.g) + row * p.value_row();
      const float* out = array(at_.out) + row * p.value_row();
      float sum = 0;
      for (std::int64_t i = 0; i < p.value_depth; ++i) sum += g[i] * out[i];
      array(at_.g_out)[row] = sum;
      const float total = row < item.rows ? log_sum_exp[row * at.row] : kInfinity;
      array(at_.log_sum_exp)[row] = total == -kInfinity ? kInfinity : total;
    }
  }

  void add(const AttentionItem& item, const HeadSums& sums) {
    const AttentionProblem& p = problem_;
    pack_queries(item);
    std::fill_n(array(at_.dq), kAttentionRows * p.q_row(), 0.f);
    if (all_.mask_gradient) begin_mask_gradient(item);
    AttentionBackwardBlock block;
    block.scores.q = array(at_.q);
    block.scores.scores = array(at_.scores);
    block.g = array(at_.g);
    block.value_row = p.value_row();
    block.value_depth = p.value_depth;
    block.log_sum_exp = array(at_.log_sum_exp);
    block.g_out = array(at_.g_out);
    block.score_gradients = array(at_.score_gradients);
    block.dq = array(at_.dq);
    blocks_.begin(item);
    const IndexRange keys = blocks_.keys();
    for (std::int64_t key = keys.begin / kAttentionKeys * kAttentionKeys; key < keys.end;
         key += kAttentionKeys) {
      blocks_.fill(key, block.scores);
      block.scores.key_panels = array(at_.key_panels) + key * p.depth;
      block.value_panels = array(at_.value_panels) + key * p.value_depth;
      block.keys = array(at_.keys) + key * p.q_row();
      block.dk = array(sums.dk) + key * p.q_row();
      block.dv = array(sums.dv) + key * p.value_row();
      attend_backward_f32(block);
      if (all_.mask_gradient) write_mask_gradient(item, key);
    }
    T* dq = operand_out<T>(operands_, p.outputs + kDq) + first_query(item) * p.depth;
    for (std::int64_t row = 0; row < item.rows; ++row) {
      write_row(array(at_.dq) + row * p.q_row(), p.scale, p.depth, array(at_.line),
                dq + row * p.depth);
    }
  }

  /// Of all queries of all heads, in the order of contiguous operands.
  std::int64_t first_query(const AttentionItem& item) const {
    return (item.batch * problem_.heads + item.head) * problem_.rows + item.first;
  }

  T* mask_gradient(const AttentionItem& item) const {
    return operand_out<T>(operands_, problem_.outputs + kMaskGradient) +
           first_query(item) * problem_.keys;
  }

  void begin_mask_gradient(const AttentionItem& item) const {
    std::fill_n(mask_gradient(item), item.rows * problem_.keys, T{});
  }

  void write_mask_gradient(const AttentionItem& item, std::int64_t key) const {
    const std::int64_t count = std::min(kAttentionKeys, problem_.keys - key);
    for (std::int64_t row = 0; row < item.rows; ++row) {
      write_row(array(at_.score_gradients) + row * kAttentionScoreRow, 1.f, count, array(at_.line),
                mask_gradient(item) + row * problem_.keys + key);
    }
  }

  void write_sums(std::int64_t kv, const HeadSums& sums, const IndexRange& keys,
                  float* line) const {
    const AttentionProblem& p = problem_;
    T* dk = operand_out<T>(operands_, p.outputs + kDk) + kv * p.keys * p.depth;
    T* dv = operand_out<T>(operands_, p.outputs + kDv) + kv * p.keys * p.value_depth;
    for (std::int64_t key = keys.begin; key < keys.end; ++key) {
      write_row(array(sums.dk) + key * p.q_row(), p.scale, p.depth, line, dk + key * p.depth);
      write_row(array(sums.dv) + key * p.value_row(), 1.f, p.value_depth, line,
                dv + key * p.value_depth);
    }
  }

  const BackwardProblem& all_;
  const AttentionProblem& problem_;
  const BackwardScratch& at_;
  std::byte* const* operands_;
  float* scratch_;
  AttentionBlockMaker blocks_;
};

/// The kernel of one dtype.
template <class T>
struct AttentionGradient {
  BackwardProblem problem;
  AttentionParts parts;
  BackwardScratch at;
  /// Heads that several parts share: the first of them, and how many others.
  struct SharedHead {
    std::int64_t first, others;
  };
  std::vector<SharedHead> shared;

  void find_shared_heads() {
    for (std::int64_t part = 1; part < parts.count(); ++part) {
      const std::int64_t begin = parts.begin(part);
      if (begin % parts.per_kv() == 0) continue;
      const bool goes_on = !shared.empty() &&
                           begin / parts.per_kv() == parts.begin(part - 1) / parts.per_kv() &&
                           parts.begin(part - 1) % parts.per_kv() != 0;
      if (goes_on) {
        ++shared.back().others;
      } else {
        shared.push_back({part - 1, 1});
      }
    }
  }

  float* scratch_of(std::byte* scratch, std::int64_t part) const {
    return reinterpret_cast<float*>(scratch) + part * at.total;
  }

  void operator()(std::byte* const* operands, std::byte* scratch) const {
    const int threads = static_cast<int>(parts.count());
    parallel_for(threads, parts.count(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) {
        BackwardPart<T>(problem, at, operands, scratch_of(scratch, part)).run(parts, part);
      }
    });
    for (const SharedHead& head : shared) merge(head, operands, scratch);
  }

  void merge(const SharedHead& head, std::byte* const* operands, std::byte* scratch) const {
    const std::int64_t kv = (parts.end(head.first) - 1) / parts.per_kv();
    const std::int64_t keys = problem.attention.keys;
    parallel_for(static_cast<int>(parts.count()), keys, kAttentionKeys,
                 [&](std::int64_t begin, std::int64_t end) {
                   BackwardPart<T> first(problem, at, operands, scratch_of(scratch, head.first));
                   for (std::int64_t i = 1; i <= head.others; ++i) {
                     first.add_carried(scratch_of(scratch, head.first + i), {begin, end});
                   }
                   first.write_own(kv, {begin, end}, scratch_of(scratch, thread_index()) + at.line);
                 });
  }
};

}  // namespace

KernelPlan make_attention_grad(const KernelRequest& request) {
  BackwardProblem problem;
  problem.attention = parse_attention(request, kGradientOperands);
  const std::size_t rank = request.input(kG).shape.size();
  problem.g = head_operand(kG, request.input(kG), rank);
  problem.out = head_operand(kOut, request.input(kOut), rank);
  OperandDesc rows = request.input(kLogSumExp);
  rows.shape.push_back(1);
  rows.strides.push_back(0);
  problem.log_sum_exp = head_operand(kLogSumExp, rows, rank);
  problem.mask_gradient = request.attributes().flag_or("mask_gradient", false);
  const AttentionParts parts(problem.attention, request.num_threads);
  const BackwardScratch at = BackwardScratch::of(problem.attention, parts.cuts_heads());
  KernelPlan plan;
  const bool known = dispatch_float(problem.attention.dtype, [&]<class T>(T) {
    if constexpr (!std::is_same_v<T, double>) {
      AttentionGradient<T> gradient{problem, parts, at, {}};
      gradient.find_shared_heads();
      plan.run = std::move(gradient);
    }
  });
  if (!known || !plan.run) return KernelPlan::reject(unsupported_dtype(problem.attention.dtype));
  plan.scratch_bytes = static_cast<std::size_t>(at.total * parts.count()) * sizeof(float);
  plan.detail = str_cat(parts.count(), " parts");
  return plan;
}

}  // namespace pando::cpu
