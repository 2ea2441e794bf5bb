// Programs with references that lead nowhere are refused; what the compiler makes passes.
#include "pando/program/check.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "pando/base/replicas.hpp"
#include "pando/session/session.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

using Change = std::function<void(Program&)>;

Program compiled(const Ir& ir) {
  return Session(ir, {{.check_inplace_ambiguity = false}, {.num_threads = 1}}).program();
}

TEST(CheckProgram, WhatTheCompilerMakesPasses) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const Program program = compiled(*random_program(seed, 30));
    EXPECT_EQ(error_of([&] { check_program(program); }), "no error") << seed;
  }
}

/// The first instruction of a kind in `program`.
Instruction& first(Program& program, Instruction::Kind kind) {
  for (Function& function : program.functions) {
    for (Instruction& instruction : function.instructions) {
      if (instruction.kind == kind) return instruction;
    }
  }
  throw InternalError("the program has no such instruction");
}

/// A counted loop around `body(x) = x + 1`, and a store of the result.
std::unique_ptr<Ir> loop_program() {
  op_registry();
  auto ir = std::make_unique<Ir>();
  Graph& main = ir->main_graph();
  Tensor* v = variable(main, "v", {1.0f, 2.0f}, {2});
  Graph& body = ir->create_graph("body");
  body.add_input(body.unique_tensor_id("Iterator___"), {DType::Int32, {}, {}});
  body.mark_output(body.add_input(body.unique_tensor_id("LoopCond___"), {DType::Bool, {}, {}}));
  OpBuilder ops(body, {});
  Tensor* x = body.add_input(body.unique_tensor_id("x"), v->info);
  body.mark_output(ops.make("Add", {x, ops.constant(1.0, DType::Float32)}));
  const Op& loop = main.create_op(op_registry().get("Loop"), {nullptr, nullptr, v},
                                  {{"trip_count", std::int64_t{3}}}, {}, {&body});
  store(main, loop.output(0));
  return ir;
}

/// Lets kernel 0 read two elements of persistent memory, `stride` elements apart.
void read_input(Program& program, std::int64_t stride) {
  OperandDesc& input = program.kernels.at(0).inputs.at(0);
  input.shape = {2};
  input.strides = {stride};
  for (Function& function : program.functions) {
    for (Instruction& in : function.instructions) {
      if (in.kind != Instruction::Kind::Kernel || in.target != 0) continue;
      in.operands.at(0) = {OperandRef::Space::Global, 0, 0, 0};
    }
  }
}

void expect_refusals(const Program& sound,
                     const std::vector<std::pair<std::string, Change>>& changes) {
  ASSERT_EQ(error_of([&] { check_program(sound); }), "no error");
  for (const auto& [found, change] : changes) {
    Program changed = sound;
    change(changed);
    const std::string error = error_of([&, &program = changed] { check_program(program); });
    EXPECT_NE(error.find(found), std::string::npos) << found << ": " << error;
  }
}

TEST(CheckProgram, RowsThatNobodyLoadsAreRefused) {
  using Kind = Instruction::Kind;
  const auto operand = [](Program& p) -> OperandRef& {
    return first(p, Kind::RemoteStore).operands.at(1);
  };
  const Program sound = compiled(*row_program());
  Program program = sound;
  ASSERT_EQ(operand(program).space, OperandRef::Space::Row);
  EXPECT_TRUE(first(program, Kind::RemoteLoad).writes_row);
  expect_refusals(
      sound, {{"row that nothing loads", [](Program& p) { first(p, Kind::RemoteLoad).row = 1000; }},
              {"row that nothing loads", [](Program& p) { first(p, Kind::Kernel).row = 0; }},
              {"row that is not loaded", [](Program& p) { first(p, Kind::RemoteLoad).row = -1; }},
              {"row that is not loaded", [&](Program& p) { operand(p).slot = 1; }},
              {"outside of its row", [&](Program& p) { operand(p).offset = 4; }},
              {"remote buffer", [](Program& p) { first(p, Kind::RemoteLoad).target = 4; }},
              {"loaded twice", [](Program& p) {
                 auto& instructions = p.functions.at(0).instructions;
                 instructions.push_back(first(p, Kind::RemoteLoad));
               }}});
}

TEST(CheckProgram, ArraysOfTheHostAreOnlyRead) {
  op_registry();
  using Kind = Instruction::Kind;
  Ir ir;
  Graph& main = ir.main_graph();
  OpBuilder builder(main, {});
  Tensor* from = main.add_stream("from", {DType::Float32, {4}, {}});
  Tensor* to = main.add_stream("to", {DType::Float32, {}, {}});
  ir.add_stream(*from, StreamDirection::HostToDevice);
  ir.add_stream(*to, StreamDirection::DeviceToHost);
  Tensor* init = builder.make(
      "Init", {},
      {{"dtype", DType::Float32}, {"shape", Ints{4}}, {"init_type", std::string("undef")}});
  Tensor* loaded = builder.make("HostLoad", {init}, {{"stream", std::string("from")}});
  Tensor* sum = builder.make("ReduceSum", {loaded}, {{"axes", Ints{0}}, {"keepdims", false}});
  builder.op("HostStore", {sum}, {{"stream", std::string("to")}});
  const Program sound = compiled(ir);
  EXPECT_GE(std::count_if(sound.functions.at(0).instructions.begin(),
                          sound.functions.at(0).instructions.end(),
                          [](const Instruction& in) { return in.row >= 0; }),
            1);
  expect_refusals(
      sound, {{"array of the host that is written",
               [](Program& p) { first(p, Kind::HostLoad).writes_row = true; }},
              {"stream", [](Program& p) { first(p, Kind::HostLoad).target = 7; }},
              {"row that is not loaded", [](Program& p) { first(p, Kind::HostLoad).row = -1; }},
              {"row that is only read",
               [](Program& p) {
                 Instruction& kernel = first(p, Kind::Kernel);
                 kernel.operands.at(1) = kernel.operands.at(0);
               }},
              {"load into a row",
               [](Program& p) {
                 first(p, Kind::HostLoad).operands.at(0) = first(p, Kind::Kernel).operands.at(0);
               }},
              {"loaded twice", [](Program& p) {
                 Function again;
                 again.name = "again";
                 again.frame_bytes = p.functions.at(0).frame_bytes;
                 again.instructions = {first(p, Kind::HostLoad)};
                 p.functions.push_back(again);
               }}});
}

TEST(CheckProgram, ReferencesThatLeadNowhereAreRefused) {
  using Kind = Instruction::Kind;
  const auto operand = [](Program& p, Kind kind) -> OperandRef& {
    return first(p, kind).operands.at(0);
  };
  expect_refusals(
      compiled(*loop_program()),
      {
          {"main function", [](Program& p) { p.main_function = 9; }},
          {"entry function", [](Program& p) { p.weights_to_host_function = 9; }},
          {"kernel", [](Program& p) { first(p, Kind::Kernel).target = -1; }},
          {"too few or too many", [](Program& p) { first(p, Kind::Kernel).operands.clear(); }},
          {"source", [](Program& p) { first(p, Kind::Kernel).source = 1000; }},
          {"device", [](Program& p) { first(p, Kind::Kernel).device = 3; }},
          {"later function", [](Program& p) { first(p, Kind::Loop).target = p.main_function; }},
          {"loop", [](Program& p) { first(p, Kind::Loop).num_carried = 40; }},
          {"loop", [](Program& p) { first(p, Kind::Loop).operands.emplace_back(); }},
          {"stream", [](Program& p) { first(p, Kind::HostStore).target = 7; }},
          {"outside", [](Program& p) { p.persistent.at(0).offset = 1 << 20; }},
          {"outside",
           [](Program& p) {
             p.persistent.at(0).shape = {1 << 20, 1 << 20};
           }},
          {"larger than any",
           [](Program& p) {
             p.streams.at(0).shape = {1L << 40, 1L << 40};
           }},
          {"negative dimension", [](Program& p) { p.streams.at(0).shape = {-1}; }},
          {"persistent memory", [](Program& p) { p.persistent_bytes = {-64}; }},
          {"persistent memory", [](Program& p) { p.persistent_bytes.push_back(64); }},
          {"tensor on device", [](Program& p) { p.persistent.at(0).device = 1; }},
          {"frame", [](Program& p) { p.functions.at(0).frame_bytes = {-1}; }},
          {"frame", [](Program& p) { p.functions.at(0).frame_bytes.clear(); }},
          {"frame for each device", [](Program& p) { first(p, Kind::Loop).callee_frames.clear(); }},
          {"callee's frame", [](Program& p) { first(p, Kind::Loop).callee_frames = {-64}; }},
          {"unknown device", [&](Program& p) { operand(p, Kind::HostStore).device = 1; }},
          {"outside", [&](Program& p) { operand(p, Kind::HostStore).offset = 1 << 20; }},
          {"huge offset", [&](Program& p) { operand(p, Kind::HostStore).offset = -8; }},
          {"argument",
           [&](Program& p) {
             operand(p, Kind::HostStore) = {OperandRef::Space::Argument, 0, 5, 0};
           }},
          {"stride", [](Program& p) { read_input(p, 1L << 62); }},
          {"outside", [](Program& p) { read_input(p, 1L << 40); }},
          {"outside", [](Program& p) { read_input(p, -(1L << 40)); }},
          {"stride",
           [](Program& p) {
             p.kernels.at(0).inputs.at(0).strides = {1, 2, 3, 4, 5};
           }},
          {"no device", [](Program& p) { p.functions.at(0).devices.clear(); }},
          {"number of replicas", [](Program& p) { p.replicas = 0; }},
          {"number of replicas", [](Program& p) { p.replicas = kMostReplicas + 1; }},
      });
}

TEST(CheckProgram, FunctionsOfPreparedWeightsFitThem) {
  expect_refusals(
      compiled(*loop_program()),
      {
          {"entry function", [](Program& p) { p.persistent.at(0).make_function = 9; }},
          {"entry function with arguments",
           [](Program& p) { p.weights_to_host_function = p.main_function - 1; }},
          {"never made", [](Program& p) { p.persistent.at(0).restore_function = p.main_function; }},
          {"staged tensor outside of a frame",
           [](Program& p) {
             p.persistent.at(0).shape = {1 << 20};
             p.persistent.at(0).make_function = p.main_function;
             p.persistent.at(0).restore_function = p.main_function;
           }},
      });
}

TEST(CheckProgram, ValuesAreReceivedAsTheyAreSent) {
  using Kind = Instruction::Kind;
  op_registry();
  Ir ir;
  Graph& main = ir.main_graph();
  Tensor* v = variable(main, "v", {1.0f, 2.0f}, {2});
  OpContext second;
  second.device = 1;
  OpBuilder here(main, {});
  Tensor* sum = here.make("Add", {v, v});
  Tensor* sent = here.make("DeviceCopy", {sum},
                           {{"source", std::int64_t{0}}, {"destination", std::int64_t{1}}});
  store(main, OpBuilder(main, second).make("Add", {sent, sent}));
  expect_refusals(
      compiled(ir),
      {{"receive of what is not sent", [](Program& p) { first(p, Kind::Receive).count = 4; }},
       {"receive of what is not sent", [](Program& p) { first(p, Kind::Send).other_target = 1; }},
       {"receive of what is not sent", [](Program& p) { first(p, Kind::Receive).target = 1; }},
       {"number that is not given out",
        [](Program& p) { first(p, Kind::Send).other_target = 1000; }},
       {"unknown device", [](Program& p) { first(p, Kind::Send).target = 2; }},
       {"negative size", [](Program& p) { first(p, Kind::Send).count = -1; }},
       {"outside of its memory", [](Program& p) { first(p, Kind::Receive).count = 1 << 20; }},
       {"unknown device", [](Program& p) { first(p, Kind::Receive).operands.at(1).device = 2; }}});
}

TEST(CheckProgram, ScalarProgramsReadOnlyWhatIsThere) {
  const Program sound = compiled(*loop_program());
  for (std::size_t k = 0; k < sound.kernels.size(); ++k) {
    for (std::size_t i = 0; i < sound.kernels[k].scalar.instructions.size(); ++i) {
      Program changed = sound;
      ScalarInstruction& in = changed.kernels[k].scalar.instructions[i];
      if (scalar_arity(in.op) > 0) {
        in.a = static_cast<ScalarValue>(i);
      } else if (in.op == ScalarOp::Load) {
        in.index = 50;
      } else {
        continue;
      }
      EXPECT_NE(error_of([&] { check_program(changed); }).find("scalar"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace pando::testing
