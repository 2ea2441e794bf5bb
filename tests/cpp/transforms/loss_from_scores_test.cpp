#include "pando/transforms/loss_from_scores.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "pando/backends/cpu/cpu_target.hpp"
#include "pando/compile/pipeline.hpp"
#include "tests/cpp/fuzz/harness.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

constexpr std::int64_t kScoreRows = 9, kScoreClasses = 997;

struct ScoreCase {
  std::string reduction = "mean";
  bool has_ignored = false, has_gradient = true;
  double scale = 1;
  std::int64_t axis = 1;
  DType dtype = DType::Float32;
  bool is_read_elsewhere = false, scores_change = false;

  bool is_joined() const {
    return scale == 1 && axis != 0 && dtype == DType::Float32 && !is_read_elsewhere &&
           !scores_change;
  }
};

/// A softmax and the loss of labels, of which one is out of range, with its gradient.
fuzz::FuzzProgram loss_program(const ScoreCase& c) {
  op_registry();
  fuzz::FuzzProgram program;
  program.ir = std::make_unique<Ir>();
  Graph& main = program.ir->main_graph();
  OpBuilder builder(main, {});
  std::vector<float> numbers(kScoreRows * kScoreClasses);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = 0.25F * static_cast<float>(i * 7 % 31) - 3.0F;
  }
  Tensor* stored = variable(main, "scores", numbers, {kScoreRows, kScoreClasses});
  Tensor* scores = c.scores_change ? stored : builder.cast(builder.make("Neg", {stored}), c.dtype);
  std::vector<std::int32_t> labels = {3, 0, 996, 5, kScoreClasses, 5, 11, 20, 5};
  Tensor* softmax = builder.make("Softmax", {scores}, {{"axis", c.axis}, {"scale", c.scale}});
  if (c.scores_change) builder.op("ReluInplace", {scores}).run_after(*softmax->producer());
  Attributes attributes = {{"reduction", c.reduction}};
  if (c.has_ignored) attributes.set("ignore_index", std::int64_t{5});
  std::vector<Tensor*> inputs = {softmax,
                                 builder.constant({DType::Int32, {kScoreRows}}, labels.data())};
  const float gradient = 1.5F;
  if (c.has_gradient) inputs.push_back(builder.constant({DType::Float32, {}}, &gradient));
  const Op& loss = builder.op("NlllWithSoftmaxGradDirect", inputs, attributes);
  store(main, loss.output(0));
  store(main, loss.output(1));
  if (c.is_read_elsewhere) store(main, softmax);
  return program;
}

std::vector<ScoreCase> score_cases() {
  std::vector<ScoreCase> cases;
  for (const char* reduction : {"mean", "sum", "none"}) {
    for (const bool has_ignored : {false, true}) {
      for (const bool has_gradient : {false, true}) {
        cases.push_back(
            {.reduction = reduction, .has_ignored = has_ignored, .has_gradient = has_gradient});
      }
    }
  }
  cases.push_back({.axis = 0});
  cases.push_back({.scale = 0.5});
  cases.push_back({.dtype = DType::Float16});
  cases.push_back({.is_read_elsewhere = true});
  cases.push_back({.scores_change = true});
  return cases;
}

std::string text_of(const ScoreCase& c) {
  return str_cat(c.reduction, ", ignores ", c.has_ignored, ", gradient ", c.has_gradient,
                 ", scale ", c.scale, ", axis ", c.axis, ", ", c.dtype, ", read elsewhere ",
                 c.is_read_elsewhere, ", scores change ", c.scores_change);
}

TEST(LossFromScores, GivesTheSame) {
  for (const ScoreCase& c : score_cases()) {
    SCOPED_TRACE(text_of(c));
    const fuzz::FuzzProgram program = loss_program(c);
    const fuzz::Reference before = fuzz::run_reference(program, {{}}).unrounded;
    take_losses_from_scores(program.ir->main_graph());
    const std::vector<Op*>& ops = program.ir->main_graph().ops();
    const bool is_joined = std::none_of(ops.begin(), ops.end(),
                                        [](const Op* op) { return op->kind() == OpKind::Softmax; });
    EXPECT_EQ(is_joined, c.is_joined());
    const fuzz::Reference after = fuzz::run_reference(program, {{}}).unrounded;
    for (const auto& [id, numbers] : before.outputs.front()) {
      const fuzz::Numbers& others = after.outputs.front().at(id);
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        ASSERT_NEAR(static_cast<double>(numbers[i]), static_cast<double>(others[i]), 1e-15) << id;
      }
    }
  }
}

TEST(LossFromScores, KernelsAgreeWithTheReference) {
  for (const ScoreCase& c : score_cases()) {
    SCOPED_TRACE(text_of(c));
    const fuzz::FuzzProgram program = loss_program(c);
    const std::vector<fuzz::NamedBytes> inputs = {{}};
    for (const int threads : {1, 2}) {
      fuzz::EngineSettings settings;
      settings.num_threads = threads;
      EXPECT_EQ(fuzz::compare(program, fuzz::run_engine(program, inputs, settings),
                              fuzz::run_reference(program, inputs)),
                "");
    }
  }
}

TEST(LossFromScores, NoMatrixOfProbabilitiesIsMade) {
  const fuzz::FuzzProgram program = loss_program({});
  const auto target = make_cpu_target(1);
  StageTimes times;
  const Program compiled = compile(*program.ir, *target, {}, times);
  // The scores, which the gradient overwrites.
  EXPECT_LT(compiled.memory.peak_frame_bytes, 1.5 * kScoreRows * kScoreClasses * 4);
  EXPECT_TRUE(std::none_of(compiled.kernels.begin(), compiled.kernels.end(),
                           [](const KernelSpec& spec) { return spec.kind == "Softmax"; }));
}

}  // namespace
}  // namespace pando::testing
