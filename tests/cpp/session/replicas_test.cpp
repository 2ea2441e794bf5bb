// Whole programs on several replicas: data parallel training, streams, sharded remote variables.
#include <gtest/gtest.h>

#include <cstring>

#include "pando/base/error.hpp"
#include "pando/ir/serialise.hpp"
#include "pando/ir/text_parser.hpp"
#include "pando/ir/text_printer.hpp"
#include "pando/program/serialise.hpp"
#include "pando/session/session.hpp"
#include "tests/cpp/session/replica_programs.hpp"

namespace pando::testing {
namespace {

struct RunResult {
  Floats32 output;
  Floats32 weights;
};

RunResult run_program(const Ir& ir, std::int64_t count, Floats32 x, int runs) {
  const auto replicas = static_cast<int>(ir.replication_factor);
  Session session(ir, {{}, {.num_threads = replicas}});
  session.attach();
  session.weights_from_host();
  RunResult result;
  result.output.resize(x.size());
  for (int i = 0; i < runs; ++i) {
    session.run({{reinterpret_cast<std::byte*>(x.data()), 1}},
                {{reinterpret_cast<std::byte*>(result.output.data()), 1}});
  }
  session.weights_to_host();
  const HostArray& data = *ir.main_graph().find_tensor("w")->data;
  result.weights.resize(static_cast<std::size_t>(count));
  std::memcpy(result.weights.data(), data.data, data.bytes);
  return result;
}

TEST(Replicas, ShardedStepEqualsTheFormula) {
  constexpr std::int64_t kCount = 11;
  for (std::int64_t replicas : {1, 2, 3, 4}) {
    Floats32 w(kCount), x(static_cast<std::size_t>(kCount * replicas));
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 7) % 5 * 12);
    const auto ir = sharded_program(replicas, w);
    const RunResult run = run_program(*ir, kCount, x, 2);
    for (std::size_t i = 0; i < w.size(); ++i) {
      float mean = 0.0f;  // after one step w is the mean of x, and stays there
      for (std::int64_t r = 0; r < replicas; ++r) {
        mean += x[static_cast<std::size_t>(r * kCount) + i] / static_cast<float>(replicas);
      }
      EXPECT_NEAR(run.weights[i], mean, 1e-4f) << replicas << " replicas, element " << i;
      for (std::int64_t r = 0; r < replicas; ++r) {
        EXPECT_NEAR(run.output[static_cast<std::size_t>(r * kCount) + i], mean, 1e-4f);
      }
    }
  }
}

TEST(Replicas, AFaultInOneIsOneError) {
  const auto ir = lookup_program(4);
  Session session(*ir, {{}, {.num_threads = 4}});
  session.attach();
  std::vector<std::int32_t> offsets(4, 0);
  Floats32 output(8, 1.0f);
  const auto run = [&] {
    session.run({{reinterpret_cast<std::byte*>(offsets.data()), 1}},
                {{reinterpret_cast<std::byte*>(output.data()), 1}});
  };
  for (int replica = 0; replica < 4; ++replica) {
    offsets[static_cast<std::size_t>(replica)] = 3;
    EXPECT_EQ(error_of(run), str_cat("replica ", replica,
                                     ": remote buffer 1 has 3 entries; the program asked for "
                                     "entry 3"));
    offsets[static_cast<std::size_t>(replica)] = 0;
  }
  run();
  EXPECT_EQ(output, Floats32(8, 0.0f));
}

TEST(Replicas, ProgramsAreStoredWhole) {
  const auto ir = sharded_program(2, {1, 2, 3});
  Tensor* w = ir->main_graph().find_tensor("w");
  const std::string text = print_ir(*ir, {});
  EXPECT_NE(text.find("variable \"w\" : (3,) float32 remote 1 slot 1 shards 2 = hex"),
            std::string::npos)
      << text;
  EXPECT_EQ(parse_ir(text, {})->main_graph().find_tensor("w")->settings(), w->settings());
  EXPECT_EQ(print_ir(*deserialise_ir(serialise_ir(*ir)), {}), text);
  const Program program = Session(*ir).program();
  const Program again = deserialise_program(serialise_program(program));
  EXPECT_EQ(again.collectives, program.collectives);
  EXPECT_EQ(again.remote_variables, program.remote_variables);
  EXPECT_EQ(again.replicas, 2);
  EXPECT_EQ(program.remote_variables.size(), 1u);
  EXPECT_EQ(program.collectives.size(), 2u);
}

TEST(Replicas, VariablesOfGroupsAreStored) {
  op_registry();
  Ir ir;
  ir.replication_factor = 4;
  Tensor* v = variable(ir.main_graph(), "v", {1, 2}, {});
  v->set_settings({.groups = {0, 1, 0, 1}});
  store(ir.main_graph(), v);
  const std::string text = print_ir(ir, {});
  EXPECT_NE(text.find("variable \"v\" : () float32 groups [0, 1, 0, 1] = hex"), std::string::npos)
      << text;
  EXPECT_EQ(print_ir(*parse_ir(text, {}), {}), text);
  EXPECT_EQ(print_ir(*deserialise_ir(serialise_ir(ir)), {}), text);
  EXPECT_EQ(print_ir(*ir.clone(), {}), text);
  std::string bad = text;
  bad.replace(bad.find("0, 1, 0, 1"), 10, "0, 1, 0");
  const std::string error = error_of([&] { parse_ir(bad, {}); });
  EXPECT_NE(error.find("a group from 0 for each of 4 replicas"), std::string::npos) << error;
}

}  // namespace
}  // namespace pando::testing
