// Sessions whose replicas are processes: the same numbers as threads give, of local replicas only.
#include <gtest/gtest.h>

#include <cstring>

#include "pando/base/error.hpp"
#include "pando/session/runner_state.hpp"
#include "pando/session/session.hpp"
#include "tests/cpp/session/replica_programs.hpp"
#include "tests/cpp/worlds/process_world.hpp"

namespace pando::testing {
namespace {

constexpr double kLongTime = 600.0;

/// One thread for each local replica. `meshes`: one, or those of the local replicas.
template <class Meshes>
SessionOptions options_of(Meshes& meshes) {
  SessionOptions options;
  options.num_threads = 1;
  options.world = [&meshes](const WorldSettings&) {
    return std::make_unique<ProcessWorld>(meshes, kLongTime);
  };
  return options;
}

template <class T>
std::byte* bytes_of(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

std::string text_of(const Floats32& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

Floats32 floats_of(const std::string& text) {
  Floats32 values(text.size() / sizeof(float));
  std::memcpy(values.data(), text.data(), text.size());
  return values;
}

Floats32 host_values(const Ir& ir, const std::string& id) {
  const HostArray& data = *ir.main_graph().find_tensor(id)->data;
  Floats32 values(data.bytes / sizeof(float));
  std::memcpy(values.data(), data.data, data.bytes);
  return values;
}

/// Runs sharded_program on what the replicas of the session are given; the output and weights.
Floats32 train(Session& session, const Ir& ir, Floats32 x) {
  Floats32 output(x.size(), -1.0f);
  session.attach();
  session.weights_from_host();
  for (int run = 0; run < 2; ++run) session.run({{bytes_of(x), 1}}, {{bytes_of(output), 1}});
  session.weights_to_host();
  const Floats32 weights = host_values(ir, "w");
  output.insert(output.end(), weights.begin(), weights.end());
  return output;
}

/// Trains `size` replicas, dealt out to processes `ranks_each` at a time.
void check_sharded_step(int size, int ranks_each) {
  constexpr std::int64_t kCount = 11;
  Floats32 w(kCount), x(static_cast<std::size_t>(kCount * size)), mean(kCount, 0.0f);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 7) % 5 * 12);
  for (std::size_t i = 0; i < x.size(); ++i) mean[i % kCount] += x[i] / static_cast<float>(size);
  const auto outcomes = run_in_processes(size, ranks_each, [&](const ProcessMeshes& meshes) {
    const auto ir = sharded_program(size, w);
    Session session(*ir, options_of(meshes));
    const auto own = x.begin() + meshes.front()->rank() * kCount;
    const auto replicas = static_cast<std::ptrdiff_t>(meshes.size());
    return text_of(train(session, *ir, Floats32(own, own + replicas * kCount)));
  });
  ASSERT_EQ(outcomes.size(), static_cast<std::size_t>((size + ranks_each - 1) / ranks_each));
  for (const Outcome& outcome : outcomes) {
    ASSERT_EQ(outcome.error, "");
    const Floats32 given = floats_of(outcome.value);
    ASSERT_GE(given.size(), 2 * w.size());
    // After one step w is the mean of x, and stays there.
    for (std::size_t i = 0; i < given.size(); ++i) {
      EXPECT_NEAR(given[i], mean[i % kCount], 1e-4f) << size << " ranks, element " << i;
    }
  }
}

TEST(SessionWorlds, ShardedStepEqualsTheFormula) {
  for (const int size : {2, 3}) check_sharded_step(size, 1);
}

/// The last process of three replicas has one of them.
TEST(SessionWorlds, ShardedStepOfSeveralReplicasInEachProcess) {
  for (const int size : {3, 4}) check_sharded_step(size, 2);
}

/// Each variable has a first axis of groups, or of replicas; a process writes what is its own.
TEST(SessionWorlds, VariablesOfLocalReplicasAreWritten) {
  const auto outcomes = run_in_processes(4, [&](ProcessMesh& mesh) {
    op_registry();
    Ir ir;
    ir.replication_factor = 4;
    Graph& main = ir.main_graph();
    Tensor* of_groups = variable(main, "g", {10, 20}, {});
    of_groups->set_settings({.groups = {0, 1, 0, 1}});
    Tensor* of_replicas = variable(main, "r", {1, 2, 3, 4}, {});
    of_replicas->set_settings({.entry_per_replica = true});
    OpBuilder ops(main, {});
    Tensor* one = ops.constant(1.0, DType::Float32);
    ops.op("AddLhsInplace", {of_groups, one});
    store(main, ops.make("AddLhsInplace", {of_replicas, one}));
    Session session(ir, options_of(mesh));
    Floats32 output(1);
    session.attach();
    session.weights_from_host();
    session.run({}, {{bytes_of(output), 1}});
    session.weights_to_host();
    Floats32 all = host_values(ir, "g");
    for (const float value : host_values(ir, "r")) all.push_back(value);
    all.push_back(output[0]);
    return text_of(all);
  });
  for (std::size_t rank = 0; rank < 4; ++rank) {
    ASSERT_EQ(outcomes[rank].error, "");
    Floats32 wanted = {10, 20, 1, 2, 3, 4, static_cast<float>(rank) + 2};
    wanted[rank % 2] += 1;
    wanted[2 + rank] += 1;
    EXPECT_EQ(floats_of(outcomes[rank].value), wanted) << "rank " << rank;
  }
}

TEST(SessionWorlds, AFaultOfOneIsAnErrorOfAllAndTheNextRunWorks) {
  constexpr int kFailing = 1;
  const auto outcomes = run_in_processes(3, [&](ProcessMesh& mesh) {
    const auto ir = lookup_program(3);
    Session session(*ir, options_of(mesh));
    session.attach();
    std::vector<std::int32_t> offset(1, mesh.rank() == kFailing ? 3 : 0);
    Floats32 output(2, 1.0f);
    const auto run = [&] { session.run({{bytes_of(offset), 1}}, {{bytes_of(output), 1}}); };
    const std::string error = error_of(run);
    offset[0] = 0;
    run();
    return output == Floats32(2, 0.0f) ? error : "wrong result";
  });
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.error + outcome.value,
              "replica 1: remote buffer 1 has 3 entries; the program asked for entry 3");
  }
}

TEST(SessionWorlds, StateIsOfLocalReplicas) {
  const auto outcomes = run_in_processes(2, [&](ProcessMesh& mesh) {
    const auto ir = sharded_program(2, {1, 2, 3});
    Session session(*ir, options_of(mesh));
    session.attach();
    session.weights_from_host();
    const int own = mesh.rank(), other = 1 - own;
    Floats32 part(2);
    session.state().read_remote(own, 0, 1, bytes_of(part), 8);
    if (part != (own == 0 ? Floats32{1, 2} : Floats32{3, 0})) return std::string("wrong part");
    const auto snapshot = session.state().snapshot(1 << 20);
    while (const auto row = snapshot->next_row(bytes_of(part), 8)) {
      if (row->replica != own) return str_cat("a row of replica ", row->replica);
    }
    return error_of([&] { session.state().read_remote(other, 0, 1, bytes_of(part), 8); });
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(outcomes[rank].error + outcomes[rank].value,
              str_cat("read_remote wants a replica that this process runs, which replica ",
                      1 - rank, " is not: call it in the process that runs it"));
  }
}

TEST(SessionWorlds, AWorldOfAnotherSizeIsRefused) {
  const auto outcomes = run_in_processes(2, [&](ProcessMesh& mesh) {
    const auto ir = sharded_program(3, {1, 2, 3});
    return error_of([&] { Session session(*ir, options_of(mesh)); });
  });
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.error + outcome.value,
              "wanted a world of 3 ranks, one for each replica of the program; given one of 2");
  }
}

/// Two processes of two replicas each.
TEST(SessionWorlds, AnotherProgramInOneProcessIsAnErrorOfAll) {
  const auto outcomes = run_in_processes(4, 2, [](const ProcessMeshes& meshes) {
    const bool is_first = meshes.front()->rank() == 0;
    // The sizes of the remote buffer's rows differ.
    const auto ir = sharded_program(4, is_first ? Floats32{1, 2, 3} : Floats32{1, 2, 3, 4, 5});
    Session session(*ir, options_of(meshes));
    const std::string error = error_of([&] { session.attach(); });
    const auto same = sharded_program(4, {1, 2, 3});
    Session good(*same, options_of(meshes));
    good.attach();
    return error;
  });
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.error + outcome.value,
              "replica 0 has another program than replica 2, replica 3: make the session of the "
              "same Ir with the same options in every process");
  }
}

}  // namespace
}  // namespace pando::testing
