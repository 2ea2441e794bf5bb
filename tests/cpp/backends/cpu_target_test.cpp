#include <thread>

#include "kernel_test_util.hpp"

namespace pando::testing {
namespace {

KernelSpec product(std::int64_t m, std::int64_t n, std::int64_t k) {
  TestTensor lhs(DType::Float32, {m, k}), rhs(DType::Float32, {k, n}), out(DType::Float32, {m, n});
  return make_spec("MatMul", {}, {&lhs, &rhs}, {&out});
}

TEST(CpuTarget, CachesKernelsBySpec) {
  const auto target = make_cpu_target(1);
  EXPECT_EQ(target->prepare(product(2, 3, 4)), target->prepare(product(2, 3, 4)));
  EXPECT_NE(target->prepare(product(2, 3, 4)), target->prepare(product(2, 4, 3)));
}

TEST(CpuTarget, ExplainsItsChoiceAndWhatItRejected) {
  const auto target = make_cpu_target(1);
  EXPECT_EQ(target->prepare(product(2, 3, 4))->explain(), "MatMul: skinny (column tiles)");
  const std::string text = target->prepare(product(64, 64, 64))->explain();
  EXPECT_EQ(text.find("MatMul: "), 0) << text;
  EXPECT_EQ(text.find("MatMul: skinny"), std::string::npos) << text;
  EXPECT_NE(text.find("; not skinny: more than 32 rows"), std::string::npos) << text;
}

TEST(CpuTarget, KnowsItsKindsLayoutsAndInPlaceInputs) {
  const auto target = make_cpu_target(1);
  for (const char* kind : {"Fused", "Copy", "Fill", "MatMul", "GatherElements", "RoiAlignGrad"}) {
    EXPECT_TRUE(target->has_kernel(kind)) << kind;
  }
  EXPECT_FALSE(target->has_kernel("Sqrt"));
  const KernelSpec spec = product(2, 3, 4);
  EXPECT_EQ(target->accepted_layout(spec, 0), AcceptedLayout::MatrixAnyOrder);
  EXPECT_EQ(target->accepted_layout(spec, 2), AcceptedLayout::Contiguous);
  TestTensor x(DType::Float32, {2, 3}), y(DType::Float32, {2});
  EXPECT_EQ(target->accepted_layout(make_spec("ReduceSum", {}, {&x}, {&y}), 0),
            AcceptedLayout::AnyStrides);
  EXPECT_EQ(target->output_over(make_spec("Softmax", {}, {&x}, {&x}), 0), 0);
  EXPECT_EQ(target->output_over(make_spec("Softmax", {}, {&x}, {&y}), 0), -1);
  EXPECT_EQ(target->output_over(product(3, 3, 3), 0), -1);
  TestTensor labels(DType::Int32, {2}), loss(DType::Float32, {});
  const KernelSpec direct =
      make_spec("NlllWithSoftmaxGradDirect", {}, {&x, &labels, &y}, {&loss, &x});
  EXPECT_EQ(target->output_over(direct, 0), 1);
  EXPECT_EQ(target->output_over(direct, 2), -1);
}

TEST(CpuTarget, NamesUnknownKindsAndBadThreadCounts) {
  TestTensor x(DType::Float32, {2, 3});
  const auto target = make_cpu_target(1);
  EXPECT_NE(error_of([&] {
              target->prepare(make_spec("Sqrt", {}, {&x}, {&x}));
            }).find("no kernel for Sqrt ((2, 3) float32 -> (2, 3) float32)"),
            std::string::npos);
  EXPECT_NE(error_of([] { make_cpu_target(-1); }).find("got -1"), std::string::npos);
  EXPECT_GE(make_cpu_target(0)->num_threads(), 1);
}

TEST(CpuTarget, ManyThreadsMayRunOneKernel) {
  const auto target = make_cpu_target(1);
  const auto kernel =
      std::dynamic_pointer_cast<const HostKernel>(target->prepare(product(64, 48, 40)));
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
