// Passes: text cases from tests/ir, and results before and after.
#include <gtest/gtest.h>

#include "pando/backends/cpu/cpu_target.hpp"
#include "pando/compile/pipeline.hpp"
#include "pando/ir/text_parser.hpp"
#include "pando/ir/text_printer.hpp"
#include "pando/ir/verifier.hpp"
#include "pando/session/session.hpp"
#include "pando/transforms/pass_registry.hpp"
#include "pando/transforms/scalar_evaluator.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"
#include "tests/cpp/ir/text_cases.hpp"

namespace pando::testing {
namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of('\n');
  const auto last = text.find_last_not_of('\n');
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

TEST(Passes, TextCases) {
  op_registry();
  const std::vector<TextCase> cases = read_text_cases("ir");
  EXPECT_GE(cases.size(), 15u);
  for (const TextCase& c : cases) {
    SCOPED_TRACE(c.pass + ": " + c.title);
    // The header of the text form is left out of the cases.
    const auto ir = parse_ir("pando-ir 1 replicas 1 transfers 1 counters 900 0 0\n" + c.before);
    find_pass(c.pass).run(*ir);
    verify(*ir, c.pass);
    std::string text = print_ir(*ir);
    text = text.substr(std::min(text.find("\nto_host"), text.find("\ngraph")));
    EXPECT_EQ(trimmed(text), trimmed(c.after));
  }
}

TEST(Passes, UnknownNamesAreListed) {
  const std::string error = error_of([] { find_pass("nonsense"); });
  EXPECT_NE(error.find("there is no pass 'nonsense'; the passes are concat_views, inline_calls, "
                       "sparse_updates, expand"),
            std::string::npos)
      << error;
}

/// What the stored streams of a program hold after one run.
std::vector<std::vector<float>> results_of(const Ir& ir) {
  Session session(ir, {{.check_inplace_ambiguity = false}, {.num_threads = 1}});
  std::vector<std::vector<float>> results;
  std::vector<StreamBuffer> outputs;
  for (const StreamDesc& stream : session.output_streams()) {
    results.emplace_back(static_cast<std::size_t>(num_elements(stream.shape)));
  }
  for (auto& result : results) outputs.push_back({reinterpret_cast<std::byte*>(result.data()), 1});
  session.attach();
  session.run({}, outputs);
  return results;
}

TEST(Passes, RandomProgramsKeepTheirResults) {
  for (unsigned seed = 0; seed < 25; ++seed) {
    const auto ir = random_program(100 + seed, 25);
    const auto expected = results_of(*ir);
    for (const Pass& pass : all_passes()) {
      SCOPED_TRACE(str_cat("seed ", seed, ", pass ", pass.name));
      pass.run(*ir);
      verify(*ir, pass.name);
      const auto given = results_of(*ir);
      ASSERT_EQ(given.size(), expected.size());
      for (std::size_t i = 0; i < given.size(); ++i) {
        for (std::size_t k = 0; k < given[i].size(); ++k) {
          const float wanted = expected[i][k];
          if (std::isnan(wanted)) {
            ASSERT_TRUE(std::isnan(given[i][k]));
          } else {
            // Folding computes tanh and its like with a different, smaller error than the kernels.
            ASSERT_NEAR(given[i][k], wanted, 2e-5f * (1.0f + std::fabs(wanted)));
          }
        }
      }
    }
  }
}

TEST(Passes, EveryCompilerStageKeepsTheRules) {
  const auto target = make_cpu_target(1);
  for (unsigned seed = 0; seed < 10; ++seed) {
    const auto ir = seed == 0 ? program_with_everything() : random_program(seed, 30);
    std::vector<std::string> stages;
    const CompileOptions options = {.after_stage = [&](const std::string& stage, const Ir& now) {
      verify(now, stage);
      stages.push_back(stage);
    }};
    StageTimes times;
    compile(*ir, *target, options, times);
    EXPECT_NE(std::find(stages.begin(), stages.end(), "cse"), stages.end());
  }
}

template <class T>
bool evaluate_binary(ScalarOp op, DType dtype, T a, T b, T& result) {
  ScalarProgram program;
  ScalarEmitter emitter(program);
  const ScalarValue x = emitter.load(0, dtype), y = emitter.load(1, dtype);
  emitter.store(0, emitter.as_dtype(emitter.emit(op, x, y), dtype), dtype);
  const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(&a),
                               reinterpret_cast<const std::byte*>(&b)};
  std::byte* outputs[] = {reinterpret_cast<std::byte*>(&result)};
  return evaluate_scalar(program, inputs, outputs, 0);
}

TEST(ScalarEvaluator, ArithmeticIsThatOfTheDtype) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const auto a = static_cast<std::int32_t>(random()), b = static_cast<std::int32_t>(random());
    std::int32_t sum = 0, product = 0;
    ASSERT_TRUE(evaluate_binary(ScalarOp::Add, DType::Int32, a, b, sum));
    ASSERT_TRUE(evaluate_binary(ScalarOp::Mul, DType::Int32, a, b, product));
    EXPECT_EQ(sum, static_cast<std::int32_t>(static_cast<std::uint32_t>(a) +
                                             static_cast<std::uint32_t>(b)));
    EXPECT_EQ(product, static_cast<std::int32_t>(static_cast<std::int64_t>(a) * b));
    const float x = static_cast<float>(a) * 1e-3f, y = static_cast<float>(b) * 1e-5f;
    float quotient = 0, difference = 0;
    ASSERT_TRUE(evaluate_binary(ScalarOp::Div, DType::Float32, x, y, quotient));
    ASSERT_TRUE(evaluate_binary(ScalarOp::Sub, DType::Float32, x, y, difference));
    EXPECT_EQ(quotient, x / y);
    EXPECT_EQ(difference, x - y);
    std::uint8_t narrow = 0;
    const auto p = static_cast<std::uint8_t>(a), q = static_cast<std::uint8_t>(b);
    ASSERT_TRUE(evaluate_binary(ScalarOp::Sub, DType::UInt8, p, q, narrow));
    EXPECT_EQ(narrow, static_cast<std::uint8_t>(p - q));
  }
}

TEST(ScalarEvaluator, EdgesOfIntegerDivision) {
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t r = 1;
  EXPECT_TRUE(evaluate_binary<std::int64_t>(ScalarOp::Div, DType::Int64, 7, 0, r));
  EXPECT_EQ(r, 0);
  EXPECT_TRUE(evaluate_binary<std::int64_t>(ScalarOp::Div, DType::Int64, least, -1, r));
  EXPECT_EQ(r, least);
  EXPECT_TRUE(evaluate_binary<std::int64_t>(ScalarOp::Div, DType::Int64, -7, 2, r));
  EXPECT_EQ(r, -3);
  EXPECT_TRUE(evaluate_binary<std::int64_t>(ScalarOp::Rem, DType::Int64, -7, 2, r));
  EXPECT_EQ(r, -1);
}

TEST(ScalarEvaluator, FloatsOutOfRangeOfAnIntegerSaturate) {
  ScalarProgram program;
  ScalarEmitter emitter(program);
  emitter.store(0, emitter.convert(emitter.load(0, DType::Float32), LaneType::I32), DType::Int32);
  const auto convert = [&](float value, std::int32_t& result) {
    const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(&value)};
    std::byte* outputs[] = {reinterpret_cast<std::byte*>(&result)};
    return evaluate_scalar(program, inputs, outputs, 0);
  };
  std::int32_t result = 0;
  EXPECT_TRUE(convert(-2.75f, result));
  EXPECT_EQ(result, -2);
  EXPECT_TRUE(convert(3e9f, result));
  EXPECT_EQ(result, std::numeric_limits<std::int32_t>::max());
  EXPECT_TRUE(convert(-HUGE_VALF, result));
  EXPECT_EQ(result, std::numeric_limits<std::int32_t>::min());
  EXPECT_TRUE(convert(std::nanf(""), result));
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace pando::testing
