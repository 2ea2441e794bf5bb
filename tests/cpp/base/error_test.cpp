// Errors are told apart by their codes, which outlive a copy into the base class.
#include "pando/base/error.hpp"

#include <gtest/gtest.h>

#include "pando/ir/graph.hpp"
#include "pando/ir/serialise.hpp"
#include "pando/ops/ops.hpp"
#include "pando/transforms/inplace_ambiguity.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

template <class Work>
ErrorCode code_of(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::Internal;
}

TEST(Errors, OfATypeHaveItsCode) {
  EXPECT_EQ(Error("x").code(), ErrorCode::InvalidProgram);
  EXPECT_EQ(Error(ValueError("x")).code(), ErrorCode::InvalidArgument);
  EXPECT_EQ(Error(TypeError("x")).code(), ErrorCode::WrongType);
  EXPECT_EQ(Error(NotSupported("x")).code(), ErrorCode::NotSupported);
  EXPECT_EQ(Error(LoweringError("x")).code(), ErrorCode::NotLowerable);
  EXPECT_EQ(Error(RuntimeFault("x")).code(), ErrorCode::RunFailed);
  EXPECT_EQ(Error(ApplicationFault("x")).code(), ErrorCode::InvalidValue);
  EXPECT_EQ(Error(InternalError("x")).code(), ErrorCode::Internal);
  EXPECT_EQ(Error(Interrupted()).code(), ErrorCode::Interrupted);
  EXPECT_EQ(OutOfMemory("x", "y").code(), ErrorCode::OutOfMemory);
}

TEST(Errors, SayWhatWentWrong) {
  EXPECT_EQ(code_of([] { op_registry().get("Nothing"); }), ErrorCode::NotFound);
  EXPECT_EQ(code_of([] { deserialise_ir("PANDOIR but not whole"); }), ErrorCode::CorruptFile);
  const auto ir = program_with_everything();
  std::string damaged = serialise_ir(*ir);
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 1);
  EXPECT_EQ(code_of([&] { deserialise_ir(damaged); }), ErrorCode::CorruptFile);
}

TEST(Errors, OfWritesWithoutAnOrderHaveACodeOfTheirOwn) {
  op_registry();
  Ir ir;
  OpBuilder ops(ir.main_graph(), {});
  Tensor* v = variable(ir.main_graph(), "v", {1.0f}, {1});
  Tensor* x = variable(ir.main_graph(), "x", {2.0f}, {1});
  for (int i = 0; i < 2; ++i) ops.op("AddLhsInplace", {v, x});
  EXPECT_EQ(code_of([&] { check_inplace_ambiguity(ir); }), ErrorCode::UnorderedAccess);
}

}  // namespace
}  // namespace pando::testing
