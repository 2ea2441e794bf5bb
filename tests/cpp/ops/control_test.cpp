// Calls, loops, conditionals, streams and prints: what their records say.
#include <gtest/gtest.h>

#include "pando/base/error.hpp"
#include "tests/cpp/error_of.hpp"
#include "tests/cpp/ops/evaluate.hpp"

namespace pando::testing {
namespace {

class Control : public ::testing::Test {
 protected:
  Ir ir_;
  Graph& main = ir_.main_graph();

  Graph& callee(const std::string& id, const std::vector<TensorInfo>& inputs, bool by_ref = false) {
    Graph& graph = ir_.create_graph_with_id(id);
    for (const TensorInfo& info : inputs) {
      graph.add_input(graph.unique_tensor_id("in"), info, by_ref);
    }
    return graph;
  }

  Tensor* input(const TensorInfo& info) { return main.add_input(main.unique_tensor_id("x"), info); }

  Op& make(std::string_view kind, const std::vector<Tensor*>& inputs, Attributes attributes,
           std::vector<Graph*> graphs) {
    return main.create_op(op_registry().get(kind), inputs, std::move(attributes), {},
                          std::move(graphs));
  }
};

TEST_F(Control, CallHasTheOutputsOfItsGraph) {
  Graph& graph = callee("f", {f32({2})});
  graph.mark_output(graph.inputs()[0]);
  Op& call = make("Call", {input(f32({2}))}, {}, {&graph});
  EXPECT_EQ(call.output(0)->info, f32({2}));
  EXPECT_TRUE(call.modified_inputs().empty());
  const std::string error = error_of([&] { make("Call", {input(f32({3}))}, {}, {&graph}); });
  EXPECT_NE(error.find("CallOp input (@0) does not match callee input tensor"), std::string::npos)
      << error;
  EXPECT_NE(error_of([&] { make("Call", {}, {}, {&graph}); }).find("wanted 1 inputs"),
            std::string::npos);
}

TEST_F(Control, CallWritesMarkedAndByReferenceInputs) {
  Graph& graph = callee("f", {f32({2}), f32({})});
  graph.inputs()[1]->set_by_ref(true);
  Op& plain = make("Call", {input(f32({2})), input(f32({}))}, {}, {&graph});
  EXPECT_EQ(plain.modified_inputs(), InputSet{1});
  Op& marked = make("Call", {input(f32({2})), input(f32({}))}, {{"modified", Ints{0}}}, {&graph});
  EXPECT_EQ(marked.modified_inputs(), (InputSet{0, 1}));
}

TEST_F(Control, LoopCarriesOutputsToInputs) {
  const TensorInfo flag = typed(DType::Bool, {});
  Graph& body = callee("body", {typed(DType::Int32, {}), flag, f32({2}), f32({3})});
  body.set_outputs({body.inputs()[1], body.inputs()[2]});
  Op& loop = make("Loop", {nullptr, nullptr, input(f32({2})), input(f32({3}))},
                  {{"trip_count", std::int64_t{3}}}, {&body});
  EXPECT_EQ(loop.num_outputs(), 1);
  EXPECT_EQ(loop.output(0)->info, f32({2}));
  body.set_outputs({body.inputs()[1], body.inputs()[3]});
  const std::string error = error_of([&] {
    make("Loop", {nullptr, nullptr, input(f32({2})), input(f32({3}))},
         {{"trip_count", std::int64_t{3}}}, {&body});
  });
  EXPECT_NE(error.find("is carried to input"), std::string::npos) << error;
  EXPECT_NE(error_of<ValueError>([&] {
              make("Loop", {nullptr, nullptr, input(f32({2})), input(f32({3}))},
                   {{"trip_count", std::int64_t{-1}}}, {&body});
            }).find("Repeat count must be >= 0"),
            std::string::npos);
}

TEST_F(Control, WhileCarriesAConditionToo) {
  const TensorInfo flag = typed(DType::Bool, {});
  Graph& body = callee("body", {typed(DType::Int32, {}), flag, f32({2}), f32({3})});
  body.set_outputs({body.inputs()[1], body.inputs()[2]});
  const std::vector<Tensor*> inputs = {nullptr, input(flag), input(f32({2})), input(f32({3}))};
  Op& loop = make("While", inputs, {}, {&body});
  EXPECT_EQ(loop.num_outputs(), 1);
  EXPECT_EQ(loop.output(0)->info, f32({2}));
  Op& kept =
      make("While", inputs, {{"max_iterations", std::int64_t{4}}, {"history", Ints{0}}}, {&body});
  ASSERT_EQ(kept.num_outputs(), 3);
  EXPECT_EQ(kept.output(1)->info, typed(DType::Int32, {}));
  EXPECT_EQ(kept.output(2)->info, f32({4, 2}));

  const auto refusal = [&](const std::vector<Tensor*>& given, const Attributes& attributes) {
    return error_of([&] { make("While", given, attributes, {&body}); });
  };
  EXPECT_NE(refusal({nullptr, nullptr, inputs[2], inputs[3]}, {}).find("input 1"),
            std::string::npos);
  EXPECT_NE(refusal({nullptr, input(typed(DType::Bool, {1})), inputs[2], inputs[3]}, {})
                .find("wanted shape () at input 1"),
            std::string::npos)
      << refusal({nullptr, input(typed(DType::Bool, {1})), inputs[2], inputs[3]}, {});
  EXPECT_NE(refusal(inputs, {{"max_iterations", std::int64_t{-1}}}).find("must be >= 0, given -1"),
            std::string::npos);
  EXPECT_NE(refusal(inputs, {{"history", Ints{0}}}).find("max_iterations of 1 or more"),
            std::string::npos);
  EXPECT_NE(refusal(inputs, {{"max_iterations", std::int64_t{4}}, {"history", Ints{1}}})
                .find("there is no carried value 1"),
            std::string::npos);
  EXPECT_NE(refusal(inputs, {{"modified", Ints{2}}}).find("taken by reference"), std::string::npos);
  EXPECT_EQ(make("While", inputs, {{"modified", Ints{3}}}, {&body}).modified_inputs(), InputSet{3});
}

TEST_F(Control, BranchesMustAgree) {
  Graph& yes = callee("yes", {f32({2})});
  yes.mark_output(yes.inputs()[0]);
  Graph& no = callee("no", {f32({3}), f32({2})});
  no.mark_output(no.inputs()[1]);
  const std::vector<Tensor*> inputs = {input(typed(DType::Bool, {})), input(f32({2})),
                                       input(f32({3})), input(f32({2}))};
  const Attributes attributes = {{"num_then_inputs", std::int64_t{1}}};
  EXPECT_EQ(make("If", inputs, attributes, {&yes, &no}).output(0)->info, f32({2}));
  no.set_outputs({no.inputs()[0]});
  const std::string error = error_of([&] { make("If", inputs, attributes, {&yes, &no}); });
  EXPECT_NE(error.find("wanted equal shapes and dtypes"), std::string::npos) << error;
}

TEST_F(Control, StreamsHaveAShapeAndDirection) {
  Tensor* handle = main.add_stream("in_stream", f32({2}));
  ir_.add_stream(*handle, StreamDirection::HostToDevice);
  const Attributes attributes = {{"stream", std::string("in_stream")}};
  EXPECT_EQ(make("HostLoad", {input(f32({2}))}, attributes, {}).output(0)->info, f32({2}));
  EXPECT_NE(error_of<ValueError>([&] {
              make("HostLoad", {input(f32({3}))}, attributes, {});
            }).find("shape of stream (2,) does not match"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              make("HostStore", {input(f32({2}))}, attributes, {});
            }).find("there is no device-to-host stream"),
            std::string::npos);
}

TEST_F(Control, RemoteBuffersHaveAShape) {
  const std::int64_t id = ir_.add_remote_buffer(f32({2}), 4).id;
  Tensor* offset = input(typed(DType::UInt32, {}));
  const Attributes attributes = {{"buffer", id}};
  EXPECT_EQ(make("RemoteLoad", {input(f32({2})), offset}, attributes, {}).num_outputs(), 1);
  EXPECT_EQ(make("RemoteStore", {input(f32({2})), offset}, attributes, {}).num_outputs(), 0);
  Op& in_place = make("RemoteLoadInplace", {input(f32({2})), offset}, attributes, {});
  EXPECT_EQ(in_place.modified_inputs(), InputSet{0});
  EXPECT_NE(error_of<ValueError>([&] {
              make("RemoteStore", {input(f32({3})), offset}, attributes, {});
            }).find("does not match buffer"),
            std::string::npos);
}

TEST_F(Control, PrintParametersAreChecked) {
  Attributes attributes = {
      {"title", std::string("t")},        {"print_self", true},
      {"print_gradient", false},          {"summarise_threshold", std::int64_t{1000}},
      {"edge_items", std::int64_t{3}},    {"max_line_width", std::int64_t{75}},
      {"digits", std::int64_t{8}},        {"float_format", std::string("auto")},
      {"separator", std::string(" ")},    {"open_bracket", std::string("[")},
      {"close_bracket", std::string("]")}};
  EXPECT_TRUE(make("PrintTensor", {input(f32({2}))}, attributes, {}).def().has_side_effects);
  attributes.set("separator", std::string(", "));
  EXPECT_NE(error_of<ValueError>([&] {
              make("PrintTensor", {input(f32({2}))}, attributes, {});
            }).find("Parameter separator must be 1 character exactly."),
            std::string::npos);
}

}  // namespace
}  // namespace pando::testing
