// What the compiler decides by asking the target: another target, another program.
#include <gtest/gtest.h>

#include "pando/compile/pipeline.hpp"
#include "tests/cpp/compile/wrapped_target.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

class OtherTarget : public WrappedTarget {
 public:
  std::size_t most_fused_ops() const override { return most_ops; }
  ProductUse computes_inside(const KernelSpec&, std::size_t, const KernelSpec&) const override {
    return products;
  }
  bool skips_outside_bands() const override { return bands; }
  std::size_t most_shared_bytes() const override { return most_shared; }

  std::size_t most_ops = 100;
  ProductUse products = ProductUse::None;
  bool bands = true;
  std::size_t most_shared = 1000;
};

/// The kernels of `program` in the order of its instructions.
std::vector<std::string> kernels_of(const Program& program) {
  std::vector<std::string> kinds;
  for (const Function& function : program.functions) {
    for (const Instruction& in : function.instructions) {
      if (in.kind != Instruction::Kind::Kernel) continue;
      kinds.push_back(program.kernels[static_cast<std::size_t>(in.target)].kind);
    }
  }
  return kinds;
}

class TargetLimits : public ::testing::Test {
 protected:
  TargetLimits() { op_registry(); }

  Program compiled() {
    StageTimes times;
    return compile(*ir_.clone(), target_, {}, times);
  }
  Tensor* random_variable(const Shape& shape) {
    return variable(ir_.main_graph(), "v",
                    std::vector<float>(static_cast<std::size_t>(num_elements(shape)), 0.5f), shape);
  }

  Ir ir_;
  OtherTarget target_;
  OpBuilder ops_{ir_.main_graph(), {}};
};

TEST_F(TargetLimits, OpsOfOneKernel) {
  Tensor* x = random_variable({4});
  for (int i = 0; i < 7; ++i) x = ops_.make("Sin", {x});
  store(ir_.main_graph(), x);
  EXPECT_EQ(kernels_of(compiled()), std::vector<std::string>(1, "Fused"));
  target_.most_ops = 3;
  EXPECT_EQ(kernels_of(compiled()), std::vector<std::string>(3, "Fused"));
  target_.most_ops = 1;
  EXPECT_EQ(kernels_of(compiled()), std::vector<std::string>(7, "Fused"));
}

TEST_F(TargetLimits, ProductsInsideKernels) {
  Tensor* product = ops_.make("MatMul", {random_variable({8, 2}), random_variable({2, 8})});
  ops_.op("AddLhsInplace", {random_variable({8, 8}), product});
  EXPECT_EQ(kernels_of(compiled()), std::vector<std::string>({"MatMul", "Fused"}));
  target_.products = ProductUse::InPieces;
  EXPECT_EQ(kernels_of(compiled()), std::vector<std::string>({"Fused"}));
}

TEST_F(TargetLimits, BandsOfMasks) {
  Tensor* scores = ops_.make("MatMul", {random_variable({4, 4}), random_variable({4, 4})});
  std::vector<float> hidden(16, 0.0f);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t k = i + 1; k < 4; ++k) hidden[4 * i + k] = -1e9f;
  }
  Graph& main = ir_.main_graph();
  Tensor* mask = main.add_constant(main.unique_tensor_id("mask"), {DType::Float32, {4, 4}, {}},
                                   HostArray::copy_of(hidden.data(), sizeof(float) * 16));
  Tensor* weights =
      ops_.make("Softmax", {ops_.make("Add", {scores, mask})}, {{"axis", std::int64_t{1}}});
  store(main, weights);
  EXPECT_EQ(kernels_of(compiled()), std::vector<std::string>({"MatMul", "Softmax"}));
  target_.bands = false;
  EXPECT_EQ(kernels_of(compiled()), std::vector<std::string>({"MatMul", "Fused", "Softmax"}));
}

TEST_F(TargetLimits, EqualResultsThatAreKept) {
  Tensor* x = random_variable({4, 4});
  for (int i = 0; i < 2; ++i) {
    Tensor* sums = ops_.make("CumSum", {x}, {{"axis", std::int64_t{0}}});
    store(ir_.main_graph(), sums);
  }
  EXPECT_EQ(kernels_of(compiled()), std::vector<std::string>({"CumSum"}));
  target_.most_shared = 63;
  EXPECT_EQ(kernels_of(compiled()), std::vector<std::string>({"CumSum", "CumSum"}));
}

TEST_F(TargetLimits, EpiloguesOfProducts) {
  Tensor* product = ops_.make("MatMul", {random_variable({4, 4}), random_variable({4, 4})});
  store(ir_.main_graph(), ops_.make("Add", {product, random_variable({4})}));
  EXPECT_EQ(kernels_of(compiled()), std::vector<std::string>({"MatMul", "Fused"}));
  target_.products = ProductUse::InOutput;
  EXPECT_EQ(kernels_of(compiled()), std::vector<std::string>({"Fused"}));
}

}  // namespace
}  // namespace pando::testing
