// Each rule of steps: a program that keeps all but one, and the words about it.
#include <gtest/gtest.h>

#include "pando/steps/step_parser.hpp"
#include "pando/steps/step_verifier.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

constexpr const char* kTables = R"(pando-steps 1
devices [0, 1]
main 1
persistent_bytes 128, 0
persistent "w" : (4,) float32 offset 0
persistent "row" : () int32 offset 64
remote_buffer 1 : (4,) float32 entries 3
from_host "x" : (4,) float32
to_host "y" : (4,) float32
kernel 0 Fill ((4,) float32) to ((4,) float32)
kernel 1 Fused ((2, 2) float32, (2, 2) float32, (2, 2) float32) to ((2, 2) float32) products [(0, 1, 2) in 0] scalar {
  %0 = Load.f32()
  %1 = Store.f32(%0)
}
function 0 "f" inputs 1 arguments 2 {
  storage %0 argument 0 : 16 bytes "x" read_only
  storage %1 argument 1 : 16 bytes "y"
  kernel Fill.0(in %0, out %1)
}
)";

/// `main` takes %0 and gives %1; %2 and %3 are 16 bytes of its own, %4 a row number.
std::string error_with(const std::string& instructions, const std::string& tables = kTables) {
  const std::string main = str_cat(tables,
                                   "function 1 \"main\" inputs 1 arguments 2 {\n"
                                   "  storage %0 argument 0 : 16 bytes \"x\" read_only\n"
                                   "  storage %1 argument 1 : 16 bytes \"y\"\n"
                                   "  storage %2 local : 16 bytes \"a\"\n"
                                   "  storage %3 local : 16 bytes \"b\"\n"
                                   "  storage %4 global 64 : 4 bytes \"row\" read_only\n",
                                   instructions, "  kernel Fill.0(in %0, out %1)\n}\n");
  return error_of([&] { check_steps(parse_steps(main)); });
}

void expect_faults(const std::vector<std::pair<const char*, const char*>>& cases) {
  EXPECT_EQ(error_with(""), "no error");
  for (const auto& [instructions, wanted] : cases) {
    const std::string error = error_with(instructions);
    EXPECT_NE(error.find(wanted), std::string::npos) << instructions << "\ngave: " << error;
  }
}

TEST(StepVerifier, OperandsFitWhatTheyAreFor) {
  expect_faults(
      {{"  kernel Fill.0(in %0)\n", "instruction 0 (kernel): wanted 2 operands, given 1"},
       {"  kernel Fill.0(in %0[8], out %2)\n",
        "operand 0 reaches from 8 to 24 of the 16 bytes of %0"},
       {"  kernel Fill.0(in %9, out %2)\n", "there is no storage %9"},
       {"  kernel Fill.0(in %0, in %0)\n", "operand 1 is written, so it is no 'in'"},
       {"  kernel Fill.0(in %0, out %0)\n", "it writes %0, which is read_only"},
       {"  kernel Fill.0(in %0, out %2) in_place [1]\n", "it cannot write over input 1"},
       {"  kernel Fill.0(in %0, out %2) in_place [0] output 1\n", "which is not as output 1"},
       {"  kernel Fill.0(in %0, out %2)\n  kernel Fused.1(-, in %2, in %0, out %2)\n",
        "operand 1 lies where it makes a product"},
       {"  call 0(in %0, out %2) in_place [0]\n", "only kernels write over inputs"},
       {"  copy 0 bytes 17(in %0, out %2)\n", "reaches from 0 to 17"},
       {"  call 0(in %0)\n", "wanted 2 operands, given 1"},
       {"  call 0(in %0, -)\n", "operand 1 is not connected"},
       {"  call 0(in %0, in %0)\n", "operand 1 is written, so it is no 'in'"},
       {"  call 1(in %0, out %2)\n", "there is no function before this one with the number 1"},
       {"  host_load 1(out %2)\n", "the stream 'y' goes the other way"},
       {"  host_store 0(in %0)\n", "the stream 'x' goes the other way"},
       {"  host_load 2(out %2)\n", "there is no stream 2"},
       {"  remote_load 1(in %4, out %2)\n", "there is no remote buffer 1"},
       {"  remote_load 0(in %4[4], out %2)\n", "operand 0 reaches from 4 to 8"},
       {"  loop 0 times 3 carried 0(in %0, out %2)\n", "its body carries other values"},
       {"  if 0 else 0 then_inputs 2(in %0, in %0, in %0, out %2)\n",
        "it gives 2 operands to a branch with 1 inputs"},
       {"  if 0 else 0 then_inputs 1(in %0, in %0, out %2)\n", "wanted 4 operands, given 3"},
       {"  print 0(in %0)\n", "there is no print 0"},
       {"  collective 0(in %0, out %2)\n", "there is no collective 0"},
       {"  kernel Fill.0(in %0, out %2) device 2\n", "there is no device 2"},
       {"  kernel Fill.0(in %0, out %2) source 0\n", "there is no source 0"},
       {"  kernel Fill.0(in %0, out %2) constant_row 1\n", "it has no row of a remote buffer"},
       {"  kernel Fill.0(in %0, out %2) frame %3\n", "it calls nothing, so it has no frame"},
       {"  kernel Fill.0(in %0, out %2) row 0\n", "it is no load, so it has no row"}});
}

TEST(StepVerifier, APackedMatrixIsARowOfNumbersWithTheShapeOfTheMatrix) {
  const auto error_of_kernel = [](const std::string& attributes, const std::string& right) {
    std::string tables = kTables;
    const std::string kernel = "Fused ((2, 2) float32, (2, 2) float32, (2, 2) float32)";
    tables.replace(tables.find(kernel), kernel.size(),
                   str_cat("Fused ", attributes, "((2, 2) float32, (2, 2) float32, ", right, ")"));
    return error_with("", tables);
  };
  EXPECT_EQ(error_of_kernel("{packed_right = [2, 2]} ", "(48,) float32"), "no error");
  const std::pair<const char*, const char*> cases[] = {
      {"[3, 2]", "matrices that do not fit"},
      {"[2]", "matrices that do not fit"},
      {"[2, 3]", "a place of another shape"},
      {"2", "no row of numbers with a shape"},
      {"[4611686018427387904, 4611686018427387904]", "larger than any memory"}};
  for (const auto& [shape, wanted] : cases) {
    const std::string error =
        error_of_kernel(str_cat("{packed_right = ", shape, "} "), "(48,) float32");
    EXPECT_NE(error.find(wanted), std::string::npos) << shape << "\ngave: " << error;
  }
  const std::string error = error_of_kernel("{packed_right = [2, 2]} ", "(4, 12) float32");
  EXPECT_NE(error.find("no row of numbers"), std::string::npos) << error;
}

TEST(StepVerifier, ValuesAreThereBeforeTheyAreRead) {
  expect_faults({{"  kernel Fill.0(in %2, out %3)\n", "it reads %2, which nothing has written"},
                 {"  kernel Fill.0(in %1, out %3)\n", "it reads %1, which nothing has written"}});
  const std::string nothing = str_cat(kTables,
                                      "function 1 \"main\" inputs 0 arguments 1 {\n"
                                      "  storage %0 argument 0 : 16 bytes \"y\"\n}\n");
  EXPECT_NE(error_of([&] {
              parse_steps(nothing);
            }).find("function 1 ('main'): nothing writes %0, which is output argument 0"),
            std::string::npos);
}

TEST(StepVerifier, TransfersStartAndAreWaitedForOnce) {
  const std::string start = "  remote_load_start 0 transfer 0(in %4, out %2)\n";
  const std::string wait = "  remote_load_wait 0 transfer 0(out %2)\n";
  EXPECT_EQ(error_with(start + wait), "no error");
  const std::pair<std::string, const char*> cases[] = {
      {start, "a transfer is not waited for"},
      {wait, "transfer 0 has not started"},
      {start + wait + start + wait, "transfer 0 is there twice"},
      {start + "  remote_load_wait 0 transfer 0(out %3)\n", "transfer 0 goes elsewhere"},
      {start + "  kernel Fill.0(in %2, out %3)\n" + wait,
       "instruction 1 (kernel): it touches %2, which transfer 0 fills meanwhile"}};
  for (const auto& [instructions, wanted] : cases) {
    const std::string error = error_with(instructions);
    EXPECT_NE(error.find(wanted), std::string::npos) << instructions << "\ngave: " << error;
  }
}

/// `main` with %2, a row, and what loads and uses it.
std::string error_of_row(const std::string& storage, const std::string& instructions) {
  const std::string main =
      str_cat(kTables,
              "function 1 \"main\" inputs 1 arguments 2 {\n"
              "  storage %0 argument 0 : 16 bytes \"x\" read_only\n"
              "  storage %1 argument 1 : 16 bytes \"y\"\n  ",
              storage, "\n", instructions, "  kernel Fill.0(in %0, out %1)\n}\n");
  return error_of([&] { parse_steps(main); });
}

TEST(StepVerifier, RowsBelongToOneLoad) {
  const std::string row = "storage %2 local : 16 bytes \"a\" row 0";
  const std::string load = "  host_load 0(out %2) row 0\n";
  EXPECT_EQ(error_of_row(row, load), "no error");
  const std::tuple<std::string, std::string, const char*> cases[] = {
      {row, "", "wanted as many loads as rows (1), given 0"},
      {"storage %2 local : 16 bytes \"a\"", load, "it fills %2, which is not its row"},
      {row, load + load, "its row %2 is written, and it does not say so"},
      {row, load + "  kernel Fill.0(in %0, out %2)\n", "its row %2 is written"},
      {row, "  host_load 0(out %2) row 0 written\n", "only rows of remote buffers are written"},
      {"storage %2 global 0 : 16 bytes \"w\" row 0", load, "%2 cannot be a row"}};
  for (const auto& [storage, instructions, wanted] : cases) {
    const std::string error = error_of_row(storage, instructions);
    EXPECT_NE(error.find(wanted), std::string::npos) << storage << "\ngave: " << error;
  }
}

/// A planned `main` whose storages %2 and %3 follow `storages`.
std::string error_of_plan(const std::string& storages, const std::string& rest = {}) {
  const std::string main =
      str_cat(kTables, "function 1 \"main\" inputs 1 arguments 2 devices [0, 1] frame 128, 0 {\n",
              "  storage %0 argument 0 : 16 bytes \"x\" read_only alive 0 to 1\n"
              "  storage %1 argument 1 : 16 bytes \"y\" alive 2 to 2\n",
              storages,
              "  kernel Fill.0(in %0, out %2) device 0\n"
              "  kernel Fill.0(in %0, out %3) device 1\n"
              "  kernel Fill.0(in %2, out %1) device 0\n",
              rest, "}\n");
  return error_of([&] { parse_steps(main); });
}

TEST(StepVerifier, PlannedStoragesAreApartWhileTheyAreAlive) {
  const std::string first = "  storage %2 local : 16 bytes \"a\" alive 0 to 2\n";
  const std::string second = "  storage %3 local : 16 bytes \"b\" alive 1 to 1 offset 64\n";
  EXPECT_EQ(error_of_plan(first + second), "no error");
  const std::pair<std::string, const char*> cases[] = {
      {first + "  storage %3 local : 16 bytes \"b\" alive 1 to 1 offset 8\n",
       "%2 and %3 overlap while both are alive"},
      {first + "  storage %3 local : 16 bytes \"b\" alive 1 to 1 offset 120\n",
       "%3 is not within the frame of 128 bytes"},
      {first + "  storage %3 local : 16 bytes \"b\" alive 2 to 2 offset 64\n",
       "instruction 1 (kernel): %3 is not alive"},
      {first + "  storage %3 local : 16 bytes \"b\" alive 1 to 9 offset 64\n",
       "%3 is alive from instruction 1 to 9"}};
  for (const auto& [storages, wanted] : cases) {
    const std::string error = error_of_plan(storages);
    EXPECT_NE(error.find(wanted), std::string::npos) << storages << "\ngave: " << error;
  }
}

TEST(StepVerifier, StreamsRunEveryInstructionOnItsDevice) {
  const std::string storages =
      "  storage %2 local : 16 bytes \"a\" alive 0 to 2\n"
      "  storage %3 local : 16 bytes \"b\" alive 1 to 1 offset 64\n";
  EXPECT_EQ(error_of_plan(storages, "  stream 0 [run 0, run 2]\n  stream 1 [run 1]\n"), "no error");
  const std::pair<const char*, const char*> cases[] = {
      {"  stream 0 [run 0, run 2]\n", "it has 1 streams for 2 devices"},
      {"  stream 0 [run 0]\n  stream 1 [run 1]\n", "no stream runs instruction 2"},
      {"  stream 0 [run 2, run 0]\n  stream 1 [run 1]\n", "device 0 runs instruction 0 after 2"},
      {"  stream 0 [run 0, run 1, run 2]\n  stream 1 []\n",
       "device 0 runs instruction 1 of device 1"},
      {"  stream 0 [run 0, wait 0, run 2]\n  stream 1 [run 1]\n",
       "device 0 signals to or waits for device 0"}};
  for (const auto& [streams, wanted] : cases) {
    const std::string error = error_of_plan(storages, streams);
    EXPECT_NE(error.find(wanted), std::string::npos) << streams << "\ngave: " << error;
  }
}

TEST(StepVerifier, CallsGetTheFramesThatTheyNeed) {
  const std::string callee =
      "pando-steps 1\nmain 1\nkernel 0 Fill ((4,) float32) to ((4,) float32)\n"
      "function 0 \"f\" inputs 1 arguments 2 devices [0] frame 64 {\n"
      "  storage %0 argument 0 : 16 bytes \"x\" read_only alive 0 to 0\n"
      "  storage %1 argument 1 : 16 bytes \"y\" alive 1 to 1\n"
      "  storage %2 local : 16 bytes \"a\" alive 0 to 1\n"
      "  kernel Fill.0(in %0, out %2) device 0\n"
      "  kernel Fill.0(in %2, out %1) device 0\n}\n"
      "function 1 \"main\" inputs 1 arguments 2 devices [0] frame 64 {\n"
      "  storage %0 argument 0 : 16 bytes \"x\" read_only alive 0 to 0\n"
      "  storage %1 argument 1 : 16 bytes \"y\" alive 0 to 0\n";
  const auto error_of_call = [&](const std::string& rest) {
    return error_of([&] { parse_steps(callee + rest + "}\n"); });
  };
  const std::string frame =
      "  storage %2 local : 64 bytes \"frame of f\" frame_of 0 alive 0 to 0\n";
  EXPECT_EQ(error_of_call(frame + "  call 0(in %0, out %1) frame %2 device 0\n"), "no error");
  EXPECT_NE(error_of_call("  call 0(in %0, out %1) device 0\n")
                .find("it calls what needs a frame of 64 bytes on device 0; given 0"),
            std::string::npos);
  EXPECT_NE(error_of_call("  storage %2 local : 63 bytes \"a\" frame_of 0\n"
                          "  call 0(in %0, out %1) device 0\n")
                .find("%2 has another size than the frame of function 0"),
            std::string::npos);
}

TEST(StepVerifier, CalleesHaveOneFrameOnEachDevice) {
  const std::string callee =
      "pando-steps 1\ndevices [0, 1]\nmain 1\n"
      "kernel 0 Fill ((4,) float32) to ((4,) float32)\n"
      "function 0 \"f\" inputs 1 arguments 2 devices [0, 1] frame 64, 128 {\n"
      "  storage %0 argument 0 : 16 bytes \"x\" read_only alive 0 to 0\n"
      "  storage %1 argument 1 : 16 bytes \"y\" alive 2 to 2 device 1\n"
      "  storage %2 local : 16 bytes \"a\" alive 0 to 1 shared\n"
      "  storage %3 local : 128 bytes \"b\" alive 1 to 2 device 1\n"
      "  kernel Fill.0(in %0, out %2) device 0\n"
      "  kernel Fill.0(in %2, out %3) device 1\n"
      "  kernel Fill.0(in %3, out %1) device 1\n}\n"
      "function 1 \"main\" inputs 1 arguments 2 devices [0, 1] frame 64, 256 {\n"
      "  storage %0 argument 0 : 16 bytes \"x\" read_only alive 0 to 0\n"
      "  storage %1 argument 1 : 16 bytes \"y\" alive 0 to 0 device 1\n"
      "  storage %2 local : 64 bytes \"frame of f\" frame_of 0 alive 0 to 0\n";
  const std::string second =
      "  storage %3 local : 128 bytes \"frame of f\" frame_of 0 alive 0 to 0 device 1\n";
  const auto error_of_call = [&](const std::string& rest) {
    return error_of([&] { parse_steps(callee + rest + "}\n"); });
  };
  EXPECT_EQ(error_of_call(second + "  call 0(in %0, out %1) frame %2, %3 device 0\n"), "no error");
  const std::pair<std::string, const char*> cases[] = {
      {second + "  call 0(in %0, out %1) frame %2 device 0\n",
       "it calls what needs a frame of 128 bytes on device 1; given 0"},
      {second + "  call 0(in %0, out %1) frame %3, %3 device 0\n",
       "%3 is not its callee's only frame on device 1"},
      {"  storage %3 local : 64 bytes \"frame of f\" frame_of 0 alive 0 to 0 device 1\n"
       "  call 0(in %0, out %1) frame %2, %3 device 0\n",
       "%3 has another size than the frame of function 0 on device 1"}};
  for (const auto& [rest, wanted] : cases) {
    const std::string error = error_of_call(rest);
    EXPECT_NE(error.find(wanted), std::string::npos) << rest << "\ngave: " << error;
  }
}

/// `main` sends %0 from device 0 to %2 on device 1; %3 is on device 1, too.
std::string error_of_sends(const std::string& instructions) {
  const std::string main = str_cat(kTables,
                                   "function 1 \"main\" inputs 1 arguments 2 {\n"
                                   "  storage %0 argument 0 : 16 bytes \"x\"\n"
                                   "  storage %1 argument 1 : 16 bytes \"y\"\n"
                                   "  storage %2 local : 16 bytes \"a\" device 1\n"
                                   "  storage %3 local : 16 bytes \"b\" device 1\n",
                                   instructions, "  kernel Fill.0(in %0, out %1)\n}\n");
  return error_of([&] { parse_steps(main); });
}

TEST(StepVerifier, WhatIsSentIsReceivedOnce) {
  const std::string send = "  send 1 number 0 bytes 16(in %0) device 0\n";
  const std::string receive = "  receive 0 number 0 bytes 16(in %0, out %2) device 1\n";
  EXPECT_EQ(error_of_sends(send + receive), "no error");
  const std::pair<std::string, const char*> cases[] = {
      {send, "a value that is sent is not received"},
      {receive, "nothing has sent number 0"},
      {send + receive + send + receive, "number 0 is there twice"},
      {send + "  receive 0 number 0 bytes 8(in %0, out %2) device 1\n",
       "number 0 was sent as another value"},
      {send + "  receive 0 number 0 bytes 16(in %0, out %1) device 1\n",
       "wanted %1 on device 1; given on device 0"},
      {"  send 0 number 0 bytes 16(in %0) device 1\n" + receive,
       "wanted %0 on device 1; given on device 0"},
      {"  send 0 number 0 bytes 16(in %0) device 0\n" + receive, "it sends to its own device"},
      {"  send 2 number 0 bytes 16(in %0) device 0\n" + receive, "there is no device 2"},
      {send + "  kernel Fill.0(in %0, out %0)\n" + receive,
       "it writes %0, which number 0 has not brought yet"},
      {"  send 1 number 0 bytes 17(in %0) device 0\n" + receive, "reaches from 0 to 17"}};
  for (const auto& [instructions, wanted] : cases) {
    const std::string error = error_of_sends(instructions);
    EXPECT_NE(error.find(wanted), std::string::npos) << instructions << "\ngave: " << error;
  }
}

/// Planned, on two devices; %2 and %4 lie on the second one.
std::string error_of_separate(const std::string& memories, const std::string& instruction) {
  const std::string main =
      "kernel 0 Fill ((4,) float32) to ((4,) float32)\n"
      "function 0 \"f\" inputs 1 arguments 2 devices [0, 1] frame 0, 0 {\n"
      "  storage %0 argument 0 : 16 bytes \"x\" read_only alive 1 to 1 device 1\n"
      "  storage %1 argument 1 : 16 bytes \"y\" alive 0 to 0\n"
      "  storage %2 global 0 : 16 bytes \"w\" alive 0 to 1\n"
      "  storage %3 global 0 : 16 bytes \"v\" alive 1 to 1 device 1\n"
      "  kernel Fill.0(in %2, out %1) device 0\n"
      "  kernel Fill.0(in %0, out %3) device 1\n}\n"
      "function 1 \"main\" inputs 2 arguments 3 devices [0, 1] frame 0, 0 {\n"
      "  storage %0 argument 0 : 16 bytes \"x\" alive 0 to 1\n"
      "  storage %1 argument 1 : 1 bytes \"condition\" read_only alive 0 to 0\n"
      "  storage %2 argument 2 : 16 bytes \"y\" alive 0 to 1 device 1\n"
      "  storage %3 global 0 : 16 bytes \"w\" alive 0 to 0\n"
      "  storage %4 global 0 : 16 bytes \"v\" alive 0 to 1 device 1\n";
  return error_of([&] {
    parse_steps(str_cat("pando-steps 1\ndevices [0, 1]\n", memories,
                        "main 1\npersistent_bytes 64, 64\n"
                        "persistent \"w\" : (4,) float32 offset 0\n"
                        "persistent \"v\" : (4,) float32 offset 0 device 1\n",
                        main, instruction, "  kernel Fill.0(in %4, out %2) device 1\n}\n"));
  });
}

TEST(StepVerifier, WithSeparateMemoriesOperandsLieWhereTheyAreUsed) {
  const std::pair<const char*, const char*> cases[] = {
      {"  kernel Fill.0(in %4, out %0) device 0\n", "it is on device 0 and uses %4 of device 1"},
      {"  kernel Fill.0(in %4, out %0) device 1\n", "it is on device 1 and uses %0 of device 0"},
      {"  call 0(in %3, out %0) device 0\n",
       "operand 0 is on device 0; function 0 wants it on device 1"},
      {"  if 0 else 0 then_inputs 1(in %1, in %4, in %4, out %0) device 0\n",
       "wanted 5 operands, given 4"},
      {"  if 0 else 0 then_inputs 1(in %1, in %1, in %4, in %4, out %0) device 0\n",
       "wanted the condition %1 on device 1; given on device 0"}};
  for (const auto& [instruction, wanted] : cases) {
    const std::string error = error_of_separate("separate_memories\n", instruction);
    EXPECT_NE(error.find(wanted), std::string::npos) << instruction << "\ngave: " << error;
    EXPECT_EQ(error_of_separate("", instruction), "no error");
  }
  EXPECT_EQ(error_of_separate("separate_memories\n", "  call 0(in %4, out %0) device 0\n"),
            "no error");
}

TEST(StepVerifier, WhatTheCompilerMadeIsAnInternalFault) {
  StepProgram program =
      parse_steps(str_cat(kTables, "function 1 \"main\" inputs 0 arguments 0 {\n}\n"));
  program.functions[1].instructions.emplace_back();
  EXPECT_THROW(verify(program, "a stage"), InternalError);
  EXPECT_NE(
      error_of([&] { verify(program, "a stage"); }).find("after a stage: function 1 ('main')"),
      std::string::npos);
}

}  // namespace
}  // namespace pando::testing
