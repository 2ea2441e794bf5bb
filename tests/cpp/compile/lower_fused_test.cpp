// What the kernel of pointwise ops loads.
#include <gtest/gtest.h>

#include "pando/compile/pipeline.hpp"
#include "tests/cpp/compile/wrapped_target.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

class FusedKernels : public ::testing::Test {
 protected:
  FusedKernels() { op_registry(); }

  /// The only kernel of the program.
  KernelSpec kernel() {
    WrappedTarget target;
    StageTimes times;
    const Program program = compile(*ir_.clone(), target, {}, times);
    EXPECT_EQ(program.kernels.size(), 1U);
    return program.kernels.front();
  }
  Tensor* four(const std::string& name) {
    return variable(ir_.main_graph(), name, {1, 2, 3, 4}, {4});
  }

  Ir ir_;
  OpBuilder ops_{ir_.main_graph(), {}};
};

TEST_F(FusedKernels, DoNotLoadWhatTheyOverwrite) {
  ops_.op("CopyVarUpdate", {four("v"), ops_.make("Sin", {four("x")})});
  const KernelSpec spec = kernel();
  EXPECT_EQ(spec.inputs.size(), 1U);
  EXPECT_EQ(scalar_program_text(spec.scalar),
            "%0 = Load.f32 [0] float32\n%1 = Sin.f32 %0\n%2 = Store.f32 %1 [0] float32\n");
}

TEST_F(FusedKernels, LoadWhatTheyOverwriteIfAResultNeedsIt) {
  Tensor* v = four("v");
  Tensor* x = four("x");
  Tensor* before = ops_.make("Mul", {v, x});
  ops_.op("CopyVarUpdate", {v, ops_.make("Sin", {x})});
  store(ir_.main_graph(), before);
  const KernelSpec spec = kernel();
  EXPECT_EQ(spec.inputs.size(), 2U);
  EXPECT_EQ(spec.outputs.size(), 2U);
}

}  // namespace
}  // namespace pando::testing
