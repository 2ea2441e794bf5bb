// Passes over steps: text cases from tests/steps.
#include <gtest/gtest.h>

#include "pando/compile/step_passes.hpp"
#include "pando/steps/step_parser.hpp"
#include "pando/steps/step_printer.hpp"
#include "pando/steps/step_verifier.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"
#include "tests/cpp/ir/text_cases.hpp"

namespace pando::testing {
namespace {

std::string without_empty_lines(std::string text) {
  for (std::size_t at; (at = text.find("\n\n")) != std::string::npos;) text.erase(at, 1);
  return text;
}

std::string functions_of(const StepProgram& program) {
  const std::string text = print_steps(program);
  return text.substr(text.find("\nfunction ") + 1);
}

TEST(StepPasses, TextCases) {
  const std::vector<TextCase> cases = read_text_cases("steps");
  for (const StepPass& pass : all_step_passes()) {
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(),
                            [&](const TextCase& c) { return c.pass == pass.name; }))
        << pass.name << " has no case";
  }
  for (const TextCase& c : cases) {
    SCOPED_TRACE(c.pass + ": " + c.title);
    StepProgram program;
    ASSERT_EQ(error_of([&] { program = parse_steps("pando-steps 1\n" + c.before); }), "no error");
    find_step_pass(c.pass).run(program);
    verify(program, c.pass);
    EXPECT_EQ(without_empty_lines(functions_of(program)), without_empty_lines(c.after));
  }
}

TEST(StepPasses, UnknownNamesAreListed) {
  const std::string error = error_of([] { find_step_pass("nonsense"); });
  EXPECT_NE(error.find("there is no pass over steps 'nonsense'; the passes are "
                       "coalesce_copies, reuse_dying_storages, unused_kernels"),
            std::string::npos)
      << error;
}

}  // namespace
}  // namespace pando::testing
