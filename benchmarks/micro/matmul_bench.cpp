// The MatMul candidates side by side: GFLOP/s by operand order, size and threads.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "pando/backends/cpu/kernels/matmul.hpp"

namespace {

using namespace pando;       // NOLINT(google-build-using-namespace)
using namespace pando::cpu;  // NOLINT(google-build-using-namespace)

using Plan = KernelPlan (*)(const MatMulProblem&, int);

struct Size {
  std::int64_t batch, m, k, n;
};

void multiply(benchmark::State& state, Plan make, Size size, bool lhs_transposed,
              bool rhs_transposed, int threads) {
  MatMulProblem p;
  p.m = size.m;
  p.n = size.n;
  p.k = size.k;
  if (size.batch > 1) {
    p.batch = {size.batch};
    p.lhs_batch = {size.m * size.k};
    p.rhs_batch = {size.k * size.n};
  }
  p.lhs_row = lhs_transposed ? 1 : p.k;
  p.lhs_column = lhs_transposed ? p.m : 1;
  p.rhs_row = rhs_transposed ? 1 : p.n;
  p.rhs_column = rhs_transposed ? p.k : 1;
  p.out_row = p.n;
  p.out_product = p.m * p.n;
  const KernelPlan plan = make(p, threads);
  if (!plan.rejection.empty()) {
    state.SkipWithError(plan.rejection.c_str());
    return;
  }
  std::vector<float> lhs(static_cast<std::size_t>(size.batch * p.m * p.k), 0.5F);
  std::vector<float> rhs(static_cast<std::size_t>(size.batch * p.k * p.n), 0.25F);
  std::vector<float> out(static_cast<std::size_t>(size.batch * p.m * p.n));
  std::vector<std::byte> scratch(plan.scratch_bytes + 64);
  auto* aligned = reinterpret_cast<std::byte*>(
      (reinterpret_cast<std::uintptr_t>(scratch.data()) + 63) / 64 * 64);
  std::byte* operands[] = {reinterpret_cast<std::byte*>(lhs.data()),
                           reinterpret_cast<std::byte*>(rhs.data()),
                           reinterpret_cast<std::byte*>(out.data())};
  for ([[maybe_unused]] auto iteration : state) plan.run(operands, aligned);
  const double flops = 2.0 * static_cast<double>(size.batch * p.m * p.n * p.k);
  state.counters["flops"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

// Registration may throw bad_alloc before main; then there is nothing to run.
// NOLINTNEXTLINE(bugprone-throwing-static-initialization)
const bool kRegistered = [] {
  const std::vector<std::pair<std::string, Plan>> candidates = {{"skinny", plan_skinny_matmul},
                                                                {"packed", plan_packed_matmul},
                                                                {"onednn", plan_onednn_matmul}};
  // The products of the tutorial network, of the benchmark's transformer and of its decoder.
  const std::vector<Size> sizes = {
      {1, 1, 784, 512},     {1, 4, 784, 512},      {1, 16, 784, 512},    {1, 8, 784, 512},
      {1, 784, 8, 512},     {1, 32, 784, 512},     {1, 784, 32, 512},    {1, 128, 784, 512},
      {1, 784, 128, 512},   {1, 128, 512, 512},    {1, 128, 512, 10},    {1, 512, 128, 10},
      {1, 32, 3136, 10},    {1, 3136, 32, 10},     {1, 32, 10, 3136},    {1, 512, 256, 1024},
      {1, 512, 1024, 256},  {1, 256, 512, 1024},   {1, 512, 256, 768},   {32, 128, 32, 128},
      {32, 128, 128, 32},   {1, 1024, 1024, 1024}, {1, 1024, 512, 2048}, {1, 1024, 2048, 512},
      {1, 512, 1024, 2048}, {1, 1024, 512, 512},   {32, 256, 64, 256},   {32, 256, 256, 64}};
  for (const Size& size : sizes) {
    for (int order = 0; order < 4; ++order) {
      for (int threads : {1, 2}) {
        for (const auto& [name, plan] : candidates) {
          const std::string title = "matmul/" + std::to_string(size.batch) + "x" +
                                    std::to_string(size.m) + "x" + std::to_string(size.k) + "x" +
                                    std::to_string(size.n) + "/" + (order % 2 != 0 ? "T" : "N") +
                                    (order / 2 != 0 ? "T" : "N") + "/" + std::to_string(threads) +
                                    "/" + name;
          benchmark::RegisterBenchmark(title.c_str(), [=, plan = plan](benchmark::State& state) {
            multiply(state, plan, size, order % 2 != 0, order / 2 != 0, threads);
          })->UseRealTime();
        }
      }
    }
  }
  return true;
}();

}  // namespace
