#include "pando/backends/cpu/fused/fused_layout.hpp"

#include <algorithm>

#include "pando/backends/cpu/processor.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

constexpr std::int64_t kPieceLanes = 4096;
/// Elements of a row that is made of several: buffers of that many stay in the first-level cache.
constexpr std::int64_t kMostRepeated = 2048;

/// Those of the common shape.
std::vector<const OperandDesc*> all_operands(const KernelSpec& spec) {
  std::vector<const OperandDesc*> result;
  result.reserve(spec.num_loaded_inputs() + spec.outputs.size());
  for (std::size_t i = 0; i < spec.num_loaded_inputs(); ++i) result.push_back(&spec.inputs[i]);
  for (const OperandDesc& output : spec.outputs) result.push_back(&output);
  return result;
}

/// How many rows of `inner` elements become one: a divisor of `rows`, best one that leaves no part
/// of a block.
std::int64_t rows_to_join(std::int64_t rows, std::int64_t inner, std::int64_t block_lanes) {
  std::int64_t best = 1;
  const auto is_even = [&](std::int64_t count) { return count * inner % block_lanes == 0; };
  for (std::int64_t count = 2; count <= rows && count * inner <= kMostRepeated; ++count) {
    if (rows % count == 0 && (is_even(count) || !is_even(best))) best = count;
  }
  return best;
}

}  // namespace

FusedLayout::FusedLayout(const KernelSpec& spec, const FusedPlan& plan, std::int64_t block_lanes,
                         bool keep_rows)
    : num_inputs(spec.num_loaded_inputs()), num_operands(num_inputs + spec.outputs.size()) {
  const std::vector<const OperandDesc*> operands = all_operands(spec);
  for (const OperandDesc* operand : operands) {
    bytes.push_back(dtype_bytes(operand->dtype));
    uniform.push_back(is_uniform(*operand));
  }
  add_products(spec);
  const bool is_numbered = !plan.generated.empty() || !products.empty();
  iteration = collapse(operands, keep_rows     ? Merging::KeepRows
                                 : is_numbered ? Merging::KeepOrder
                                               : Merging::AnyOrder);
  if (!keep_rows && !is_numbered) widen_rows(block_lanes);
  choose_rows(plan, block_lanes, keep_rows);
  choose_access(plan);
}

/// Whether neighbouring rows read the same elements, one after the other.
bool FusedLayout::repeats(std::size_t operand) const {
  const Strides& strides = iteration.strides[operand];
  return is_input(operand) && strides.back() == 1 && strides.end()[-2] == 0;
}

/// Makes several short rows one, where the operands that keep them apart are the same in each.
void FusedLayout::widen_rows(std::int64_t block_lanes) {
  const std::int64_t inner = iteration.inner();
  const bool is_short = inner < 8 * block_lanes && inner % block_lanes != 0;
  if (iteration.shape.size() < 2 || !is_short) return;
  const std::size_t outer = iteration.shape.size() - 2;
  for (std::size_t i = 0; i < num_operands; ++i) {
    const Strides& strides = iteration.strides[i];
    if (!repeats(i) && strides[outer] != strides[outer + 1] * inner) return;
  }
  const std::int64_t joined = rows_to_join(iteration.shape[outer], inner, block_lanes);
  if (joined == 1) return;
  period = inner;
  iteration.shape[outer] /= joined;
  iteration.shape[outer + 1] *= joined;
  for (Strides& strides : iteration.strides) strides[outer] *= joined;
}

void FusedLayout::add_products(const KernelSpec& spec) {
  for (const ProductInput& product : spec.products) {
    const auto operand = [&](std::int32_t i) { return static_cast<std::size_t>(i); };
    const OperandDesc& left = spec.inputs[operand(product.left)];
    const OperandDesc& right = spec.inputs[operand(product.right)];
    internal_check(spec.inputs[operand(product.value)].is_contiguous() &&
                       !uniform[operand(product.value)] && right.strides[1] == 1,
                   "a fused product needs dense rows");
    RowProducts shape;
    shape.left_row = left.strides[0];
    shape.left_stride = left.strides[1];
    shape.right_stride = right.strides[0];
    shape.depth = left.shape[1];
    shape.columns = right.shape[1];
    products.push_back(
        {operand(product.value), operand(product.left), operand(product.right), shape});
  }
}

void FusedProduct::multiply(std::byte* const* operands, std::int64_t first, std::int64_t count,
                            float* out) const {
  const auto* left_matrix = reinterpret_cast<const float*>(operands[left]);
  const auto* right_matrix = reinterpret_cast<const float*>(operands[right]);
  const std::int64_t columns = shape.columns;
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t row = (first + done) / columns, column = (first + done) % columns;
    RowProducts piece = shape;
    piece.left = left_matrix + row * shape.left_row;
    piece.right = right_matrix + column;
    if (column == 0 && count - done >= columns) {
      piece.rows = (count - done) / columns;
    } else {
      piece.columns = std::min(count - done, columns - column);
    }
    multiply_row_products(piece, out + done);
    done += piece.rows * piece.columns;
  }
}

const FusedProduct* FusedLayout::product_of(std::size_t operand) const {
  const auto it = std::find_if(products.begin(), products.end(),
                               [&](const FusedProduct& p) { return p.input == operand; });
  return it == products.end() ? nullptr : &*it;
}

/// Rows are runs of the inner dimension where they hold many blocks, else everything is one row
/// and what is not contiguous is gathered.
void FusedLayout::choose_rows(const FusedPlan& plan, std::int64_t block_lanes, bool keep_rows) {
  const std::int64_t inner = iteration.inner();
  // Short rows cut the groups in which numbers are drawn into many runs.
  by_rows = keep_rows || iteration.shape.size() == 1 || inner >= 8 * block_lanes ||
            (plan.generated.empty() && inner % block_lanes == 0) || period > 0;
  row_length = by_rows ? inner : iteration.size();
  rows = by_rows && inner > 0 ? iteration.size() / inner : 1;
}

void FusedLayout::choose_access(const FusedPlan& plan) {
  const Strides contiguous = contiguous_strides(iteration.shape);
  bool gathers = false;
  for (std::size_t i = 0; i < num_operands; ++i) {
    const Strides& strides = iteration.strides[i];
    const bool direct = by_rows ? strides.back() == 1 : strides == contiguous;
    const bool splat = is_input(i) && (uniform[i] || (by_rows && strides.back() == 0));
    Access found = direct ? Access::Direct : Access::Gathered;
    if (splat) found = Access::Splat;
    if (period > 0 && repeats(i)) found = Access::Repeated;
    if (product_of(i) != nullptr) found = Access::Computed;
    access.push_back(found);
    gathers = gathers || found == Access::Gathered || found == Access::Computed;
  }
  merges_pieces = !gathers && plan.generated.empty();
  piece = merges_pieces ? kPieceLanes : static_cast<std::int64_t>(kPhiloxGroup);
}

bool FusedLayout::is_better_past_the_caches() const {
  std::size_t moved = 0;
  for (std::size_t i = 0; i < num_operands; ++i) {
    const Strides& strides = iteration.strides[i];
    const bool whole = std::find(strides.begin(), strides.end(), 0) == strides.end();
    if (whole) moved += static_cast<std::size_t>(iteration.size()) * bytes[i];
    if (is_input(i)) continue;
    const bool even = access[i] == Access::Direct &&
                      std::all_of(strides.begin(), strides.end() - 1, [&](std::int64_t stride) {
                        return stride * static_cast<std::int64_t>(bytes[i]) % 32 == 0;
                      });
    if (!even) return false;
  }
  return moved >= last_cache_bytes() / 2 * 3;
}

std::vector<std::int64_t> FusedLayout::row_steps() const {
  if (!merges_pieces || outer_dimensions() == 0) return {};
  std::vector<std::int64_t> steps;
  for (std::size_t i = 0; i < num_operands; ++i) {
    const bool moves = access[i] == Access::Direct || access[i] == Access::Repeated;
    if (!moves && !uniform[i]) return {};
    steps.push_back(iteration.strides[i][outer_dimensions() - 1] *
                    static_cast<std::int64_t>(bytes[i]));
  }
  return steps;
}

}  // namespace pando::cpu
