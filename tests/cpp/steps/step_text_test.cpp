// The text form of steps: what parses, prints the same; what does not says where and why.
#include <gtest/gtest.h>

#include <random>

#include "pando/compile/memory_reports.hpp"
#include "pando/compile/resolve_steps.hpp"
#include "pando/compile/step_passes.hpp"
#include "pando/program/check.hpp"
#include "pando/steps/step_parser.hpp"
#include "pando/steps/step_printer.hpp"
#include "pando/steps/step_verifier.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"
#include "tests/cpp/ir/text_mutation.hpp"

namespace pando::testing {
namespace {

/// Every kind of table, storage and instruction, as they print.
constexpr const char* kEverything = R"steps(pando-steps 1
replicas 4
devices [0, 2]
prefetch 4096
main 3
weights_from_host 4
weights_to_host 4
persistent_bytes 192, 128
persistent "w" : (4,) float32 offset 0 variable groups [0, 0, 1, 1] per_replica
persistent "row" : () int32 offset 64
persistent "c" : (2, 2) float32 offset 128
persistent "staged" : (4,) float32 offset 192 variable make 4 restore 4
persistent "d" : (4,) float32 offset 64 device 1
remote_buffer 7 : (4,) float32 entries 3
remote_variable "v" : (8,) float32 buffer 0 remote 7 slot 1 shards 2
from_host "x" : (4,) float32
to_host "y \"quoted\"" : (4,) float32
collective 0 reduce_scatter mean float32 4 to 2 groups 2 stride 2 "ReduceScatter (m.py:3)"
print 0 "title" : (4,) float32 {digits = 4, separator = ", ", summarise = false}
kernel 0 Fill {dims = [1, 2], empty = numbers [], kind = float16, none = [], scale = 0.5, scales = [1.0, -inf], wordless = texts [], words = ["a", "b \"c\""]} () to ((4,) float32)
kernel 1 MatMul ((2, 2) float32 strides [1, 2], (2, 2) float32) to ((2, 2) float32)
kernel 2 Fused ((2, 2) float32, (2, 1) float32, (1, 2) float32) to ((2, 2) float32) products [(0, 1, 2) in 0] scalar {
  %0 = Load.f32()
  %1 = Constant.f32() number 0.10000000000000001
  %2 = Constant.i64() integer -3
  %3 = Fma.f32(%0, %1, %0)
  %4 = Round.f32(%3) float16
  %5 = Philox.u32(%2, %2, %2) index 3
  %6 = Store.f32(%4)
}
source 0 "" at "" phase "forward"
source 1 "MatMul 'fc1'" at "model.py:12" phase "forward"

function 0 "f" inputs 1 arguments 2 devices [0] frame 0, 0 {
  storage %0 argument 0 : 16 bytes "a" read_only alive 0 to 0
  storage %1 argument 1 : 16 bytes "b" alive 0 to 0
  copy 0 bytes 16(in %0, out %1) device 0
}

function 1 "body" inputs 4 arguments 6 carried 1 devices [0] frame 64, 0 {
  storage %0 argument 0 : 4 bytes "i" read_only
  storage %1 argument 1 : 1 bytes "go" read_only alive 1 to 1
  storage %2 argument 2 : 16 bytes "a" alive 0 to 0
  storage %3 argument 3 : 16 bytes "b" read_only alive 0 to 0
  storage %4 argument 4 : 1 bytes "go on" alive 1 to 1
  storage %5 argument 5 : 16 bytes "c" alive 0 to 0
  storage %6 local : 16 bytes "scratch" at "model.py:3" alive 0 to 0
  kernel MatMul.1(in %2, in %3, out %5, out %6) device 0
  copy 0 bytes 1(in %1, out %4) device 0
}

function 2 "other" inputs 1 arguments 2 devices [0] frame 0, 0 {
  storage %0 argument 0 : 16 bytes "a" read_only alive 0 to 0
  storage %1 argument 1 : 16 bytes "b" alive 0 to 0
  copy 0 bytes 16(in %0, out %1) device 0
}

function 3 "main" inputs 0 arguments 0 devices [0, 1] frame 576, 64 {
  storage %0 global 0 : 16 bytes "w" alive 1 to 13
  storage %1 global 64 : 4 bytes "row" read_only alive 0 to 6
  storage %2 global 128 : 16 bytes "c" read_only alive 5 to 9
  storage %3 local : 16 bytes "x" row 0 alive 2 to 4 offset 512
  storage %4 local : 16 bytes "weights" alive 0 to 15 shared
  storage %5 local : 16 bytes "stored" row 1 alive 3 to 12 offset 64
  storage %6 local : 16 bytes "from call" alive 5 to 13 offset 128
  storage %7 local : 64 bytes "frame of body" frame_of 1 alive 9 to 9 offset 192
  storage %8 local : 4 bytes "Iterator___" undefined alive 9 to 9 offset 256
  storage %9 local : 1 bytes "LoopCond___" alive 9 to 10 offset 320
  storage %10 local : 1 bytes "LoopCond___" alive 9 to 9 offset 384
  storage %11 local : 16 bytes "A" alive 7 to 9 offset 448
  storage %12 local : 16 bytes "B" alive 9 to 13 device 1 shared
  storage %13 global 64 : 16 bytes "d" alive 15 to 15 device 1
  remote_load_start 0 transfer 0(in %1, out %4) unsigned constant_row -2 device 0 source 1  # MatMul 'fc1' at model.py:12
  print 0(in %0) device 0
  host_load 0(out %3) row 0 device 0
  remote_load 0(in %1, out %5) constant_row 1 row 1 written device 0
  kernel Fused.2(-, in %3, in %0[8], out %5) device 0
  call 0(in %2, out %6) device 0
  remote_store 0(in %1, in %5) constant_row 1 device 0
  kernel Fill.0(out %11) device 0
  remote_load_wait 0 transfer 0(out %4) device 0
  loop 1 times 3 carried 1(out %8, out %9, out %10, out %11, out %12, in %2) frame %7 device 0
  if 0 else 2 then_inputs 1(in %9, in %4, in %4, out %6) device 0
  collective 0(in %4, out %6[8]) device 0
  host_store 1(in %5) device 0
  copy 0 bytes 16(in %12, out %0) device 1
  send 1 number 0 bytes 16(in %4) device 0
  receive 0 number 0 bytes 16(in %4, out %13) device 1
  stream 0 [run 0, run 1, run 2, run 3, run 4, run 5, run 6, run 7, run 8, run 9, signal 1, run 10, run 11, run 12, run 14, signal 1]
  stream 1 [wait 0, run 13, wait 0, run 15]
  carry 0 to 1 times 2
}

function 4 "prepare staged" inputs 0 arguments 0 devices [0] frame 64, 0 {
  storage %0 local : 16 bytes "staged" undefined alive 0 to 0
  storage %1 global 0 : 16 bytes "w" alive 0 to 0
  copy 0 bytes 16(in %0, out %1) device 0
}
)steps";

std::string parse_error(const std::string& text) {
  return error_of([&] { parse_steps(text); });
}

TEST(StepText, EverythingPrintsAsItWasRead) {
  const std::string printed = print_steps(parse_steps(kEverything));
  EXPECT_EQ(printed, kEverything);
  EXPECT_EQ(print_steps(parse_steps(printed)), printed);
}

TEST(StepText, BecomesAProgram) {
  StepProgram steps = parse_steps(kEverything);
  const MemoryReport memory = measure_memory(steps);
  EXPECT_EQ(memory.peak_frame_bytes, 640);
  const Program program = resolve(steps);
  check_program(program);
  const Function& main = program.functions[3];
  const Instruction& fused = main.instructions[4];
  using Space = OperandRef::Space;
  EXPECT_EQ(fused.operands,
            (std::vector<OperandRef>{
                {}, {Space::Row, 0, 0, 0}, {Space::Global, 0, 0, 8}, {Space::Row, 0, 1, 0}}));
  // A load goes to its own place where the row does not lie in memory.
  EXPECT_EQ(main.instructions[3].operands[1], (OperandRef{Space::Frame, 0, 0, 64}));
  EXPECT_EQ(main.instructions[9].callee_frames, (std::vector<std::int64_t>{192, 0}));
  EXPECT_EQ(main.instructions[13].operands[0], (OperandRef{Space::Frame, 1, 0, 0}));
  EXPECT_EQ(main.instructions[15].operands,
            (std::vector<OperandRef>{{Space::Frame, 0, 0, 0}, {Space::Global, 1, 0, 64}}));
  EXPECT_EQ(program.functions[1].instructions[0].operands[0],
            (OperandRef{Space::Argument, 0, 2, 0}));
}

TEST(StepText, FaultsSayWhereTheyAre) {
  const std::string head = "pando-steps 1\nkernel 0 Fill () to ((4,) float32)\n";
  const std::string main = head + "function 0 \"main\" inputs 0 arguments 0 {\n";
  const std::pair<std::string, const char*> cases[] = {
      {"pando-steps 2\n", "line 1, column 13: wanted version 1; given '2'"},
      {"pando-ir 1\n", "line 1, column 1: wanted 'pando-steps'; given 'pando-ir'"},
      {head, "line 3, column 1: wanted 'function'; given the end of the text"},
      {"pando-steps 1\nkernel 1 Fill () to ()\n",
       "line 2, column 8: wanted kernel 0, the next one; given '1'"},
      {main + "  storage %1 local : 4 bytes \"a\"\n}\n",
       "wanted storage 0, the next one; given '1'"},
      {main + "  storage %0 locale : 4 bytes \"a\"\n}\n",
       "line 4, column 14: wanted local, argument or global; given 'locale'"},
      {main + "  nothing 0()\n}\n",
       "line 4, column 3: wanted an instruction, 'storage', 'stream', 'carry' or '}'"},
      {main + "  kernel Full.0()\n}\n", "wanted Fill, which kernel 0 is; given 'Full'"},
      {main + "  kernel Fill.1()\n}\n", "wanted a kernel of the program; given '1'"},
      {main + "  print 0(%0)\n}\n", "wanted 'in', 'out' or '-'; given '%'"},
      {main + "  stream 0 []\n}\n", "wanted the streams of the function's devices, in order"},
      {main + "  storage %0 local : 99999999999999999999 bytes \"a\"\n}\n",
       "wanted an integer of 64 bits"}};
  for (const auto& [text, wanted] : cases) {
    const std::string error = parse_error(text);
    EXPECT_NE(error.find(wanted), std::string::npos) << text << "gave: " << error;
  }
}

/// How reading, the passes and the last step end: an error about the text, or a sound program.
bool is_accepted(const std::string& text) {
  try {
    StepProgram steps = parse_steps(text);
    EXPECT_EQ(print_steps(parse_steps(print_steps(steps))), print_steps(steps));
    const bool is_planned = steps.functions.front().is_planned();
    if (is_planned) {
      for (const StepFunction& function : steps.functions) {
        if (!function.is_planned()) return true;
      }
      measure_memory(steps);
      check_program(resolve(steps));
    }
    return true;
  } catch (const InternalError& error) {
    ADD_FAILURE() << error.what() << "\n" << text;
    return false;
  } catch (const Error&) {
    return false;
  }
}

/// PANDO_HOSTILE_STEPS: how many.
TEST(HostileSteps, MutationsGiveStepsOrAnError) {
  const char* given = std::getenv("PANDO_HOSTILE_STEPS");
  const int rounds = given == nullptr ? 1500 : std::stoi(given);
  std::mt19937_64 random(7);
  int accepted = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string text = kEverything;
    for (std::size_t edits = 1 + random() % 2; edits > 0; --edits) mutate_text(text, random);
    accepted += is_accepted(text);
    if (HasFailure()) return;
  }
  EXPECT_GT(accepted, rounds / 50);
  EXPECT_LT(accepted, rounds / 2);
}

}  // namespace
}  // namespace pando::testing
