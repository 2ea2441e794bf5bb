// Passes over steps: text cases from tests/steps.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "pando/compile/step_passes.hpp"
#include "pando/steps/step_parser.hpp"
#include "pando/steps/step_printer.hpp"
#include "pando/steps/step_verifier.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

/// tests/steps/<pass>.txt: lines `==== title` separate cases; each is a program, a line `----
/// after` and the functions that the pass makes of it.
struct StepCase {
  std::string pass;
  std::string title;
  std::string before;
  std::string after;
};

std::vector<StepCase> read_cases() {
  std::vector<StepCase> cases;
  for (const auto& entry : std::filesystem::directory_iterator(PANDO_TEST_DATA "/steps")) {
    std::ifstream file(entry.path());
    bool is_after = false;
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("==== ")) {
        cases.push_back({entry.path().stem().string(), line.substr(5), "", ""});
        is_after = false;
      } else if (line == "---- after") {
        is_after = true;
      } else if (!cases.empty() && !line.empty()) {
        (is_after ? cases.back().after : cases.back().before) += line + "\n";
      }
    }
  }
  return cases;
}

/// The functions of a printed program, without empty lines.
std::string functions_of(const StepProgram& program) {
  const std::string text = print_steps(program);
  std::string functions = text.substr(text.find("\nfunction ") + 1);
  for (std::size_t at; (at = functions.find("\n\n")) != std::string::npos;) functions.erase(at, 1);
  return functions;
}

TEST(StepPasses, TextCases) {
  const std::vector<StepCase> cases = read_cases();
  for (const StepPass& pass : all_step_passes()) {
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(),
                            [&](const StepCase& c) { return c.pass == pass.name; }))
        << pass.name << " has no case";
  }
  for (const StepCase& c : cases) {
    SCOPED_TRACE(c.pass + ": " + c.title);
    StepProgram program;
    ASSERT_EQ(error_of([&] { program = parse_steps("pando-steps 1\n" + c.before); }), "no error");
    find_step_pass(c.pass).run(program);
    verify(program, c.pass);
    EXPECT_EQ(functions_of(program), c.after);
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
