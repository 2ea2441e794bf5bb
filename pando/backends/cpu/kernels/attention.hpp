// What the kernels of attention and its gradient share.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/attention_tiles.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/base/attention_window.hpp"

namespace pando::cpu {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr std::int64_t round_up(std::int64_t count, std::int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

/// Where the matrices of an operand [batch..., heads, rows, columns] lie, in elements.
struct HeadOperand {
  std::size_t operand = 0;
  Strides batch;
  std::int64_t head = 0, row = 0, column = 0;

  std::int64_t offset(const Shape& batch_shape, std::int64_t index, std::int64_t head_index) const {
    std::int64_t at = head_index * head;
    for (std::size_t d = batch.size(); d-- > 0;) {
      at += index % batch_shape[d] * batch[d];
      index /= batch_shape[d];
    }
    return at;
  }
};

/// Numbers of the operands of a kernel; those of the gradient differ.
struct AttentionOperands {
  std::size_t q, k, v, mask, seed, length;
};

struct AttentionProblem {
  DType dtype = DType::Float32;
  Shape batch;
  std::int64_t batches = 1, heads = 1, kv_heads = 1;
  std::int64_t rows = 0, keys = 0, depth = 0, value_depth = 0;
  HeadOperand q, k, v, mask;
  bool has_mask = false, mask_is_bool = false;
  std::size_t seed = 0, length = 0, outputs = 0;  // numbers of operands; of the first output
  bool has_length = false;
  DType length_dtype = DType::Int32;
  float scale = 1;
  double drop = 0;
  AttentionWindow window;
  AttentionWidths widths{};

  /// Floats of a packed row of q and k, and of v.
  std::int64_t q_row() const { return round_up(depth, widths.lanes); }
  std::int64_t value_row() const { return round_up(value_depth, widths.lanes); }
  std::int64_t row_blocks() const { return round_up(rows, kAttentionRows) / kAttentionRows; }
  std::int64_t key_blocks() const { return round_up(keys, kAttentionKeys) / kAttentionKeys; }
  std::int64_t heads_per_kv() const { return kv_heads == 0 ? 0 : heads / kv_heads; }
  /// The number of keys that this run has.
  std::int64_t run_length(std::byte* const* operands) const;
};

/// Strides by dimension of the scores; 0 where the operand is broadcast.
HeadOperand head_operand(std::size_t index, const OperandDesc& operand, std::size_t rank);
AttentionProblem parse_attention(const KernelRequest& request, const AttentionOperands& at);

/// A block of queries of one head.
struct AttentionItem {
  std::int64_t kv = 0;  // batch * kv_heads + head of k and v
  std::int64_t batch = 0, head = 0;
  std::int64_t first = 0, rows = 0;  // queries
};

/// The items of all heads, those of one head of k and v one after the other, cut into parts of
/// about equal work.
class AttentionParts {
 public:
  AttentionParts() = default;
  AttentionParts(const AttentionProblem& problem, int num_threads);

  std::int64_t count() const { return static_cast<std::int64_t>(begins_.size()) - 1; }
  std::int64_t begin(std::int64_t part) const { return begins_[static_cast<std::size_t>(part)]; }
  std::int64_t end(std::int64_t part) const { return begin(part + 1); }
  std::int64_t per_kv() const { return per_kv_; }
  bool cuts_heads() const;
  AttentionItem item(const AttentionProblem& problem, std::int64_t index) const;

 private:
  std::int64_t per_kv_ = 0;  // items of a head of k and v
  std::vector<std::int64_t> begins_ = {0};
};

/// Scratch of one part, cut into arrays of floats on cache lines.
class ScratchFloats {
 public:
  /// The offset of an array.
  std::int64_t take(std::int64_t count) {
    const std::int64_t at = total_;
    total_ += round_up(count, 16);
    return at;
  }
  std::int64_t total() const { return total_; }

 private:
  std::int64_t total_ = 0;
};

/// Rows of any strides as padded rows of floats: [padded_rows, padded_columns], zeros beyond.
template <class T>
void pack_rows(const T* from, const HeadOperand& strides, std::int64_t rows, std::int64_t columns,
               std::int64_t padded_rows, std::int64_t padded_columns, float* to) {
  for (std::int64_t r = 0; r < rows; ++r, from += strides.row, to += padded_columns) {
    if (strides.column == 1 || columns == 1) {
      const float* row = read_row(from, to, columns);
      if (row != to) std::copy_n(row, columns, to);
    } else {
      for (std::int64_t c = 0; c < columns; ++c) {
        to[c] = static_cast<float>(from[c * strides.column]);
      }
    }
    std::fill(to + columns, to + padded_columns, 0.f);
  }
  std::fill_n(to, (padded_rows - rows) * padded_columns, 0.f);
}

/// What a part knows of the queries of an item: which keys they see, mask and dropout.
class AttentionBlockMaker {
 public:
  struct Scratch {
    std::int64_t mask, keep;
    static Scratch take(const AttentionProblem& problem, ScratchFloats& floats);
  };

  AttentionBlockMaker(const AttentionProblem& problem, const Scratch& at,
                      std::byte* const* operands, float* scratch);

  std::int64_t length() const { return length_; }
  void begin(const AttentionItem& item);
  /// The keys that some query of the item sees.
  IndexRange keys() const { return keys_; }
  /// The block of keys from `key` on: fills in what does not depend on operands q and k.
  void fill(std::int64_t key, AttentionScores& scores);

 private:
  void fill_mask(std::int64_t key);
  void fill_keep(std::int64_t key);
  IndexRange seen(std::int64_t row) const;

  const AttentionProblem& problem_;
  std::byte* const* operands_;
  float *mask_, *keep_;
  std::int64_t length_ = 0;
  AttentionItem item_;
  IndexRange keys_;
  IndexRange visible_[kAttentionRows];
};

/// The keys that the items [begin, end) of one head of k and v see, in whole blocks.
IndexRange key_blocks_seen(const AttentionProblem& problem, const AttentionParts& parts,
                           std::int64_t begin, std::int64_t end, std::int64_t length);

/// Packs key block `block` (keys before `length`) of an operand: rows, and panels of columns unless
/// `panels` is nullptr.
template <class T>
void pack_key_block(const T* head, const HeadOperand& operand, std::int64_t block,
                    std::int64_t length, std::int64_t depth, std::int64_t row_floats,
                    std::int64_t panel, float* rows, float* panels) {
  const std::int64_t first = block * kAttentionKeys;
  pack_rows(head + first * operand.row, operand,
            std::clamp<std::int64_t>(length - first, 0, kAttentionKeys), depth, kAttentionKeys,
            row_floats, rows);
  if (panels == nullptr) return;
  for (std::int64_t key = 0; key < kAttentionKeys; key += panel) {
    transpose_panel_f32(rows + key * row_floats, row_floats, depth, panels + key * depth);
  }
}

KernelPlan make_attention(const KernelRequest& request);
KernelPlan make_attention_grad(const KernelRequest& request);

}  // namespace pando::cpu
