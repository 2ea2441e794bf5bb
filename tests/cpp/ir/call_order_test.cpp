// Calls of calls: recursion is refused wherever an Ir is made, and depth costs no stack.
#include "pando/ir/call_order.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>

#include "pando/ir/dot.hpp"
#include "pando/ir/serialise.hpp"
#include "pando/ir/text_parser.hpp"
#include "pando/ir/text_printer.hpp"
#include "pando/ir/verifier.hpp"
#include "pando/session/session.hpp"
#include "pando/transforms/autodiff.hpp"
#include "pando/transforms/graph_calls.hpp"
#include "pando/transforms/inline_calls.hpp"
#include "pando/transforms/unused_outputs.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

const TensorInfo kPair{DType::Float32, {2}, {}};

class CallOrder : public ::testing::Test {
 protected:
  CallOrder() { op_registry(); }

  /// A graph that adds 0.5 to its input; calls come on top.
  Graph& graph(const std::string& name) {
    Graph& made = ir_.create_graph(name);
    Tensor* x = made.add_input(made.unique_tensor_id("x"), kPair);
    OpBuilder ops(made, {});
    made.mark_output(ops.make("Add", {x, ops.constant(0.5, DType::Float32)}));
    return made;
  }

  static std::vector<Tensor*> run_call(Graph& caller, Graph& callee, Tensor* x) {
    return call(caller, callee, {x}, {});
  }

  static std::vector<Tensor*> run_loop(Graph& caller, Graph& callee, Tensor* x) {
    LoopBody body(caller.ir(), callee.id());
    Tensor* inner = body.add_input(*x);
    return body.finish(caller, 1, {x}, call(body.graph(), callee, {inner}, {}), {});
  }

  static std::vector<Tensor*> run_branch(Graph& caller, Graph& callee, Tensor* x) {
    Tensor* condition = OpBuilder(caller, {}).constant(1.0, DType::Bool);
    return caller
        .create_op(op_registry().get("If"), {condition, x, x},
                   {{"num_then_inputs", std::int64_t{1}}}, {}, {&callee, &callee})
        .outputs();
  }

  using Way = std::vector<Tensor*> (*)(Graph&, Graph&, Tensor*);

  /// `depth` graphs, each of which runs the one before it by another way and adds 0.5; the last.
  Graph& nested(int depth, const std::vector<Way>& ways) {
    Graph* inner = &graph("inner");
    for (int i = 0; i < depth; ++i) {
      Graph& outer = graph("outer");
      const Way way = ways[static_cast<std::size_t>(i) % ways.size()];
      outer.set_outputs(way(outer, *inner, outer.outputs()[0]));
      inner = &outer;
    }
    return *inner;
  }

  Ir ir_;
  Graph& main_ = ir_.main_graph();
};

TEST_F(CallOrder, TheBuilderRefusesRecursion) {
  for (const Way way : {run_call, run_loop, run_branch}) {
    Graph& first = graph("first");
    Graph& second = graph("second");
    run_call(second, first, second.inputs()[0]);
    for (Graph* callee : {&first, &second}) {
      const std::size_t ops = first.ops().size();
      const std::string error = error_of([&] { way(first, *callee, first.inputs()[0]); });
      EXPECT_NE(error.find("a graph cannot call itself, directly or through others"),
                std::string::npos)
          << error;
      EXPECT_NE(error.find("'" + first.id() + "'"), std::string::npos) << error;
      // A conditional's constant stays.
      EXPECT_EQ(first.ops().size(), ops);
    }
    EXPECT_TRUE(first.inputs()[0]->uses().size() == 1);
  }
  EXPECT_NE(error_of([&] {
              main_.create_op(op_registry().get("Call"), {}, {}, {}, {&main_});
            }).find("the main graph cannot be called"),
            std::string::npos);
}

TEST_F(CallOrder, CalleesComeFirst) {
  Graph& shared = graph("shared");
  Graph& left = graph("left");
  Graph& right = graph("right");
  run_call(left, shared, left.inputs()[0]);
  run_branch(right, left, right.inputs()[0]);
  run_call(right, shared, right.inputs()[0]);
  graph("unused");
  EXPECT_EQ(callees_first({&right}), (std::vector<Graph*>{&shared, &left, &right}));
  EXPECT_EQ(callees_first({&right}, [&](const Graph& graph) { return &graph == &left; }),
            (std::vector<Graph*>{&shared, &right}));
  EXPECT_TRUE(find_recursion(ir_).empty());
}

TEST_F(CallOrder, ReadersRefuseRecursion) {
  Graph& first = graph("first");
  Graph& second = graph("second");
  run_call(first, graph("other"), first.inputs()[0]);
  run_branch(second, first, second.inputs()[0]);
  first.ops().back()->called_graphs[0] = &second;
  const std::string text = print_ir(ir_), bytes = serialise_ir(ir_);
  for (const std::string& error :
       {error_of([&] { parse_ir(text); }), error_of([&] { deserialise_ir(bytes); })}) {
    EXPECT_NE(error.find("graph 'first_subgraph(0)' calls itself: 'first_subgraph(0)', which calls "
                         "'second_subgraph(1)', which calls 'first_subgraph(0)'"),
              std::string::npos)
        << error;
  }
  // The line of the call.
  const auto line =
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find("Call.")),
                     '\n');
  const std::string error = error_of([&] { parse_ir(text); });
  EXPECT_EQ(error.rfind(str_cat("line ", line, ","), 0), 0u) << error;
}

/// Runs `work` on a thread with little stack.
void run_with_small_stack(const std::function<void()>& work) {
  constexpr std::size_t kStackBytes = std::size_t{512} << 10;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackBytes), 0);
  std::string fault = "it did not run";
  struct Job {
    const std::function<void()>& work;
    std::string& fault;
  } job{work, fault};
  pthread_t thread;
  const auto start = [](void* pointer) -> void* {
    auto& given = *static_cast<Job*>(pointer);
    given.fault = error_of(given.work);
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, start, &job), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  EXPECT_EQ(fault, "no error");
}

TEST_F(CallOrder, DepthCostsNoStackInTheCompiler) {
  constexpr int kDepth = 1500;
  run_with_small_stack([&] {
    Graph& outermost = nested(kDepth, {run_call, run_loop, run_branch});
    store(main_, call(main_, outermost, {variable(main_, "v", {1.0f, 2.0f}, {2})}, {})[0]);
    verify(ir_);
    const auto again = parse_ir(print_ir(ir_));
    verify(*again);
    EXPECT_NE(dot_text(*again).find("outer_subgraph"), std::string::npos);
    const Session session(*again, {{}, {.num_threads = 1}});
    EXPECT_GT(session.program().functions.size(), 700u);
    EXPECT_EQ(deserialise_ir(serialise_ir(ir_))->graphs().size(), ir_.graphs().size());
  });
}

TEST_F(CallOrder, DeepCallsRun) {
  constexpr int kDepth = 1500;
  Graph& outermost = nested(kDepth, {run_call, run_loop, run_branch});
  store(main_, call(main_, outermost, {variable(main_, "v", {1.0f, 2.0f}, {2})}, {})[0]);
  Session session(ir_, {{}, {.num_threads = 1}});
  float results[2] = {};
  session.attach();
  session.weights_from_host();
  session.run({}, {{reinterpret_cast<std::byte*>(results), 1}});
  EXPECT_EQ(results[0], 1.0f + 0.5f * (kDepth + 1));
  EXPECT_EQ(results[1], 2.0f + 0.5f * (kDepth + 1));
}

TEST_F(CallOrder, EveryOpOfDeepCallsIsInlinedOnce) {
  constexpr int kDepth = 300;
  Graph& outermost = nested(kDepth, {run_call});
  store(main_, call(main_, outermost, {variable(main_, "v", {1.0f, 2.0f}, {2})}, {})[0]);
  std::int64_t ops = 0;
  for (const Graph* graph : ir_.graphs()) ops += static_cast<std::int64_t>(graph->op_list().size());
  const std::int64_t before = ir_.counters().op_id;
  inline_calls(ir_);
  EXPECT_EQ(ir_.graphs().size(), 1u);
  EXPECT_EQ(std::count_if(main_.ops().begin(), main_.ops().end(),
                          [](const Op* op) { return op->kind_name() == "Add"; }),
            kDepth + 1);
  // Copies of values that cross a call come on top, but not for each level around it.
  EXPECT_LE(ir_.counters().op_id - before, 2 * ops);
  verify(ir_);
}

TEST_F(CallOrder, ACallOfNothingIsInlined) {
  Graph& empty = ir_.create_graph("empty");
  empty.add_input(empty.unique_tensor_id("x"), kPair);
  Tensor* x = variable(main_, "v", {1.0f, 2.0f}, {2});
  OpBuilder ops(main_, {});
  Tensor* first = ops.make("Neg", {x});
  call(main_, empty, {x}, {});
  store(main_, ops.make("Neg", {first}));
  inline_calls(ir_);
  EXPECT_EQ(main_.op_list().size(), 3u);
  verify(ir_);
}

/// Each call wants another output, so one of them gets a copy of the callee.
TEST_F(CallOrder, ACopyForOneCallKeepsAnOrderAgainstCreation) {
  Graph& callee = graph("callee");
  OpBuilder ops(callee, {});
  Op& later = ops.op("Neg", {callee.inputs()[0]});
  callee.mark_output(later.output(0));
  callee.op_list().first()->run_after(later);
  Tensor* x = variable(main_, "v", {1.0f, 2.0f}, {2});
  main_.mark_output(run_call(main_, callee, x)[0]);
  main_.mark_output(run_call(main_, callee, x)[1]);
  drop_unused_outputs(ir_);
  EXPECT_EQ(ir_.graphs().size(), 3u);
  for (const Graph* graph : ir_.graphs()) {
    EXPECT_EQ(graph->outputs().size(), graph->is_main() ? 2u : 1u);
  }
}

TEST_F(CallOrder, DepthCostsNoStackInAutodiff) {
  run_with_small_stack([&] {
    Graph& outermost = nested(1500, {run_call, run_branch});
    const GradGraphInfos infos = autodiff(outermost, std::nullopt, std::nullopt);
    EXPECT_EQ(infos.size(), 1501u);
    EXPECT_EQ(infos.at(&outermost).expected_outputs[0].forward_tensor, outermost.inputs()[0]);
  });
}

/// What a branch computes is computed again for its gradient, in one graph.
TEST_F(CallOrder, LongRecomputationCostsNoStack) {
  run_with_small_stack([&] {
    Graph& branch = ir_.create_graph("branch");
    Tensor* x = branch.add_input(branch.unique_tensor_id("x"), kPair);
    OpBuilder ops(branch, {});
    for (int i = 0; i < 20000; ++i) x = ops.make("Tanh", {x});
    branch.mark_output(x);
    Graph& chooses = graph("chooses");
    chooses.set_outputs(run_branch(chooses, branch, chooses.inputs()[0]));
    const GradGraphInfos infos = autodiff(chooses, std::nullopt, std::nullopt);
    EXPECT_GT(infos.at(&branch).gradient_graph->ops().size(), 40000u);
  });
}

}  // namespace
}  // namespace pando::testing
