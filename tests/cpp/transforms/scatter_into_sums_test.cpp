#include "pando/transforms/scatter_into_sums.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "pando/backends/cpu/cpu_target.hpp"
#include "pando/compile/pipeline.hpp"
#include "tests/cpp/fuzz/harness.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

constexpr std::int64_t kRows = 300, kColumns = 40, kGathered = 24;

/// A table of tied weights: gradients of two products with it, and of two gathers. Rows 3 and 5
/// are gathered twice; one index is out of range.
struct TiedGradients {
  fuzz::FuzzProgram program;
  Op* sum = nullptr;

  explicit TiedGradients(DType dtype, bool is_read_elsewhere = false) {
    op_registry();
    program.ir = std::make_unique<Ir>();
    Graph& main = program.ir->main_graph();
    OpBuilder builder(main, {});
    const auto values = [&](const Shape& shape, float step) {
      std::vector<float> numbers(static_cast<std::size_t>(num_elements(shape)));
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = step * static_cast<float>(i % 17) - 1.0F;
      }
      return builder.cast(variable(main, "v", numbers, shape), dtype);
    };
    std::vector<std::int32_t> rows(kGathered);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int32_t>(i * 7 % 300);
    rows[1] = rows[2] = 3, rows[3] = 5, rows[20] = 5, rows[9] = 300;
    Tensor* indices = builder.constant({DType::Int32, {4, kGathered / 4}}, rows.data());
    const auto scattered = [&](float step) {
      return builder.make("GatherGrad", {values({4, kGathered / 4, kColumns}, step), indices},
                          {{"axis", std::int64_t{0}}, {"input_shape", Ints{kRows, kColumns}}});
    };
    const auto product = [&](float step) {
      return builder.make("MatMul", {values({kRows, 8}, step), values({8, kColumns}, step)});
    };
    Tensor* first = scattered(0.25F);
    sum = &builder.op("Sum", {first, product(0.5F), scattered(0.125F), product(0.0625F)});
    store(main, sum->output(0));
    if (is_read_elsewhere) store(main, first);
  }

  std::ptrdiff_t count(std::string_view kind) const {
    const std::vector<Op*>& ops = program.ir->main_graph().ops();
    return std::count_if(ops.begin(), ops.end(),
                         [&](const Op* op) { return op->kind_name() == kind; });
  }
};

TEST(ScatterIntoSums, GivesTheSame) {
  for (const DType dtype : {DType::Float32, DType::Float16, DType::BFloat16}) {
    for (const bool is_read_elsewhere : {false, true}) {
      TiedGradients tied(dtype, is_read_elsewhere);
      const fuzz::Reference before = fuzz::run_reference(tied.program, {{}}).unrounded;
      scatter_into_sums(tied.program.ir->main_graph());
      EXPECT_EQ(tied.count("ScatterReduce"), is_read_elsewhere ? 1 : 2);
      EXPECT_EQ(tied.count("GatherGrad"), is_read_elsewhere ? 1 : 0);
      const fuzz::Reference after = fuzz::run_reference(tied.program, {{}}).unrounded;
      for (const auto& [id, numbers] : before.outputs.front()) {
        const fuzz::Numbers& others = after.outputs.front().at(id);
        for (std::size_t i = 0; i < numbers.size(); ++i) {
          ASSERT_NEAR(static_cast<double>(numbers[i]), static_cast<double>(others[i]), 1e-12) << id;
        }
      }
    }
  }
}

TEST(ScatterIntoSums, KernelsAgreeWithTheReference) {
  for (const DType dtype : {DType::Float32, DType::Float16, DType::BFloat16}) {
    TiedGradients tied(dtype);
    const std::vector<fuzz::NamedBytes> inputs = {{}};
    for (const int threads : {1, 2}) {
      fuzz::EngineSettings settings;
      settings.num_threads = threads;
      const std::string fault =
          fuzz::compare(tied.program, fuzz::run_engine(tied.program, inputs, settings),
                        fuzz::run_reference(tied.program, inputs));
      EXPECT_EQ(fault, "") << dtype;
    }
  }
}

TEST(ScatterIntoSums, ThereIsNoMatrixOfZeros) {
  TiedGradients tied(DType::Float32);
  const auto target = make_cpu_target(1);
  StageTimes times;
  const Program program = compile(*tied.program.ir, *target, {}, times);
  // The two products; their sum takes the place of one.
  EXPECT_LT(program.memory.peak_frame_bytes, 2.5 * kRows * kColumns * 4);
}

}  // namespace
}  // namespace pando::testing
