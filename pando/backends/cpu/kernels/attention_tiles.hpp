// The float32 loops of attention, over one block of queries and keys at a time.
//
// A block has up to kAttentionRows queries and kAttentionKeys keys. Its matrices have
// kAttentionScoreRow floats a row, which keeps columns out of one set of the cache.
#pragma once

#include <cstdint>

#include "pando/base/band.hpp"

namespace pando::cpu {

constexpr std::int64_t kAttentionRows = 64;
constexpr std::int64_t kAttentionKeys = 128;
constexpr std::int64_t kAttentionScoreRow = kAttentionKeys + 16;
/// Rows of a register tile; numbers of rows in blocks are multiples of it.
constexpr std::int64_t kAttentionTileRows = 4;

/// Widths, in floats, of the running machine: rows of operands are padded to `lanes`, and panels of
/// transposed rows have `panel` columns.
struct AttentionWidths {
  std::int64_t lanes, panel;
};
AttentionWidths attention_widths();

/// Scores of queries and keys: scale * q k^T + mask.
struct AttentionScores {
  std::int64_t rows = 0, depth = 0;
  const float* q = nullptr;  // [rows, q_row]
  std::int64_t q_row = 0;
  const float* key_panels = nullptr;    // of kAttentionKeys keys: [depth, panel] each
  const IndexRange* visible = nullptr;  // the keys of the block that each row sees
  const float* mask = nullptr;          // [rows, kAttentionScoreRow] or nullptr
  const float* keep = nullptr;          // the same: factors of dropout
  float scale = 1;
  float* scores = nullptr;  // [rows, kAttentionScoreRow]
};

/// One step of an online softmax (Milakov and Gimelshein, 2018; Dao, FlashAttention-2, 2023).
struct AttentionForwardBlock {
  AttentionScores scores;
  const float* values = nullptr;  // [kAttentionKeys, value_row]
  std::int64_t value_row = 0;     // a multiple of lanes
  // Of each row so far: the largest score, the sum of exponentials, their products with values.
  float* max = nullptr;     // kAttentionRows
  float* sum = nullptr;     // kAttentionRows
  float* factor = nullptr;  // kAttentionRows, used within the step
  float* out = nullptr;     // [rows, value_row]
};
void attend_forward_f32(const AttentionForwardBlock& block);

/// Adds what a block contributes to the gradients of q (not yet scaled), k (likewise) and v.
struct AttentionBackwardBlock {
  AttentionScores scores;               // become the weights, after dropout
  const float* g = nullptr;             // [rows, value_row]
  const float* value_panels = nullptr;  // as key_panels, of depth value_depth
  std::int64_t value_row = 0, value_depth = 0;
  const float* keys = nullptr;         // [kAttentionKeys, q_row]
  const float* log_sum_exp = nullptr;  // of each row; +infinity where it sees no key
  const float* g_out = nullptr;        // of each row: sum of g times the attention's result
  float* score_gradients = nullptr;    // [rows, kAttentionScoreRow]
  float* dq = nullptr;                 // [rows, q_row]
  float *dk = nullptr, *dv = nullptr;  // [kAttentionKeys, q_row or value_row]
};
void attend_backward_f32(const AttentionBackwardBlock& block);

/// to[d, i] = from[i, d] for i < panel, d < depth.
void transpose_panel_f32(const float* from, std::int64_t from_row, std::int64_t depth, float* to);

/// factors[j] = `factor` where Dropout with these keys keeps element first + j, else 0.
struct DropoutRow {
  std::uint32_t key0, key1, first, threshold;
  float factor;
};
void dropout_factors_f32(const DropoutRow& row, std::int64_t count, float* factors);

}  // namespace pando::cpu
