// oneDNN alone, at the sizes that docs/decisions/0001-onednn.md compares.
#include <benchmark/benchmark.h>
#include <omp.h>

#include <cstddef>
#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

namespace {

using Tag = dnnl::memory::format_tag;
constexpr auto kFloat = dnnl::memory::data_type::f32;

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

/// A buffer for `desc` and the memory object over it.
struct Operand {
  explicit Operand(const dnnl::memory::desc& desc)
      : values(desc.get_size() / sizeof(float), 0.5F), memory(desc, engine(), values.data()) {}

  std::vector<float> values;
  dnnl::memory memory;
};

void run(benchmark::State& state, const dnnl::primitive& primitive, const dnnl::memory::desc& src,
         const dnnl::memory::desc& weights, const dnnl::memory::desc& dst, double flops) {
  Operand in(src);
  Operand factor(weights);
  Operand out(dst);
  dnnl::stream stream(engine());
  const std::unordered_map<int, dnnl::memory> arguments = {
      {DNNL_ARG_SRC, in.memory}, {DNNL_ARG_WEIGHTS, factor.memory}, {DNNL_ARG_DST, out.memory}};
  for ([[maybe_unused]] auto iteration : state) {
    primitive.execute(stream, arguments);
    stream.wait();
  }
  state.counters["flops"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

void matmul(benchmark::State& state, Tag lhs_layout, Tag rhs_layout) {
  const std::int64_t m = state.range(0);
  const std::int64_t k = state.range(1);
  const std::int64_t n = state.range(2);
  omp_set_num_threads(static_cast<int>(state.range(3)));
  const dnnl::matmul::primitive_desc desc(engine(), {{m, k}, kFloat, lhs_layout},
                                          {{k, n}, kFloat, rhs_layout}, {{m, n}, kFloat, Tag::ab});
  run(state, dnnl::matmul(desc), desc.src_desc(), desc.weights_desc(), desc.dst_desc(),
      2.0 * static_cast<double>(m * n * k));
}

void convolution(benchmark::State& state) {
  omp_set_num_threads(static_cast<int>(state.range(0)));
  const dnnl::memory::dims ones = {1, 1};
  const dnnl::convolution_forward::primitive_desc desc(
      engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
      {{32, 16, 28, 28}, kFloat, Tag::any}, {{32, 16, 3, 3}, kFloat, Tag::any},
      {{32, 32, 28, 28}, kFloat, Tag::any}, ones, ones, ones);
  run(state, dnnl::convolution_forward(desc), desc.src_desc(), desc.weights_desc(), desc.dst_desc(),
      2.0 * 32 * 32 * 28 * 28 * 16 * 9);
}

void small_and_large(benchmark::internal::Benchmark* cases) {
  for (const int threads : {1, 2}) {
    cases->Args({8, 784, 512, threads})->Args({8, 512, 512, threads});
    cases->Args({128, 1024, 1024, threads})->Args({1024, 1024, 1024, threads});
  }
  cases->ArgNames({"M", "K", "N", "threads"})->UseRealTime();
}

BENCHMARK_CAPTURE(matmul, plain, Tag::ab, Tag::ab)->Apply(small_and_large);
BENCHMARK_CAPTURE(matmul, preferred, Tag::ab, Tag::any)->Apply(small_and_large);
BENCHMARK_CAPTURE(matmul, rhs_transposed, Tag::ab, Tag::ba)
    ->Args({8, 512, 512, 1})
    ->Args({8, 512, 512, 2})
    ->UseRealTime();
BENCHMARK_CAPTURE(matmul, lhs_transposed, Tag::ba, Tag::ab)
    ->Args({784, 8, 512, 1})
    ->Args({784, 8, 512, 2})
    ->UseRealTime();
BENCHMARK(convolution)->Arg(1)->Arg(2)->UseRealTime();

}  // namespace
