// Products of which masks leave a part: attention that looks back, or not far.
#include <algorithm>
#include <array>
#include <vector>

#include "pando/backends/cpu/kernels/matmul.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

// Blocks shorter than kMinBlock feed the kernels badly; more than kMaxBlocks skip hardly more.
constexpr std::int64_t kMinBlock = 64;
constexpr std::int64_t kMaxBlocks = 8;
constexpr std::int64_t kBlockMultiple = 16;

/// The part of a product that one block of its result needs.
struct Block {
  IndexRange rows, columns, terms;
};

std::vector<IndexRange> cut(std::int64_t size) {
  const std::int64_t even = (size + kMaxBlocks - 1) / kMaxBlocks;
  const std::int64_t length =
      std::max(kMinBlock, (even + kBlockMultiple - 1) / kBlockMultiple * kBlockMultiple);
  std::vector<IndexRange> parts;
  for (std::int64_t begin = 0; begin < size; begin += length) {
    parts.push_back({begin, std::min(size, begin + length)});
  }
  return parts;
}

/// Along columns where a band of the result or of the rhs allows, since the lhs is the operand that
/// kernels repack less.
std::vector<Block> blocks_of(const MatMulProblem& p) {
  const MatMulBands& bands = p.bands;
  const bool by_columns = bands.out.has_value() || !bands.lhs.has_value();
  std::vector<Block> blocks;
  for (const IndexRange& part : cut(by_columns ? p.n : p.m)) {
    Block block{{0, p.m}, {0, p.n}, {0, p.k}};
    (by_columns ? block.columns : block.rows) = part;
    if (bands.out) block.rows = bands.out->rows(block.columns, p.m);
    if (bands.lhs) block.terms = bands.lhs->columns(block.rows, p.k);
    if (bands.rhs) block.terms = block.terms.intersection(bands.rhs->rows(block.columns, p.k));
    if (block.rows.size() > 0) blocks.push_back(block);
  }
  return blocks;
}

double multiplications(const Block& block) {
  return double(block.rows.size()) * double(block.columns.size()) * double(block.terms.size());
}

struct PlannedBlock {
  KernelPlan plan;
  std::array<std::int64_t, 3> offsets;  // of lhs, rhs and result, in elements
};

PlannedBlock plan_block(const MatMulProblem& problem, const Block& block, int num_threads) {
  MatMulProblem part = problem;
  part.bands = {};
  part.m = block.rows.size();
  part.n = block.columns.size();
  part.k = block.terms.size();
  PlannedBlock planned;
  planned.offsets = {block.rows.begin * part.lhs_row + block.terms.begin * part.lhs_column,
                     block.terms.begin * part.rhs_row + block.columns.begin * part.rhs_column,
                     block.rows.begin * part.out_row + block.columns.begin};
  planned.plan = plan_packed_matmul(part, num_threads);
  if (!planned.plan.rejection.empty()) planned.plan = plan_onednn_matmul(part, num_threads);
  return planned;
}

}  // namespace

KernelPlan plan_banded_matmul(const MatMulProblem& problem, int num_threads) {
  if (problem.has_bias || problem.epilogue != nullptr) return KernelPlan::reject("an epilogue");
  const std::vector<Block> blocks = blocks_of(problem);
  double left = 0;
  for (const Block& block : blocks) {
    if (block.terms.size() == 0) return KernelPlan::reject("a block without terms");
    left += multiplications(block);
  }
  const double all = double(problem.m) * double(problem.n) * double(problem.k);
  constexpr double kWorthwhile = 0.85;
  if (!(left < kWorthwhile * all)) return KernelPlan::reject("the bands leave too much");
  KernelPlan plan;
  std::vector<PlannedBlock> parts;
  for (const Block& block : blocks) {
    parts.push_back(plan_block(problem, block, num_threads));
    const KernelPlan& part = parts.back().plan;
    if (!part.rejection.empty()) return KernelPlan::reject(part.rejection);
    plan.scratch_bytes = std::max(plan.scratch_bytes, part.scratch_bytes);
  }
  plan.detail = str_cat(parts.size(), " blocks, ", static_cast<int>(100 * left / all), " % of ",
                        parts.front().plan.detail);
  plan.run = [parts = std::move(parts)](std::byte* const* operands, std::byte* scratch) {
    for (const PlannedBlock& part : parts) {
      std::array<std::byte*, 3> moved{};
      for (std::size_t i = 0; i < moved.size(); ++i) {
        moved[i] = operands[i] + part.offsets[i] * static_cast<std::int64_t>(sizeof(float));
      }
      part.plan.run(moved.data(), scratch);
    }
  };
  return plan;
}

}  // namespace pando::cpu
