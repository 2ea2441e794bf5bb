// The binary form of a program: round trips and damaged files.
#include "pando/program/serialise.hpp"

#include <gtest/gtest.h>

#include "pando/ir/serialise.hpp"
#include "pando/session/session.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

Program example_program() {
  const auto ir = random_program(5, 20);
  return Session(*ir, {{.check_inplace_ambiguity = false}, {}}).program();
}

TEST(SerialiseProgram, EveryFieldSurvives) {
  const Program program = example_program();
  const std::string bytes = serialise_program(program);
  const Program again = deserialise_program(bytes);
  EXPECT_EQ(again.kernels, program.kernels);
  EXPECT_EQ(again.functions, program.functions);
  EXPECT_EQ(again.main_function, program.main_function);
  EXPECT_EQ(again.weights_from_host_function, program.weights_from_host_function);
  EXPECT_EQ(again.weights_to_host_function, program.weights_to_host_function);
  EXPECT_EQ(again.persistent, program.persistent);
  EXPECT_EQ(again.persistent_bytes, program.persistent_bytes);
  EXPECT_EQ(again.streams, program.streams);
  EXPECT_EQ(again.remote_buffers, program.remote_buffers);
  EXPECT_EQ(again.prints, program.prints);
  EXPECT_EQ(again.sources, program.sources);
  EXPECT_EQ(again.memory, program.memory);
  EXPECT_EQ(serialise_program(again), bytes);
}

TEST(SerialiseProgram, RemoteRowsSurvive) {
  const Program program = Session(*row_program(), {{}, {.num_threads = 1}}).program();
  const auto& functions = program.functions;
  ASSERT_TRUE(std::any_of(functions.front().instructions.begin(),
                          functions.front().instructions.end(),
                          [](const Instruction& in) { return in.row >= 0 && in.writes_row; }));
  EXPECT_EQ(deserialise_program(serialise_program(program)).functions, functions);
}

TEST(SerialiseProgram, DamageIsNoticed) {
  const std::string bytes = serialise_program(example_program());
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    ASSERT_NE(error_of([&] { deserialise_program(changed); }), "no error") << at;
    ASSERT_NE(error_of([&] { deserialise_program(bytes.substr(0, at)); }), "no error") << at;
  }
  EXPECT_NE(error_of([&] {
              deserialise_program(serialise_ir(*random_program(0, 1)));
            }).find("this is not a stored program"),
            std::string::npos);
}

}  // namespace
}  // namespace pando::testing
