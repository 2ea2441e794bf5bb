#include <thread>

#include "kernel_test_util.hpp"

namespace pando::testing {
namespace {

KernelSpec product(std::int64_t m, std::int64_t n, std::int64_t k) {
  TestTensor lhs(DType::Float32, {m, k}), rhs(DType::Float32, {k, n}), out(DType::Float32, {m, n});
  return make_spec("MatMul", {}, {&lhs, &rhs}, {&out});
}

TEST(CpuBackend, CachesKernelsBySpec) {
  const auto backend = make_cpu_backend(1);
  EXPECT_EQ(backend->prepare(product(2, 3, 4)), backend->prepare(product(2, 3, 4)));
  EXPECT_NE(backend->prepare(product(2, 3, 4)), backend->prepare(product(2, 4, 3)));
}

TEST(CpuBackend, ExplainsItsChoiceAndWhatItRejected) {
  const auto backend = make_cpu_backend(1);
  EXPECT_EQ(backend->prepare(product(2, 3, 4))->explain(), "MatMul: skinny (column tiles)");
  const std::string text = backend->prepare(product(64, 64, 64))->explain();
  EXPECT_EQ(text.find("MatMul: "), 0) << text;
  EXPECT_EQ(text.find("MatMul: skinny"), std::string::npos) << text;
  EXPECT_NE(text.find("; not skinny: more than 32 rows"), std::string::npos) << text;
}

TEST(CpuBackend, KnowsItsKindsLayoutsAndInPlaceInputs) {
  const auto backend = make_cpu_backend(1);
  for (const char* kind : {"Fused", "Copy", "Fill", "MatMul", "GatherElements", "RoiAlignGrad"}) {
    EXPECT_TRUE(backend->has_kernel(kind)) << kind;
  }
  EXPECT_FALSE(backend->has_kernel("Sqrt"));
  const KernelSpec spec = product(2, 3, 4);
  EXPECT_EQ(backend->accepted_layout(spec, 0), AcceptedLayout::MatrixAnyOrder);
  EXPECT_EQ(backend->accepted_layout(spec, 2), AcceptedLayout::Contiguous);
  TestTensor x(DType::Float32, {2, 3}), y(DType::Float32, {2});
  EXPECT_EQ(backend->accepted_layout(make_spec("ReduceSum", {}, {&x}, {&y}), 0),
            AcceptedLayout::AnyStrides);
  EXPECT_TRUE(backend->can_run_in_place(make_spec("Softmax", {}, {&x}, {&x}), 0));
  EXPECT_FALSE(backend->can_run_in_place(make_spec("Softmax", {}, {&x}, {&y}), 0));
  EXPECT_FALSE(backend->can_run_in_place(product(3, 3, 3), 0));
}

TEST(CpuBackend, NamesUnknownKindsAndBadThreadCounts) {
  TestTensor x(DType::Float32, {2, 3});
  const auto backend = make_cpu_backend(1);
  EXPECT_NE(error_of([&] {
              backend->prepare(make_spec("Sqrt", {}, {&x}, {&x}));
            }).find("no kernel for Sqrt ((2, 3) float32 -> (2, 3) float32)"),
            std::string::npos);
  EXPECT_NE(error_of([] { make_cpu_backend(-1); }).find("got -1"), std::string::npos);
  EXPECT_GE(make_cpu_backend(0)->num_threads(), 1);
}

TEST(CpuBackend, CopiesAnyNumberOfBytes) {
  for (const int threads : {1, 2, 3}) {
    const auto backend = make_cpu_backend(threads);
    for (const std::size_t bytes : {0, 1, 65'535, 131'072, 300'003}) {
      std::vector<std::byte> from(bytes), to(bytes + 2, std::byte{9});
      for (std::size_t i = 0; i < bytes; ++i) from[i] = static_cast<std::byte>(i * 31 + i / 256);
      backend->copy(from.data(), to.data() + 1, bytes);
      EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin() + 1)) << bytes;
      EXPECT_EQ(to.front(), std::byte{9});
      EXPECT_EQ(to.back(), std::byte{9});
    }
  }
}

TEST(CpuBackend, ManyThreadsMayRunOneKernel) {
  const auto backend = make_cpu_backend(1);
  const auto kernel = backend->prepare(product(64, 48, 40));
  TestTensor lhs(DType::Float32, {64, 40}), rhs(DType::Float32, {40, 48});
  lhs.randomise(70);
  rhs.randomise(71);
  const auto run = [&](TestTensor& out) {
    std::vector<std::uint64_t> scratch(kernel->scratch_bytes() / 8 + 16);
    auto address = reinterpret_cast<std::uintptr_t>(scratch.data());
    std::byte* operands[] = {lhs.data(), rhs.data(), out.data()};
    kernel->run(operands, reinterpret_cast<std::byte*>((address + 63) / 64 * 64));
  };
  TestTensor wanted(DType::Float32, {64, 48});
  run(wanted);
  std::vector<TestTensor> outs(8, TestTensor(DType::Float32, {64, 48}));
  std::vector<std::thread> workers;
  for (TestTensor& out : outs) {
    workers.emplace_back([&run, &out] {
      for (int i = 0; i < 20; ++i) run(out);
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (const TestTensor& out : outs) EXPECT_EQ(out.values(), wanted.values());
}

}  // namespace
}  // namespace pando::testing
