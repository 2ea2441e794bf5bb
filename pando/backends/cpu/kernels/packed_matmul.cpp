// Products large enough to pay for packing both operands: panels as wide as a register tile,
// blocked so that one panel of the rhs stays in the first cache level and one block of the lhs in
// the second (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication"). Operands
// of half precision become float32 while they are packed.
#include <algorithm>
#include <utility>

#include "pando/backends/cpu/kernels/half_rows.hpp"
#include "pando/backends/cpu/kernels/matmul.hpp"
#include "pando/backends/cpu/kernels/packed_panels.hpp"
#include "pando/backends/cpu/parallel.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

constexpr std::int64_t kMaxDepth = 320;     // of a block: a panel of the rhs fits the first level
constexpr std::int64_t kMaxRows = 144;      // of a block of the lhs, which fits the second level
constexpr std::int64_t kMaxColumns = 2048;  // of a packed part of the rhs
constexpr std::int64_t kMaxHalfColumns = 256;  // the same where sums of a block are kept beside it
constexpr double kMinFlopsPerTask = 3e5;
// Where oneDNN is as fast or faster (docs/decisions/0004-packed-matmul.md).
constexpr std::int64_t kMinRows = 33;
constexpr std::int64_t kMinColumns = 16;
constexpr std::int64_t kMinDepth = 32;
constexpr std::int64_t kMinMultiplications = 1 << 20;
constexpr std::int64_t kMaxTileColumns = 16;
// Of more rows packing the right matrix is too small a part of the work to keep it twice.
constexpr std::int64_t kMostRowsForPackedRight = 512;
// Fewer read it as fast where it lies, and so do up to 32 that fit into a cache with it.
constexpr std::int64_t kFewestRowsForPackedRight = 4;
constexpr std::int64_t kMinPackedRightForFewRows = 1 << 17;  // elements

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

/// Cuts `total` into the fewest parts of at most `max` and gives the size of all but the last.
std::int64_t even_part(std::int64_t total, std::int64_t max, std::int64_t multiple) {
  return std::min(total, round_up(ceil_div(total, ceil_div(total, max)), multiple));
}

/// A right matrix in panels: one block of the depth after the other, all columns of each.
struct RightPanels {
  std::int64_t k, columns, depth;  // of the matrix, its columns with those that fill the last panel

  static RightPanels of(std::int64_t k, std::int64_t n, std::int64_t tile_columns) {
    return {k, round_up(n, tile_columns), even_part(std::max<std::int64_t>(k, 1), kMaxDepth, 4)};
  }
  std::int64_t floats() const { return k * columns + kPanelSlack; }
  /// Of a column that begins a panel, in the block of the depth that begins at `first`.
  std::int64_t at(std::int64_t column, std::int64_t first) const {
    return first * columns + column * std::min(depth, k - first);
  }
};

/// Rows and columns of a product that one thread computes.
struct Part {
  std::int64_t row, rows, column, columns;
};

struct PackedMatMul {
  MatMulProblem problem;
  PackedTile tile{};
  RightPanels panels{};  // of the whole right matrix; packed here or before, its depth is the same
  std::int64_t block_rows = 0, block_columns = 0;
  // Scratch of one thread. Results of half precision are rounded from sums of one block of rows
  // and columns, whose bias is converted.
  std::int64_t lhs_floats = 0, rhs_floats = 0, sum_floats = 0, bias_floats = 0;
  int num_threads = 1;
  // One product is cut into row_parts x column_parts. The parts share nothing that they write:
  // panels packed by another core come slower than packing them twice.
  std::int64_t row_parts = 1, column_parts = 1;

  struct Operands {
    const std::byte* lhs;
    const std::byte* rhs;
    const std::byte* bias;
    std::byte* out;
    std::byte* const* all;
    std::int64_t first_row = 0;  // among those of all products of the batch
  };

  bool is_half() const { return is_half_precision(problem.dtype); }
  std::int64_t bytes(std::int64_t elements) const {
    return elements * static_cast<std::int64_t>(dtype_bytes(problem.dtype));
  }

  std::int64_t thread_floats() const {
    return rhs_floats + lhs_floats + sum_floats + bias_floats +
           static_cast<std::int64_t>(problem.finish_scratch() / sizeof(float));
  }

  void pack_rhs(const Operands& at, std::int64_t column, std::int64_t columns, std::int64_t k,
                std::int64_t steps, float* to) const {
    const MatMulProblem& p = problem;
    const std::byte* first = at.rhs + bytes(k * p.rhs_row + column * p.rhs_column);
    pack_columns({first, p.dtype, p.rhs_column, p.rhs_row}, columns, steps, to);
  }

  void pack_lhs(const Operands& at, std::int64_t row, std::int64_t rows, std::int64_t k,
                std::int64_t steps, float* to) const {
    const MatMulProblem& p = problem;
    const std::byte* first = at.lhs + bytes(row * p.lhs_row + k * p.lhs_column);
    pack_rows({first, p.dtype, p.lhs_row, p.lhs_column}, rows, steps, to);
  }

  /// One block of columns and of the depth.
  void multiply_columns(const Operands& at, const Part& part, std::int64_t column,
                        std::int64_t columns, std::int64_t k, float* scratch) const {
    const MatMulProblem& p = problem;
    const std::int64_t steps = std::min(panels.depth, p.k - k);
    const float* packed_rhs = scratch;
    if (p.packed_right > 0) {
      packed_rhs = reinterpret_cast<const float*>(at.rhs) + panels.at(column, k);
    } else {
      pack_rhs(at, column, columns, k, steps, scratch);
    }
    float* packed_lhs = scratch + rhs_floats;
    const auto* bias = reinterpret_cast<const float*>(at.bias);
    auto* out = reinterpret_cast<float*>(at.out);
    for (std::int64_t row = part.row; row < part.row + part.rows; row += block_rows) {
      const std::int64_t rows = std::min(block_rows, part.row + part.rows - row);
      pack_lhs(at, row, rows, k, steps, packed_lhs);
      multiply_block({packed_lhs, packed_rhs, rows, columns, steps, out + row * p.out_row + column,
                      p.out_row, k == 0, bias == nullptr ? nullptr : bias + column});
      if (k + steps == p.k) {
        p.finish(at.all, reinterpret_cast<std::byte*>(packed_lhs + lhs_floats),
                 {at.first_row + row, rows, column, columns});
      }
    }
  }

  /// One block of columns of a product of half precision: each block of rows over the whole depth,
  /// so that its sums are rounded once. A deep rhs is packed again for each.
  void multiply_half_columns(const Operands& at, const Part& part, std::int64_t column,
                             std::int64_t columns, float* scratch) const {
    const MatMulProblem& p = problem;
    float* packed_lhs = scratch + rhs_floats;
    float* sums = packed_lhs + lhs_floats;
    float* bias = at.bias == nullptr ? nullptr : sums + sum_floats;
    if (bias != nullptr) {
      half_precision_to_floats(p.dtype, reinterpret_cast<const std::uint16_t*>(at.bias) + column,
                               bias, static_cast<std::size_t>(columns));
    }
    auto* out = reinterpret_cast<std::uint16_t*>(at.out);
    for (std::int64_t row = part.row; row < part.row + part.rows; row += block_rows) {
      const std::int64_t rows = std::min(block_rows, part.row + part.rows - row);
      for (std::int64_t k = 0; k < p.k; k += panels.depth) {
        const std::int64_t steps = std::min(panels.depth, p.k - k);
        if (row == part.row || p.k > panels.depth) pack_rhs(at, column, columns, k, steps, scratch);
        pack_lhs(at, row, rows, k, steps, packed_lhs);
        multiply_block({packed_lhs, scratch, rows, columns, steps, sums, columns, k == 0, bias});
      }
      for (std::int64_t r = 0; r < rows; ++r) {
        floats_to_half_precision(p.dtype, sums + r * columns, out + (row + r) * p.out_row + column,
                                 static_cast<std::size_t>(columns));
      }
    }
  }

  void multiply(const Operands& at, const Part& part, float* scratch) const {
    const std::int64_t end = part.column + part.columns;
    for (std::int64_t column = part.column; column < end; column += block_columns) {
      const std::int64_t columns = std::min(block_columns, end - column);
      if (is_half()) {
        multiply_half_columns(at, part, column, columns, scratch);
        continue;
      }
      for (std::int64_t k = 0; k < problem.k; k += panels.depth) {
        multiply_columns(at, part, column, columns, k, scratch);
      }
    }
  }

  /// Tile-aligned, nearly equal parts; some at the end may be empty.
  Part part(std::int64_t index) const {
    const auto cut = [](std::int64_t size, std::int64_t unit, std::int64_t parts, std::int64_t i) {
      const std::int64_t units = ceil_div(size, unit);
      return std::min(size, units * i / parts * unit);
    };
    const std::int64_t i = index / column_parts, j = index % column_parts;
    const std::int64_t row = cut(problem.m, tile.rows, row_parts, i);
    const std::int64_t column = cut(problem.n, tile.columns, column_parts, j);
    return {row, cut(problem.m, tile.rows, row_parts, i + 1) - row, column,
            cut(problem.n, tile.columns, column_parts, j + 1) - column};
  }

  Operands operands_of(const Operands& first, std::int64_t batch) const {
    Operands at = first;
    at.lhs += bytes(batch_offset(problem, problem.lhs_batch, batch));
    at.rhs += bytes(batch_offset(problem, problem.rhs_batch, batch));
    at.out += bytes(batch * problem.out_product);
    at.first_row = batch * problem.m;
    return at;
  }

  void operator()(std::byte* const* operands, std::byte* scratch) const {
    const Operands first{operands[0], operands[1], problem.has_bias ? operands[2] : nullptr,
                         operands[problem.out_operand()], operands};
    const std::int64_t parts = row_parts * column_parts;
    parallel_for(
        num_threads, problem.batch_count() * parts, 1, [&](std::int64_t begin, std::int64_t end) {
          auto* mine = reinterpret_cast<float*>(scratch) + thread_index() * thread_floats();
          for (std::int64_t i = begin; i < end; ++i) {
            multiply(operands_of(first, i / parts), part(i % parts), mine);
          }
        });
  }

  /// Cuts each product for the threads that its batch does not feed, with the least packing.
  void choose_parts() {
    const MatMulProblem& p = problem;
    const double flops = 2.0 * double(p.batch_count()) * double(p.m) * double(p.n) * double(p.k);
    const auto tasks = std::clamp<std::int64_t>(static_cast<std::int64_t>(flops / kMinFlopsPerTask),
                                                1, num_threads);
    num_threads = static_cast<int>(tasks);
    if (p.batch_count() % tasks == 0 || p.batch_count() >= 8 * tasks) return;
    std::int64_t least = -1;
    for (std::int64_t rows = 1; rows <= tasks; ++rows) {
      if (tasks % rows != 0) continue;
      const std::int64_t cost = round_up(ceil_div(p.m, rows), tile.rows) +
                                round_up(ceil_div(p.n, tasks / rows), tile.columns);
      if (least >= 0 && cost >= least) continue;
      least = cost;
      row_parts = rows;
      column_parts = tasks / rows;
    }
  }
};

/// Why the problem is none for it, or takes longer; "" otherwise.
std::string packed_fault(const MatMulProblem& p, const RightPanels& panels) {
  if (p.m * p.n * p.k * p.batch_count() == 0) return "empty product";
  if ((p.lhs_row != 1 && p.lhs_column != 1) || (p.rhs_row != 1 && p.rhs_column != 1)) {
    return "no unit stride in the last two dimensions";
  }
  const bool is_packed = p.packed_right > 0;
  if (is_packed && (!p.batch.empty() || p.packed_right != panels.floats())) {
    return str_cat("wanted a packed matrix of ", panels.floats(), " floats; given ",
                   p.packed_right);
  }
  if (p.m < kMinRows && !is_packed) return str_cat("fewer than ", kMinRows, " rows");
  if (p.n < kMinColumns) return str_cat("fewer than ", kMinColumns, " columns");
  if (p.k < kMinDepth) return str_cat("fewer than ", kMinDepth, " terms");
  if (p.m * p.n * p.k < kMinMultiplications) return "small";
  return packed_tile().columns > kMaxTileColumns && p.dtype == DType::Float32 ? "512-bit vectors"
                                                                              : "";
}

}  // namespace

KernelPlan plan_packed_matmul(const MatMulProblem& problem, int num_threads) {
  if (!is_half_or_single_precision(problem.dtype)) {
    return KernelPlan::reject("only half and single precision");
  }
  PackedMatMul matmul;
  matmul.problem = problem;
  const MatMulProblem& p = matmul.problem;
  matmul.tile = packed_tile();
  matmul.panels = RightPanels::of(p.k, p.n, matmul.tile.columns);
  if (std::string fault = packed_fault(p, matmul.panels); !fault.empty()) {
    return KernelPlan::reject(std::move(fault));
  }
  matmul.num_threads = num_threads;
  matmul.choose_parts();
  const std::int64_t most_rows = ceil_div(ceil_div(p.m, matmul.tile.rows), matmul.row_parts);
  const std::int64_t most_columns =
      ceil_div(ceil_div(p.n, matmul.tile.columns), matmul.column_parts);
  matmul.block_rows = even_part(most_rows * matmul.tile.rows, kMaxRows, matmul.tile.rows);
  matmul.block_columns =
      even_part(most_columns * matmul.tile.columns,
                matmul.is_half() ? kMaxHalfColumns : kMaxColumns, matmul.tile.columns);
  matmul.lhs_floats = round_up(
      round_up(matmul.block_rows, matmul.tile.rows) * matmul.panels.depth + kPanelSlack, 16);
  matmul.rhs_floats = round_up(
      round_up(matmul.block_columns, matmul.tile.columns) * matmul.panels.depth + kPanelSlack, 16);
  if (p.packed_right > 0) matmul.rhs_floats = 0;
  if (matmul.is_half()) {
    matmul.sum_floats = round_up(matmul.block_rows * matmul.block_columns, 16);
    matmul.bias_floats = p.has_bias ? round_up(matmul.block_columns, 16) : 0;
  }
  KernelPlan plan;
  plan.scratch_bytes =
      static_cast<std::size_t>(matmul.thread_floats() * matmul.num_threads) * sizeof(float);
  plan.detail = str_cat("tiles of ", matmul.tile.rows, " x ", matmul.tile.columns);
  if (p.packed_right > 0) plan.detail += ", right matrix packed before runs";
  if (matmul.is_half()) plan.detail += str_cat(", ", p.dtype, " converted where it is packed");
  plan.run = std::move(matmul);
  return plan;
}

std::optional<PreparedInput> packed_right(const KernelRequest& request) {
  MatMulProblem problem;
  if (!parse_matmul(request, problem).empty() || problem.packed_right > 0) return std::nullopt;
  if (problem.dtype != DType::Float32 || problem.bands.any() || !problem.batch.empty() ||
      problem.m < kFewestRowsForPackedRight || problem.m > kMostRowsForPackedRight) {
    return std::nullopt;
  }
  if (problem.m < kMinRows && problem.k * problem.n < kMinPackedRightForFewRows) {
    return std::nullopt;
  }
  const auto panels = RightPanels::of(problem.k, problem.n, packed_tile().columns);
  problem.packed_right = panels.floats();
  if (!plan_packed_matmul(problem, request.num_threads).rejection.empty()) return std::nullopt;
  const KernelSpec& spec = request.spec;
  const OperandDesc made = OperandDesc::contiguous(DType::Float32, {panels.floats()});
  PreparedInput prepared{1, {}, spec};
  prepared.maker.kind = "MatMulPackedRight";
  prepared.maker.inputs = {spec.inputs[1]};
  prepared.maker.outputs = {made};
  prepared.user.inputs[1] = made;
  prepared.user.attributes.set(KernelSpec::kPackedRight, Ints(spec.inputs[1].shape));
  prepared.restorer.emplace();
  prepared.restorer->kind = "MatMulUnpackedRight";
  prepared.restorer->inputs = {made};
  prepared.restorer->outputs = {spec.inputs[1]};
  return prepared;
}

namespace {

/// A right matrix and its panels.
struct PackedRight {
  std::int64_t n, row, column;  // columns; strides
  RightPanels panels;
  int threads;

  static PackedRight of(const OperandDesc& matrix, int threads) {
    const std::size_t rank = matrix.shape.size();
    const std::int64_t n = matrix.shape[rank - 1];
    return {n, matrix.strides[rank - 2], matrix.strides[rank - 1],
            RightPanels::of(matrix.shape[rank - 2], n, packed_tile().columns), threads};
  }

  /// Calls body(row, rows, column, columns) for blocks of the matrix whose panels lie one after the
  /// other.
  template <class Body>
  void for_blocks(const Body& body) const {
    const std::int64_t width = packed_tile().columns;
    for (std::int64_t first = 0; first < panels.k; first += panels.depth) {
      const std::int64_t rows = std::min(panels.depth, panels.k - first);
      parallel_for(threads, panels.columns / width, 1, [&](std::int64_t begin, std::int64_t end) {
        body(first, rows, begin * width, std::min(n, end * width) - begin * width);
      });
    }
  }
};

std::string packed_right_fault(const OperandDesc& matrix, const OperandDesc& packed) {
  if (!matrix.is_matrix() || matrix.dtype != DType::Float32) return "no float32 matrix";
  const std::int64_t floats = PackedRight::of(matrix, 1).panels.floats();
  if (num_elements(packed.shape) == floats) return "";
  return str_cat("wanted room for ", floats, " floats");
}

}  // namespace

KernelPlan make_packed_right(const KernelRequest& request) {
  std::string fault = packed_right_fault(request.input(0), request.output(0));
  if (!fault.empty()) return KernelPlan::reject(std::move(fault));
  KernelPlan plan;
  plan.run = [right = PackedRight::of(request.input(0), request.num_threads)](
                 std::byte* const* operands, std::byte*) {
    const auto* from = reinterpret_cast<const float*>(operands[0]);
    auto* to = reinterpret_cast<float*>(operands[1]);
    right.for_blocks(
        [&](std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
          const float* block = from + row * right.row + column * right.column;
          pack_columns({block, DType::Float32, right.column, right.row}, columns, rows,
                       to + right.panels.at(column, row));
        });
  };
  return plan;
}

KernelPlan make_unpacked_right(const KernelRequest& request) {
  std::string fault = packed_right_fault(request.output(0), request.input(0));
  if (!fault.empty()) return KernelPlan::reject(std::move(fault));
  KernelPlan plan;
  plan.run = [right = PackedRight::of(request.output(0), request.num_threads)](
                 std::byte* const* operands, std::byte*) {
    const auto* from = reinterpret_cast<const float*>(operands[0]);
    auto* to = reinterpret_cast<float*>(operands[1]);
    right.for_blocks(
        [&](std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
          float* block = to + row * right.row + column * right.column;
          unpack_columns(from + right.panels.at(column, row), columns, rows,
                         {block, right.column, right.row});
        });
  };
  return plan;
}

}  // namespace pando::cpu
