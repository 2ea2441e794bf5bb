#include <algorithm>
#include <array>
#include <memory>

#include "pando/backends/cpu/kernels/matmul.hpp"
#include "pando/backends/cpu/onednn/onednn.hpp"
#include "pando/backends/cpu/parallel.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

using dnnl::memory;

/// Functions that oneDNN applies itself, as the programs that pando/ops/activation.cpp makes.
struct KnownFunction {
  dnnl::algorithm algorithm;
  float alpha;
  ScalarValue (*emit)(ScalarEmitter& e, ScalarValue x);
};

ScalarValue emit_sigmoid(ScalarEmitter& e, ScalarValue x) { return e.emit(ScalarOp::Sigmoid, x); }
ScalarValue emit_swish(ScalarEmitter& e, ScalarValue x) {
  return e.emit(ScalarOp::Mul, x, emit_sigmoid(e, x));
}
ScalarValue emit_gelu(ScalarEmitter& e, ScalarValue x) {
  const ScalarValue cubic =
      e.emit(ScalarOp::Mul, e.constant(0.044715), e.emit(ScalarOp::Mul, x, x));
  const ScalarValue scaled = e.emit(ScalarOp::Mul, e.constant(2.0 * 0.79788456080286535588), x);
  const ScalarValue sum = e.emit(ScalarOp::Add, e.constant(1.0), cubic);
  return e.emit(ScalarOp::Mul, x, emit_sigmoid(e, e.emit(ScalarOp::Mul, scaled, sum)));
}

constexpr std::array<KnownFunction, 5> kKnownFunctions = {
    {{dnnl::algorithm::eltwise_relu, 0.f,
      [](ScalarEmitter& e, ScalarValue x) { return e.emit(ScalarOp::Max, x, e.constant(0.0)); }},
     {dnnl::algorithm::eltwise_tanh, 0.f,
      [](ScalarEmitter& e, ScalarValue x) { return e.emit(ScalarOp::Tanh, x); }},
     {dnnl::algorithm::eltwise_logistic, 0.f, emit_sigmoid},
     {dnnl::algorithm::eltwise_swish, 1.f, emit_swish},
     {dnnl::algorithm::eltwise_gelu_tanh, 0.f, emit_gelu}}};

/// Whether two values are computed alike, in whatever order.
bool is_alike(const ScalarProgram& a, ScalarValue x, const ScalarProgram& b, ScalarValue y) {
  if (x == kNoValue || y == kNoValue) return x == y;
  ScalarInstruction one = a.instructions[static_cast<std::size_t>(x)];
  const ScalarInstruction& other = b.instructions[static_cast<std::size_t>(y)];
  if (!is_alike(a, one.a, b, other.a) || !is_alike(a, one.b, b, other.b) ||
      !is_alike(a, one.c, b, other.c)) {
    return false;
  }
  one.a = other.a, one.b = other.b, one.c = other.c;
  return one == other;
}

/// nullptr where the epilogue is something else.
const KnownFunction* known_function(const MatMulProblem& problem) {
  // Larger programs are none of these, and comparing their values may take long.
  constexpr std::size_t kMostInstructions = 16;
  if (problem.epilogue == nullptr || !problem.epilogue->is_in_place) return nullptr;
  const ScalarProgram& program = problem.epilogue->spec.scalar;
  if (program.instructions.size() > kMostInstructions) return nullptr;
  for (const KnownFunction& function : kKnownFunctions) {
    ScalarProgram known;
    ScalarEmitter e(known);
    e.store(0, function.emit(e, e.load(0, DType::Float32)), DType::Float32);
    if (is_alike(program, static_cast<ScalarValue>(program.instructions.size()) - 1, known,
                 static_cast<ScalarValue>(known.instructions.size()) - 1)) {
      return &function;
    }
  }
  return nullptr;
}

/// Dimensions broadcast with stride 0 have size 1 for oneDNN.
memory::desc matrix_desc(DType dtype, const Shape& batch, const Strides& batch_strides,
                         std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                         std::int64_t column_stride) {
  Shape shape;
  Strides strides;
  const std::int64_t matrix = rows * columns;
  for (std::size_t d = 0; d < batch.size(); ++d) {
    const bool repeated = batch_strides[d] == 0;
    shape.push_back(repeated ? 1 : batch[d]);
    strides.push_back(repeated ? matrix : batch_strides[d]);
  }
  shape.insert(shape.end(), {rows, columns});
  strides.insert(strides.end(), {row_stride, column_stride});
  return onednn_desc(dtype, shape, strides);
}

/// One primitive on one thread, for a part of the product.
struct MatMulPart {
  std::shared_ptr<const OnednnPrimitive> primitive;
  // Elements from the operands to those of the part.
  std::int64_t lhs = 0, rhs = 0, bias = 0, out = 0;
  MatrixPart result;  // rows of all products of the batch
  std::string detail;
  std::size_t scratch_bytes = 0;
};

MatMulPart make_part(const MatMulProblem& p) {
  Shape out_shape = p.batch;
  Strides out_strides = contiguous_strides(p.batch);
  for (std::int64_t& stride : out_strides) stride *= p.out_product;
  out_shape.insert(out_shape.end(), {p.m, p.n});
  out_strides.insert(out_strides.end(), {p.out_row, 1});
  const memory::desc lhs =
      matrix_desc(p.dtype, p.batch, p.lhs_batch, p.m, p.k, p.lhs_row, p.lhs_column);
  const memory::desc rhs =
      matrix_desc(p.dtype, p.batch, p.rhs_batch, p.k, p.n, p.rhs_row, p.rhs_column);
  const memory::desc out = onednn_desc(p.dtype, out_shape, out_strides);
  Shape bias_shape(p.batch.size() + 1, 1);
  bias_shape.push_back(p.n);
  const memory::desc bias = onednn_desc(p.dtype, bias_shape, contiguous_strides(bias_shape));
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (const KnownFunction* function = known_function(p)) {
    dnnl::post_ops ops;
    ops.append_eltwise(function->algorithm, function->alpha, 0.f);
    attributes.set_post_ops(ops);
  }
  const dnnl::engine& engine = onednn_engine();
  const dnnl::matmul::primitive_desc desc =
      p.has_bias ? dnnl::matmul::primitive_desc(engine, lhs, rhs, bias, out, attributes)
                 : dnnl::matmul::primitive_desc(engine, lhs, rhs, out, attributes);
  std::vector<OnednnPrimitive::Argument> arguments = {{DNNL_ARG_SRC, lhs}, {DNNL_ARG_WEIGHTS, rhs}};
  if (p.has_bias) arguments.push_back({DNNL_ARG_BIAS, bias});
  arguments.push_back({DNNL_ARG_DST, out});
  arguments.push_back({DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()});
  MatMulPart part;
  part.primitive = std::make_shared<OnednnPrimitive>(dnnl::matmul(desc), std::move(arguments));
  part.detail = desc.impl_info_str();
  part.scratch_bytes = desc.scratchpad_desc().get_size();
  return part;
}

/// Parts of one product, of which each thread runs equally many.
struct MatMulParts {
  std::vector<MatMulPart> parts;
  std::int64_t threads = 1;
  std::size_t scratch_bytes = 0;  // of one thread, whose parts run after each other
  bool finishes = false;          // an epilogue that oneDNN does not apply itself

  std::int64_t per_thread() const { return static_cast<std::int64_t>(parts.size()) / threads; }
};

/// Columns of a thread are cut further where oneDNN would pack megabytes of them on the heap.
std::int64_t column_parts(std::int64_t columns, std::int64_t threads) {
  constexpr std::int64_t kWide = 4096, kMostColumns = 2048;
  const std::int64_t per_thread = columns / threads;
  if (threads == 1 || per_thread < kWide) return threads;
  return threads * ((per_thread + kMostColumns - 1) / kMostColumns);
}

/// Cuts the outermost dimension that feeds the threads: batch, then the longer side.
MatMulParts make_parts(const MatMulProblem& p, std::int64_t threads) {
  constexpr double kMinFlopsPerPart = 3e5;
  const double flops = 2.0 * double(p.batch_count()) * double(p.m) * double(p.n) * double(p.k);
  const std::int64_t wanted =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(flops / kMinFlopsPerPart), 1, threads);
  const bool by_batch = !p.batch.empty() && p.batch[0] >= wanted;
  const bool by_rows = !by_batch && p.m >= p.n;
  const std::int64_t size = by_batch ? p.batch[0] : by_rows ? p.m : p.n;
  const bool whole = wanted == 1 || (!by_batch && !p.batch.empty());
  MatMulParts made;
  made.threads = whole ? 1 : std::min(wanted, size);
  made.finishes = p.epilogue != nullptr && known_function(p) == nullptr;
  const bool by_columns = !by_batch && !by_rows && p.batch.empty();
  const std::int64_t count = by_columns ? column_parts(size, made.threads) : made.threads;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t begin = size * i / count, length = size * (i + 1) / count - begin;
    MatMulProblem piece = p;
    (by_batch ? piece.batch[0] : by_rows ? piece.m : piece.n) = length;
    MatMulPart part = make_part(piece);
    part.lhs = begin * (by_batch ? p.lhs_batch[0] : by_rows ? p.lhs_row : 0);
    part.rhs = begin * (by_batch ? p.rhs_batch[0] : by_rows ? 0 : p.rhs_column);
    part.bias = by_batch || by_rows ? 0 : begin;
    part.out = begin * (by_batch  ? p.batch_count() / p.batch[0] * p.out_product
                        : by_rows ? p.out_row
                                  : 1);
    part.result = {0, p.batch_count() * p.m, 0, p.n};
    if (by_batch || by_rows) {
      const std::int64_t rows = part.result.rows / size;
      part.result.row = begin * rows;
      part.result.rows = length * rows;
    } else {
      part.result.column = begin;
      part.result.columns = length;
    }
    made.scratch_bytes =
        std::max(made.scratch_bytes, scratch_aligned(part.scratch_bytes) + p.finish_scratch());
    made.parts.push_back(std::move(part));
  }
  return made;
}

void run_part(const MatMulPart& part, const MatMulProblem& p, std::byte* const* operands,
              std::byte* scratch) {
  const auto at = [&](std::size_t operand, std::int64_t elements) -> void* {
    return operands[operand] + elements * static_cast<std::int64_t>(dtype_bytes(p.dtype));
  };
  std::array<void*, 5> pointers = {at(0, part.lhs), at(1, part.rhs)};
  std::size_t next = 2;
  if (p.has_bias) pointers[next++] = at(2, part.bias);
  pointers[next] = at(next, part.out);
  pointers[next + 1] = scratch;
  part.primitive->run(pointers.data());
}

void run_parts(const MatMulParts& made, const MatMulProblem& p, std::byte* const* operands,
               std::byte* scratch) {
  // Epilogues run by whole rows, which are faster than the windows that threads have where they
  // share the columns (docs/decisions/0017).
  const bool finishes_parts = made.finishes && made.parts.front().result.columns == p.n;
  const auto for_each_thread = [&](const auto& body) {
    parallel_for(static_cast<int>(made.threads), made.threads, 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t thread = begin; thread < end; ++thread) {
                     body(thread, scratch + static_cast<std::size_t>(thread) * made.scratch_bytes);
                   }
                 });
  };
  for_each_thread([&](std::int64_t thread, std::byte* own) {
    for (std::int64_t i = 0; i < made.per_thread(); ++i) {
      const MatMulPart& part = made.parts[static_cast<std::size_t>(thread * made.per_thread() + i)];
      run_part(part, p, operands, own);
      if (finishes_parts) {
        p.finish(operands, own + scratch_aligned(part.scratch_bytes), part.result);
      }
    }
  });
  if (!made.finishes || finishes_parts) return;
  const std::int64_t rows = p.batch_count() * p.m;
  for_each_thread([&](std::int64_t thread, std::byte* own) {
    const std::int64_t first = rows * thread / made.threads;
    const std::int64_t last = rows * (thread + 1) / made.threads;
    p.finish(operands, own, {first, last - first, 0, p.n});
  });
}

}  // namespace

KernelPlan plan_onednn_matmul(const MatMulProblem& problem, int num_threads) {
  const MatMulProblem& p = problem;
  if (!onednn_multiplies(p.dtype)) {
    return KernelPlan::reject(str_cat("no instructions for products of ", p.dtype));
  }
  if (p.m * p.n * p.k * p.batch_count() == 0) return KernelPlan::reject("empty product");
  if (p.batch.size() > 4) return KernelPlan::reject("more than 4 batch dimensions");
  const auto negative = [](std::int64_t stride) { return stride < 0; };
  if (std::any_of(p.lhs_batch.begin(), p.lhs_batch.end(), negative) ||
      std::any_of(p.rhs_batch.begin(), p.rhs_batch.end(), negative)) {
    return KernelPlan::reject("a batch that runs backwards");
  }
  if (std::min({p.lhs_row, p.lhs_column, p.rhs_row, p.rhs_column}) < 0) {
    return KernelPlan::reject("rows or columns that run backwards");
  }
  if ((p.lhs_row != 1 && p.lhs_column != 1) || (p.rhs_row != 1 && p.rhs_column != 1)) {
    return KernelPlan::reject("no unit stride in the last two dimensions");
  }
  const SingleThreaded single;
  try {
    MatMulParts made = make_parts(p, num_threads);
    KernelPlan plan;
    plan.detail = made.parts.front().detail;
    plan.scratch_bytes = made.scratch_bytes * static_cast<std::size_t>(made.threads);
    plan.run = [made = std::move(made), p](std::byte* const* operands, std::byte* scratch) {
      run_parts(made, p, operands, scratch);
    };
    return plan;
  } catch (const dnnl::error& error) {
    return KernelPlan::reject(str_cat("oneDNN: ", error.what()));
  }
}

}  // namespace pando::cpu
