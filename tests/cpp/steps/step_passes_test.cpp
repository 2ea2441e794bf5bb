// Passes over steps: text cases from tests/steps.
#include <gtest/gtest.h>

#include "pando/compile/step_passes.hpp"
#include "pando/steps/step_parser.hpp"
#include "pando/steps/step_printer.hpp"
#include "pando/steps/step_verifier.hpp"
#include "tests/cpp/compile/wrapped_target.hpp"
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

class NamedKernel : public Kernel {
 public:
  explicit NamedKernel(std::string kind) : kind_(std::move(kind)) {}
  std::size_t scratch_bytes() const override { return kind_ == "Fused" ? 128 : 0; }
  std::string explain() const override { return kind_; }

 private:
  std::string kind_;
};

/// What kernels need does not depend on the processor.
class TextTarget : public WrappedTarget {
 public:
  KernelImages images_of(const KernelSpec& spec) const override {
    const bool is_conv = spec.kind == "Conv" && !spec.attributes.has("channel_last");
    return is_conv ? KernelImages{{0, 2}, {0, 2}} : WrappedTarget::images_of(spec);
  }
  std::optional<PreparedInput> prepared_input(const KernelSpec& spec) const override {
    if (spec.kind != "Conv" || spec.attributes.has("laid_out")) return std::nullopt;
    PreparedInput prepared{1, {}, spec};
    prepared.maker.kind = "LaidOut";
    prepared.maker.inputs = {spec.inputs[1]};
    prepared.maker.outputs = {OperandDesc::contiguous(DType::Float32, {16})};
    prepared.user.attributes.set("laid_out", true);
    prepared.user.inputs[1] = prepared.maker.outputs.front();
    if (spec.attributes.has("restorable")) {
      prepared.restorer = {.kind = "Restored",
                           .attributes = {},
                           .inputs = prepared.maker.outputs,
                           .outputs = prepared.maker.inputs,
                           .scalar = {},
                           .products = {}};
    }
    return prepared;
  }
  /// One such input.
  std::int64_t most_prepared_bytes() const override { return 64; }
  std::shared_ptr<const Kernel> prepare(const KernelSpec& spec) override {
    for (const auto& [known, kernel] : kernels_) {
      if (known == spec) return kernel;
    }
    return kernels_.emplace_back(spec, std::make_shared<NamedKernel>(spec.kind)).second;
  }

 private:
  std::vector<std::pair<KernelSpec, std::shared_ptr<const Kernel>>> kernels_;
};

TEST(StepPasses, TextCases) {
  const std::vector<TextCase> cases = read_text_cases("steps");
  for (const StepPass& pass : all_step_passes()) {
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(),
                            [&](const TextCase& c) { return c.pass == pass.name; }))
        << pass.name << " has no case";
  }
  TextTarget target;
  for (const TextCase& c : cases) {
    SCOPED_TRACE(c.pass + ": " + c.title);
    StepProgram program;
    ASSERT_EQ(error_of([&] { program = parse_steps("pando-steps 1\n" + c.before); }), "no error");
    find_step_pass(c.pass).run(program, target);
    verify(program, c.pass);
    EXPECT_EQ(without_empty_lines(functions_of(program)), without_empty_lines(c.after));
  }
}

TEST(StepPasses, UnknownNamesAreListed) {
  const std::string error = error_of([] { find_step_pass("nonsense"); });
  EXPECT_NE(error.find("there is no pass over steps 'nonsense'; the passes are "
                       "absorb_products, channels_last, prepare_weights, prepare_kernels"),
            std::string::npos)
      << error;
}

}  // namespace
}  // namespace pando::testing
