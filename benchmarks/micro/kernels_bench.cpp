// Single kernels against what they could reach: the raw oneDNN primitive for products, a memory
// copy for row kernels.
#include <benchmark/benchmark.h>
#include <omp.h>

#include <cstring>
#include <dnnl.hpp>
#include <memory>
#include <unordered_map>
#include <vector>

#include "pando/backends/cpu/cpu_target.hpp"

namespace {

using pando::OperandDesc;

/// Memory of 64-byte alignment, filled with a small value.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes, float value = 0.5f)
      : memory_(static_cast<float*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64))) {
    std::fill_n(memory_.get(), (bytes + 3) / 4, value);
  }
  std::byte* data() const { return reinterpret_cast<std::byte*>(memory_.get()); }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float, Free> memory_;
};

void run_spec(benchmark::State& state, const pando::KernelSpec& spec, int threads) {
  const auto target = pando::make_cpu_target(threads);
  const auto kernel = std::dynamic_pointer_cast<const pando::HostKernel>(target->prepare(spec));
  std::vector<Buffer> buffers;
  std::vector<std::byte*> operands;
  for (const auto* list : {&spec.inputs, &spec.outputs}) {
    for (const OperandDesc& operand : *list) {
      buffers.emplace_back(pando::num_elements(operand.shape) * pando::dtype_bytes(operand.dtype));
      operands.push_back(buffers.back().data());
    }
  }
  const Buffer scratch(kernel->scratch_bytes());
  for (auto _ : state) {
    kernel->run(operands.data(), scratch.data());
    benchmark::ClobberMemory();
  }
  state.SetLabel(kernel->explain().substr(0, 60));
}

OperandDesc matrix(std::int64_t rows, std::int64_t columns, bool transposed) {
  return {pando::DType::Float32,
          {rows, columns},
          transposed ? pando::Strides{1, rows} : pando::Strides{columns, 1}};
}

/// m, n, k, lhs transposed, rhs transposed, threads
void product_sizes(benchmark::internal::Benchmark* bench) {
  for (const int threads : {1, 2}) {
    bench->Args({8, 512, 784, 0, 0, threads});
    bench->Args({8, 512, 512, 0, 0, threads});
    bench->Args({8, 10, 512, 0, 0, threads});
    bench->Args({784, 512, 8, 1, 0, threads});
    bench->Args({512, 512, 8, 1, 0, threads});
    bench->Args({512, 10, 8, 1, 0, threads});
    bench->Args({8, 784, 512, 0, 1, threads});
    bench->Args({8, 512, 512, 0, 1, threads});
    bench->Args({8, 512, 10, 0, 1, threads});
    bench->Args({16, 512, 784, 0, 0, threads});
    bench->Args({32, 512, 784, 0, 0, threads});
    bench->Args({32, 784, 512, 0, 1, threads});
    bench->Args({784, 512, 32, 1, 0, threads});
    bench->Args({128, 1024, 1024, 0, 0, threads});
  }
  bench->UseRealTime();
}

void count_flops(benchmark::State& state) {
  state.counters["flops"] = benchmark::Counter(
      2.0 * state.range(0) * state.range(1) * state.range(2) * state.iterations(),
      benchmark::Counter::kIsRate);
}

void BM_MatMul(benchmark::State& state) {
  const std::int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  run_spec(state,
           {"MatMul",
            {},
            {matrix(m, k, state.range(3)), matrix(k, n, state.range(4))},
            {matrix(m, n, false)},
            {}},
           static_cast<int>(state.range(5)));
  count_flops(state);
}
BENCHMARK(BM_MatMul)->Apply(product_sizes);

void BM_RawOneDnnMatMul(benchmark::State& state) {
  using dnnl::memory;
  const std::int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const int before = omp_get_max_threads();
  omp_set_num_threads(static_cast<int>(state.range(5)));
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto desc = [](std::int64_t rows, std::int64_t columns, bool transposed) {
    return memory::desc({rows, columns}, memory::data_type::f32,
                        transposed ? memory::format_tag::ba : memory::format_tag::ab);
  };
  const memory::desc lhs = desc(m, k, state.range(3)), rhs = desc(k, n, state.range(4));
  const memory::desc out = desc(m, n, false);
  const dnnl::matmul::primitive_desc primitive_desc(engine, lhs, rhs, out);
  const dnnl::matmul primitive(primitive_desc);
  const Buffer a(lhs.get_size()), b(rhs.get_size()), c(out.get_size());
  const std::unordered_map<int, memory> arguments = {
      {DNNL_ARG_SRC, memory(lhs, engine, a.data())},
      {DNNL_ARG_WEIGHTS, memory(rhs, engine, b.data())},
      {DNNL_ARG_DST, memory(out, engine, c.data())}};
  for (auto _ : state) primitive.execute(stream, arguments);
  omp_set_num_threads(before);
  state.SetLabel(primitive_desc.impl_info_str());
  count_flops(state);
}
BENCHMARK(BM_RawOneDnnMatMul)->Apply(product_sizes);

/// MB, threads
void row_sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgsProduct({{1, 16, 64}, {1, 2}})->UseRealTime();
}

constexpr std::int64_t kColumns = 1024;

std::int64_t rows_of(const benchmark::State& state) {
  return (state.range(0) << 20) / static_cast<std::int64_t>(kColumns * sizeof(float));
}

void count_bytes(benchmark::State& state, int passes) {
  state.SetBytesProcessed(state.iterations() * passes * (state.range(0) << 20));
}

void BM_Copy(benchmark::State& state) {
  const auto bytes = static_cast<std::int64_t>(state.range(0)) << 20;
  const auto threads = static_cast<int>(state.range(1));
  const Buffer from(bytes), to(bytes);
  for (auto _ : state) {
#pragma omp parallel for num_threads(threads)
    for (int t = 0; t < threads; ++t) {
      std::memcpy(to.data() + bytes / threads * t, from.data() + bytes / threads * t,
                  static_cast<std::size_t>(bytes / threads));
    }
    benchmark::ClobberMemory();
  }
  count_bytes(state, 2);
}
BENCHMARK(BM_Copy)->Apply(row_sizes);

void BM_Softmax(benchmark::State& state) {
  const OperandDesc rows =
      OperandDesc::contiguous(pando::DType::Float32, {rows_of(state), kColumns});
  run_spec(state, {"Softmax", {{"axis", std::int64_t{1}}}, {rows}, {rows}, {}},
           static_cast<int>(state.range(1)));
  count_bytes(state, 2);
}
BENCHMARK(BM_Softmax)->Apply(row_sizes);

void BM_LayerNorm(benchmark::State& state) {
  const auto float32 = pando::DType::Float32;
  const OperandDesc rows = OperandDesc::contiguous(float32, {rows_of(state), kColumns});
  const OperandDesc weight = OperandDesc::contiguous(float32, {kColumns});
  const OperandDesc statistic = OperandDesc::contiguous(float32, {rows_of(state)});
  run_spec(state,
           {"GroupNormalization",
            {{"num_groups", std::int64_t{1}}, {"eps", 1e-5}},
            {rows, weight, weight},
            {rows, statistic, statistic},
            {}},
           static_cast<int>(state.range(1)));
  count_bytes(state, 2);
}
BENCHMARK(BM_LayerNorm)->Apply(row_sizes);

void BM_ReduceSum(benchmark::State& state) {
  const auto float32 = pando::DType::Float32;
  const std::int64_t axis = state.range(2);
  const std::int64_t kept = axis == 0 ? kColumns : rows_of(state);
  run_spec(state,
           {"ReduceSum",
            {{"axes", pando::Ints{axis}}, {"keepdims", false}},
            {OperandDesc::contiguous(float32, {rows_of(state), kColumns})},
            {OperandDesc::contiguous(float32, {kept})},
            {}},
           static_cast<int>(state.range(1)));
  count_bytes(state, 1);
}
BENCHMARK(BM_ReduceSum)->ArgsProduct({{1, 16, 64}, {1, 2}, {0, 1}})->UseRealTime();

/// batch, hidden units, threads: an LSTM layer over 64 steps, whose gates its gradient reads.
void BM_LstmSteps(benchmark::State& state) {
  const auto float32 = pando::DType::Float32;
  const std::int64_t steps = 64, batch = state.range(0), hidden = state.range(1);
  const OperandDesc states = OperandDesc::contiguous(float32, {steps, batch, hidden});
  const OperandDesc gates = OperandDesc::contiguous(float32, {steps, batch, 4 * hidden});
  run_spec(state,
           {"RecurrentSequence",
            {{"cell", std::string("lstm")}, {"absent_inputs", pando::Ints{2, 3, 4}}},
            {gates, OperandDesc::contiguous(float32, {4 * hidden, hidden}), {}, {}, {}},
            {states, gates, states},
            {}},
           static_cast<int>(state.range(2)));
  state.counters["flops"] = benchmark::Counter(
      8.0 * static_cast<double>(steps * batch * hidden * hidden * state.iterations()),
      benchmark::Counter::kIsRate);
}
BENCHMARK(BM_LstmSteps)->ArgsProduct({{32, 64}, {512}, {1, 2}})->UseRealTime();

}  // namespace
