// Fused kernels against what the machine can do: pointwise chains against memcpy, the Adam update
// against one loop written by hand with AVX2 intrinsics; both as machine code and as micro-ops.
#include <benchmark/benchmark.h>
#include <immintrin.h>
#include <omp.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "pando/backends/cpu/fused/fused_kernel.hpp"
#include "pando/base/float_state.hpp"
#include "pando/base/half.hpp"

namespace {

using namespace pando;

struct Buffer {
  explicit Buffer(std::size_t bytes) : lines((bytes + 63) / 64 + 1) {}
  std::byte* data() { return reinterpret_cast<std::byte*>(lines.data()); }
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  std::vector<Line> lines;
};

void run_kernel(benchmark::State& state, const KernelSpec& spec, int threads,
                std::vector<Buffer>& buffers, const std::vector<int>& order, double bytes,
                MachineCode machine_code = MachineCode::Automatic) {
  const auto kernel = cpu::make_fused_kernel(spec, threads, machine_code);
  Buffer scratch(kernel->scratch_bytes());
  std::vector<std::byte*> operands;
  operands.reserve(order.size());
  for (int i : order) operands.push_back(buffers[static_cast<std::size_t>(i)].data());
  const FlushDenormals flush;  // as while a program runs
  for (auto _ : state) {
    kernel->run(operands.data(), scratch.data());
    benchmark::ClobberMemory();
  }
  state.counters["GB/s"] = benchmark::Counter(
      bytes * static_cast<double>(state.iterations()) * 1e-9, benchmark::Counter::kIsRate);
}

/// y = max(a * x + b, 0) with constants: one read, one write.
KernelSpec chain_spec(std::int64_t n) {
  KernelSpec spec;
  spec.kind = "Fused";
  spec.inputs = {OperandDesc::contiguous(DType::Float32, {n})};
  spec.outputs = spec.inputs;
  ScalarEmitter e(spec.scalar);
  const ScalarValue x = e.load(0, DType::Float32);
  const ScalarValue ax = e.emit(ScalarOp::Mul, x, e.constant(1.5));
  const ScalarValue sum = e.emit(ScalarOp::Add, ax, e.constant(0.25));
  e.store(0, e.emit(ScalarOp::Max, sum, e.constant(0.0)), DType::Float32);
  return spec;
}

/// The light chain of the table: relu(x * a + b) * c + x * 0.5 - 1 with vectors for every row.
KernelSpec light_spec(std::int64_t rows) {
  constexpr std::int64_t kRow = 1024;
  KernelSpec spec;
  spec.kind = "Fused";
  spec.inputs.push_back(OperandDesc::contiguous(DType::Float32, {rows, kRow}));
  for (int i = 0; i < 3; ++i) spec.inputs.push_back({DType::Float32, {rows, kRow}, {0, 1}});
  spec.outputs = {spec.inputs[0]};
  ScalarEmitter e(spec.scalar);
  const auto load = [&](int i) { return e.load(i, DType::Float32); };
  const ScalarValue x = load(0);
  const ScalarValue sum = e.emit(ScalarOp::Add, e.emit(ScalarOp::Mul, x, load(1)), load(2));
  const ScalarValue relu = e.emit(ScalarOp::Max, sum, e.constant(0.0));
  const ScalarValue half = e.emit(ScalarOp::Mul, x, e.constant(0.5));
  const ScalarValue last = e.emit(ScalarOp::Add, e.emit(ScalarOp::Mul, relu, load(3)), half);
  e.store(0, e.emit(ScalarOp::Sub, last, e.constant(1.0)), DType::Float32);
  return spec;
}

/// The GELU chain of the table: gelu(x * a + b) * c + x with vectors for every row.
KernelSpec gelu_spec(std::int64_t rows) {
  KernelSpec spec = light_spec(rows);
  spec.scalar = {};
  ScalarEmitter e(spec.scalar);
  const auto load = [&](int i) { return e.load(i, DType::Float32); };
  const ScalarValue x = load(0);
  const ScalarValue sum = e.emit(ScalarOp::Add, e.emit(ScalarOp::Mul, x, load(1)), load(2));
  const ScalarValue square = e.emit(ScalarOp::Mul, sum, sum);
  const ScalarValue cubic = e.emit(ScalarOp::Fma, square, e.constant(0.044715), e.constant(1.0));
  const ScalarValue twice_u =
      e.emit(ScalarOp::Mul, e.emit(ScalarOp::Mul, sum, e.constant(1.5957691216057308)), cubic);
  const ScalarValue gelu = e.emit(ScalarOp::Mul, sum, e.emit(ScalarOp::Sigmoid, twice_u));
  e.store(0, e.emit(ScalarOp::Add, e.emit(ScalarOp::Mul, gelu, load(3)), x), DType::Float32);
  return spec;
}

void row_chain(benchmark::State& state, KernelSpec (*make)(std::int64_t rows),
               MachineCode machine_code) {
  const std::int64_t n = state.range(0) * (1 << 20) / 4;
  std::vector<Buffer> buffers;
  buffers.reserve(5);
  buffers.emplace_back(static_cast<std::size_t>(n) * 4);
  for (int i = 0; i < 3; ++i) buffers.emplace_back(4096);
  buffers.emplace_back(static_cast<std::size_t>(n) * 4);
  run_kernel(state, make(n / 1024), static_cast<int>(state.range(1)), buffers, {0, 1, 2, 3, 4},
             8.0 * static_cast<double>(n), machine_code);
}

void light_chain(benchmark::State& state, MachineCode machine_code) {
  row_chain(state, light_spec, machine_code);
}

void gelu_chain(benchmark::State& state, MachineCode machine_code) {
  row_chain(state, gelu_spec, machine_code);
}

void pointwise_chain(benchmark::State& state) {
  const std::int64_t n = state.range(0) * (1 << 20) / 4;
  std::vector<Buffer> buffers;
  buffers.reserve(2);
  for (int i = 0; i < 2; ++i) buffers.emplace_back(static_cast<std::size_t>(n) * 4);
  run_kernel(state, chain_spec(n), static_cast<int>(state.range(1)), buffers, {0, 1},
             8.0 * static_cast<double>(n));
}

void copy_by_memcpy(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0)) << 20;
  Buffer from(bytes), to(bytes);
  const int threads = static_cast<int>(state.range(1));
  for (auto _ : state) {
#pragma omp parallel num_threads(threads)
    {
      const std::size_t part = bytes / static_cast<std::size_t>(threads);
      const std::size_t at = part * static_cast<std::size_t>(omp_get_thread_num());
      std::memcpy(to.data() + at, from.data() + at, part);
    }
    benchmark::ClobberMemory();
  }
  state.counters["GB/s"] = benchmark::Counter(
      2.0 * static_cast<double>(bytes) * static_cast<double>(state.iterations()) * 1e-9,
      benchmark::Counter::kIsRate);
}

constexpr std::int64_t kParameters = 932362;
constexpr float kBeta1 = 0.9f, kBeta2 = 0.999f, kRate = 0.001f, kEpsilon = 1e-7f;
// Bytes per parameter: w, m (float16), v, g read; w, m, v written.
constexpr double kAdamBytes = 4 + 2 + 4 + 4 + 4 + 2 + 4;

/// m = f16(f16(f16(b1 * m) + f16((1 - b1) * f16(g)))), v = b2 * v + ((1 - b2) * g) * g,
/// w = w - rate * (m * c1 / (sqrt(v) * c2 + epsilon)).
KernelSpec adam_spec() {
  KernelSpec spec;
  spec.kind = "Fused";
  const auto desc = [](DType dtype) { return OperandDesc::contiguous(dtype, {kParameters}); };
  spec.inputs = {desc(DType::Float32), desc(DType::Float16), desc(DType::Float32),
                 desc(DType::Float32)};
  spec.outputs = {desc(DType::Float32), desc(DType::Float16), desc(DType::Float32)};
  ScalarEmitter e(spec.scalar);
  const auto c = [&](float value) { return e.constant(value); };
  const auto half = [&](ScalarValue v) { return e.as_dtype(v, DType::Float16); };
  const ScalarValue w = e.load(0, DType::Float32), m = e.load(1, DType::Float16);
  const ScalarValue v = e.load(2, DType::Float32), g = e.load(3, DType::Float32);
  const ScalarValue kept = half(e.emit(ScalarOp::Mul, c(kBeta1), m));
  const ScalarValue added = half(e.emit(ScalarOp::Mul, c(1 - kBeta1), half(g)));
  const ScalarValue new_m = half(e.emit(ScalarOp::Add, kept, added));
  const ScalarValue square = e.emit(ScalarOp::Mul, e.emit(ScalarOp::Mul, c(1 - kBeta2), g), g);
  const ScalarValue new_v = e.emit(ScalarOp::Add, e.emit(ScalarOp::Mul, c(kBeta2), v), square);
  const ScalarValue root = e.emit(ScalarOp::Sqrt, new_v);
  const ScalarValue x = e.emit(ScalarOp::Div, e.emit(ScalarOp::Mul, new_m, c(1.25f)),
                               e.emit(ScalarOp::Fma, root, c(1.5f), c(kEpsilon)));
  const ScalarValue new_w = e.emit(ScalarOp::Sub, w, e.emit(ScalarOp::Mul, c(kRate), x));
  e.store(0, new_w, DType::Float32);
  e.store(1, new_m, DType::Float16);
  e.store(2, new_v, DType::Float32);
  return spec;
}

/// Float32 moments that are divided by bias corrections, which all elements share:
/// w = w - rate * ((m / c1) / (sqrt(v / c2) + epsilon)). Inputs 4 and 5 are c1 and c2.
KernelSpec corrected_adam_spec(std::int64_t parameters) {
  KernelSpec spec;
  spec.kind = "Fused";
  const OperandDesc each = OperandDesc::contiguous(DType::Float32, {parameters});
  const OperandDesc shared = {DType::Float32, {parameters}, {0}};
  spec.inputs = {each, each, each, each, shared, shared};
  spec.outputs = {each, each, each};
  ScalarEmitter e(spec.scalar);
  const auto load = [&](int i) { return e.load(i, DType::Float32); };
  const auto mul = [&](ScalarValue a, ScalarValue b) { return e.emit(ScalarOp::Mul, a, b); };
  const auto add = [&](ScalarValue a, ScalarValue b) { return e.emit(ScalarOp::Add, a, b); };
  const auto c = [&](float value) { return e.constant(value); };
  const ScalarValue g = load(3);
  const ScalarValue m = add(mul(c(kBeta1), load(1)), mul(c(1 - kBeta1), g));
  const ScalarValue v = add(mul(c(kBeta2), load(2)), mul(mul(c(1 - kBeta2), g), g));
  const ScalarValue root = e.emit(ScalarOp::Sqrt, e.emit(ScalarOp::Div, v, load(5)));
  const ScalarValue x =
      e.emit(ScalarOp::Div, e.emit(ScalarOp::Div, m, load(4)), add(root, c(kEpsilon)));
  e.store(0, e.emit(ScalarOp::Sub, load(0), mul(c(kRate), x)), DType::Float32);
  e.store(1, m, DType::Float32);
  e.store(2, v, DType::Float32);
  return spec;
}

void adam_corrected(benchmark::State& state, MachineCode machine_code) {
  const std::int64_t count = state.range(0);
  std::vector<Buffer> buffers;
  buffers.reserve(6);
  for (int i = 0; i < 4; ++i) buffers.emplace_back(static_cast<std::size_t>(count) * 4);
  for (Buffer& buffer : buffers) {
    for (std::int64_t i = 0; i < count; ++i) {
      reinterpret_cast<float*>(buffer.data())[i] = static_cast<float>((i * 7919) % 1000) * 1e-4f;
    }
  }
  for (float correction : {0.271f, 0.003f}) {
    reinterpret_cast<float*>(buffers.emplace_back(4).data())[0] = correction;
  }
  run_kernel(state, corrected_adam_spec(count), static_cast<int>(state.range(1)), buffers,
             {0, 1, 2, 3, 4, 5, 0, 1, 2}, 28.0 * static_cast<double>(count), machine_code);
}

/// adam_spec() on a weight of (784, 512) whose gradient is a product over a batch of eight.
constexpr std::int64_t kRows = 784, kColumns = 512, kBatch = 8;
KernelSpec adam_of_product_spec() {
  KernelSpec spec = adam_spec();
  for (auto* operands : {&spec.inputs, &spec.outputs}) {
    for (OperandDesc& operand : *operands) {
      operand = OperandDesc::contiguous(operand.dtype, {kRows, kColumns});
    }
  }
  spec.products = {{3, 4, 5}};
  spec.inputs.push_back({DType::Float32, {kRows, kBatch}, {1, kRows}});
  spec.inputs.push_back(OperandDesc::contiguous(DType::Float32, {kBatch, kColumns}));
  return spec;
}

struct AdamState {
  AdamState() : w(kParameters * 4), m(kParameters * 2), v(kParameters * 4), g(kParameters * 4) {
    for (std::int64_t i = 0; i < kParameters; ++i) {
      const float value = static_cast<float>((i * 7919) % 1000) * 1e-3f;
      reinterpret_cast<float*>(w.data())[i] = value - 0.5f;
      reinterpret_cast<std::uint16_t*>(m.data())[i] = float_to_half(value * 0.01f);
      reinterpret_cast<float*>(v.data())[i] = value * 0.02f + 1e-4f;
      reinterpret_cast<float*>(g.data())[i] = 0.50025f - value;
    }
  }
  Buffer w, m, v, g;
};

void adam_fused(benchmark::State& state, MachineCode machine_code) {
  AdamState adam;
  std::vector<Buffer> buffers = {adam.w, adam.m, adam.v, adam.g};
  run_kernel(state, adam_spec(), static_cast<int>(state.range(0)), buffers, {0, 1, 2, 3, 0, 1, 2},
             kAdamBytes * kParameters, machine_code);
}

void adam_of_product(benchmark::State& state, MachineCode machine_code) {
  AdamState adam;
  std::vector<Buffer> buffers = {adam.w, adam.m, adam.v, adam.g};
  run_kernel(state, adam_of_product_spec(), static_cast<int>(state.range(0)), buffers,
             {0, 1, 2, 3, 3, 3, 0, 1, 2}, (kAdamBytes - 4) * kRows * kColumns, machine_code);
}

__attribute__((target("avx2,fma,f16c"))) __m256 round_half(__m256 v) {
  return _mm256_cvtph_ps(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

/// The same arithmetic on [begin, end), a multiple of 8 long.
__attribute__((target("avx2,fma,f16c"))) void adam_by_hand(float* w, std::uint16_t* m, float* v,
                                                           const float* g, std::int64_t begin,
                                                           std::int64_t end) {
  const __m256 b1 = _mm256_set1_ps(kBeta1), b1_rest = _mm256_set1_ps(1 - kBeta1);
  const __m256 b2 = _mm256_set1_ps(kBeta2), b2_rest = _mm256_set1_ps(1 - kBeta2);
  const __m256 c1 = _mm256_set1_ps(1.25f), c2 = _mm256_set1_ps(1.5f);
  const __m256 rate = _mm256_set1_ps(kRate), epsilon = _mm256_set1_ps(kEpsilon);
  for (std::int64_t i = begin; i < end; i += 8) {
    const __m256 gradient = _mm256_loadu_ps(g + i);
    const __m256 old_m = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(m + i)));
    const __m256 kept = round_half(_mm256_mul_ps(b1, old_m));
    const __m256 added = round_half(_mm256_mul_ps(b1_rest, round_half(gradient)));
    const __m128i half_m = _mm256_cvtps_ph(_mm256_add_ps(kept, added), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(m + i), half_m);
    const __m256 square = _mm256_mul_ps(_mm256_mul_ps(b2_rest, gradient), gradient);
    const __m256 new_v = _mm256_add_ps(_mm256_mul_ps(b2, _mm256_loadu_ps(v + i)), square);
    _mm256_storeu_ps(v + i, new_v);
    const __m256 denominator = _mm256_fmadd_ps(_mm256_sqrt_ps(new_v), c2, epsilon);
    const __m256 x = _mm256_div_ps(_mm256_mul_ps(_mm256_cvtph_ps(half_m), c1), denominator);
    _mm256_storeu_ps(w + i, _mm256_sub_ps(_mm256_loadu_ps(w + i), _mm256_mul_ps(rate, x)));
  }
}

void adam_hand_written(benchmark::State& state) {
  if (!__builtin_cpu_supports("avx2")) return state.SkipWithError("no AVX2 on this machine");
  AdamState adam;
  const int threads = static_cast<int>(state.range(0));
  const std::int64_t count = kParameters / 8 * 8;
  for (auto _ : state) {
#pragma omp parallel num_threads(threads)
    {
      const std::int64_t vectors = count / 8;
      const std::int64_t thread = omp_get_thread_num();
      adam_by_hand(
          reinterpret_cast<float*>(adam.w.data()), reinterpret_cast<std::uint16_t*>(adam.m.data()),
          reinterpret_cast<float*>(adam.v.data()), reinterpret_cast<const float*>(adam.g.data()),
          vectors * thread / threads * 8, vectors * (thread + 1) / threads * 8);
    }
    benchmark::ClobberMemory();
  }
  state.counters["GB/s"] =
      benchmark::Counter(kAdamBytes * kParameters * static_cast<double>(state.iterations()) * 1e-9,
                         benchmark::Counter::kIsRate);
}

void prepare_adam(benchmark::State& state, MachineCode machine_code) {
  const KernelSpec spec = adam_spec();
  for (auto _ : state) benchmark::DoNotOptimize(cpu::make_fused_kernel(spec, 2, machine_code));
}

void transpose(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  KernelSpec spec;
  spec.kind = "Copy";
  spec.inputs = {{DType::Float32, {n, n}, {1, n}}};
  spec.outputs = {OperandDesc::contiguous(DType::Float32, {n, n})};
  std::vector<Buffer> buffers;
  buffers.reserve(2);
  for (int i = 0; i < 2; ++i) buffers.emplace_back(static_cast<std::size_t>(n * n) * 4);
  run_kernel(state, spec, 1, buffers, {0, 1}, 8.0 * static_cast<double>(n * n));
}

/// (M, N) + (N,), then sigmoid: a tile op and a broadcast operand.
void bias_sigmoid(benchmark::State& state) {
  const std::int64_t rows = 256, columns = state.range(0);
  KernelSpec spec;
  spec.kind = "Fused";
  spec.inputs = {OperandDesc::contiguous(DType::Float32, {rows, columns}),
                 {DType::Float32, {rows, columns}, {0, 1}}};
  spec.outputs = {spec.inputs[0]};
  ScalarEmitter e(spec.scalar);
  const ScalarValue sum =
      e.emit(ScalarOp::Add, e.load(0, DType::Float32), e.load(1, DType::Float32));
  e.store(0, e.emit(ScalarOp::Sigmoid, sum), DType::Float32);
  std::vector<Buffer> buffers;
  buffers.reserve(3);
  for (int i = 0; i < 3; ++i) buffers.emplace_back(static_cast<std::size_t>(rows * columns) * 4);
  run_kernel(state, spec, 1, buffers, {0, 1, 2}, 8.0 * static_cast<double>(rows * columns));
}

constexpr auto kCompiled = MachineCode::Always, kMicroOps = MachineCode::Never;
BENCHMARK_CAPTURE(light_chain, compiled, kCompiled)
    ->ArgsProduct({{1, 16, 64}, {1, 2}})
    ->UseRealTime();
BENCHMARK_CAPTURE(light_chain, micro_ops, kMicroOps)
    ->ArgsProduct({{1, 16, 64}, {1, 2}})
    ->UseRealTime();
BENCHMARK_CAPTURE(gelu_chain, compiled, kCompiled)
    ->ArgsProduct({{1, 16, 64}, {1, 2}})
    ->UseRealTime();
BENCHMARK_CAPTURE(gelu_chain, micro_ops, kMicroOps)
    ->ArgsProduct({{1, 16, 64}, {1, 2}})
    ->UseRealTime();
BENCHMARK(pointwise_chain)->ArgsProduct({{1, 16, 64}, {1, 2}})->UseRealTime();
BENCHMARK(copy_by_memcpy)->ArgsProduct({{1, 16, 64}, {1, 2}})->UseRealTime();
BENCHMARK_CAPTURE(adam_fused, compiled, kCompiled)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(adam_fused, micro_ops, kMicroOps)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(adam_corrected, compiled, kCompiled)
    ->ArgsProduct({{16384, 262144, kParameters}, {1, 2}})
    ->UseRealTime();
BENCHMARK_CAPTURE(adam_corrected, micro_ops, kMicroOps)
    ->ArgsProduct({{16384, 262144, kParameters}, {1, 2}})
    ->UseRealTime();
BENCHMARK_CAPTURE(adam_of_product, compiled, kCompiled)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(adam_of_product, micro_ops, kMicroOps)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK(adam_hand_written)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(prepare_adam, compiled, kCompiled);
BENCHMARK_CAPTURE(prepare_adam, micro_ops, kMicroOps);
BENCHMARK(transpose)->Arg(512)->Arg(2048);
BENCHMARK(bias_sigmoid)->Arg(512)->Arg(10);

}  // namespace
