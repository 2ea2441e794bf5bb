// Ops of sound libraries: as good as built-in ones, everywhere.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <thread>

#include "pando/backends/cpu/cpu_target.hpp"
#include "pando/custom/library_call.hpp"
#include "pando/custom/library_kernel.hpp"
#include "pando/ir/serialise.hpp"
#include "pando/ir/text_parser.hpp"
#include "pando/ir/text_printer.hpp"
#include "pando/ir/verifier.hpp"
#include "pando/transforms/autodiff.hpp"
#include "tests/conformance/fake_device.hpp"
#include "tests/custom/libraries.hpp"

namespace pando::testing {
namespace {

namespace fs = std::filesystem;

const std::vector<float> kValues = {-2.0f, -0.5f, 0.0f, 0.25f, 1.0f, 3.0f};

double snake(double x, double a) { return x + std::sin(a * x) * std::sin(a * x) / a; }
double snake_slope(double x, double a) { return 1 + std::sin(2 * a * x); }

class LibraryTest : public ::testing::Test {
 protected:
  LibraryTest() {
    load_library(library_file("good_ops"));
    load_library(library_file("snake"));
  }

  Graph& main() { return ir.main_graph(); }

  Ir ir;
};

TEST(LibraryAttributes, EveryTypeOfTheInterfaceHasItsOwn) {
  const std::map<std::int32_t, AttributeType> types = {
      {PANDO_FLAG, AttributeType::Flag},          {PANDO_INTEGER, AttributeType::Integer},
      {PANDO_NUMBER, AttributeType::Number},      {PANDO_TEXT, AttributeType::Text},
      {PANDO_DTYPE, AttributeType::DTypeName},    {PANDO_INTEGERS, AttributeType::IntList},
      {PANDO_NUMBERS, AttributeType::NumberList}, {PANDO_TEXTS, AttributeType::TextList},
  };
  for (const auto& [type, expected] : types) {
    EXPECT_EQ(attribute_type({.name = "a", .type = type}), expected) << type;
  }
  for (const std::int32_t type : {0, PANDO_TEXTS + 1}) {
    EXPECT_THROW(attribute_type({.name = "a", .type = type}), InternalError) << type;
  }
}

/// Stores Snake(v, a = 2).
void store_snake(Graph& main) {
  Tensor* v = variable(main, "v", kValues, {2, 3});
  store(main, builder_of(main).make("Snake", {v}, {{"a", 2.0}}));
}

TEST_F(LibraryTest, ALibraryIsLoadedOnce) {
  const OpLibrary& first = load_library(library_file("snake"));
  const fs::path link = fs::temp_directory_path() / str_cat("pando_snake_", ::getpid(), ".so");
  fs::create_symlink(library_file("snake"), link);
  EXPECT_EQ(&load_library(link.string()), &first);
  fs::remove(link);
  ASSERT_EQ(first.ops().size(), 2u);
  EXPECT_EQ(first.ops()[0]->name, "Snake");
  EXPECT_EQ(first.ops()[0]->attributes[0].doc, "the frequency");
  EXPECT_EQ(first.hash().size(), 32u);
  EXPECT_EQ(find_library_op("SnakeInplace"), first.ops()[1].get());
  EXPECT_EQ(find_library_op("Add"), nullptr);
}

TEST_F(LibraryTest, ItsOpsAreKindsOfOps) {
  const OpDef* def = op_registry().find("Snake");
  ASSERT_NE(def, nullptr);
  EXPECT_EQ(def->doc, "x + sin(a x)^2 / a of a float32 input.");
  EXPECT_EQ(def->library, fs::canonical(library_file("snake")).string());
  store_snake(main());
  verify(ir, "");
  const std::string text = print_ir(ir);
  EXPECT_NE(text.find("Snake."), std::string::npos) << text;
  EXPECT_EQ(print_ir(*parse_ir(text)), text);
  EXPECT_EQ(print_ir(*deserialise_ir(serialise_ir(ir))), text);
  EXPECT_EQ(print_ir(*ir.clone()), text);
}

TEST_F(LibraryTest, ComputesForward) {
  store_snake(main());
  const std::vector<float> result = result_of<float>(ir);
  for (std::size_t i = 0; i < kValues.size(); ++i) {
    EXPECT_NEAR(result[i], snake(kValues[i], 2), 1e-6) << i;
  }
}

TEST_F(LibraryTest, ItsGradientIsThatOfTheFormula) {
  Graph& graph = ir.create_graph("network");
  Tensor* x = graph.add_input(graph.unique_tensor_id("x"), {DType::Float32, {2, 3}, {}});
  Tensor* y = builder_of(graph).make("Snake", {x}, {{"a", 2.0}});
  graph.mark_output(y);
  const GradGraphInfos infos = autodiff(graph, {}, std::vector<Tensor*>{x}, {});
  const GradGraphInfo& info = infos.at(&graph);
  Tensor* v = variable(main(), "v", kValues, {2, 3});
  OpBuilder ops(main(), {});
  Tensor* g = ops.broadcast_to(ops.constant(3.0, DType::Float32), {2, 3});
  std::vector<Tensor*> inputs;
  for (const ExpectedConnection& connection : info.expected_inputs) {
    inputs.push_back(connection.type == ConnectionType::FwdGrad ? g : v);
  }
  const Op& call = main().create_op(op_registry().get("Call"), inputs, {{"modified", Ints{}}}, {},
                                    {info.gradient_graph});
  store(main(), call.output(0));
  const std::vector<float> result = result_of<float>(ir);
  for (std::size_t i = 0; i < kValues.size(); ++i) {
    EXPECT_NEAR(result[i], 3 * snake_slope(kValues[i], 2), 1e-5) << i;
    const double numeric = (snake(kValues[i] + 1e-5, 2) - snake(kValues[i] - 1e-5, 2)) / 2e-5;
    EXPECT_NEAR(result[i], 3 * numeric, 1e-4) << i;
  }
}

TEST_F(LibraryTest, WritesInPlace) {
  Tensor* v = variable(main(), "v", kValues, {6});
  Tensor* alias = builder_of(main()).make("SnakeInplace", {v}, {{"a", 1.0}});
  store(main(), OpBuilder(main(), {}).make("Neg", {alias}));
  Session session(ir, options_of());
  session.attach();
  session.weights_from_host();
  run<float>(session);
  const std::vector<float> twice = run<float>(session);
  session.weights_to_host();
  for (std::size_t i = 0; i < kValues.size(); ++i) {
    float now = 0;
    std::memcpy(&now, v->data->data + i * sizeof now, sizeof now);
    EXPECT_NEAR(now, snake(snake(kValues[i], 1), 1), 1e-5) << i;
    EXPECT_EQ(twice[i], -now) << i;
  }
}

TEST_F(LibraryTest, WritesSeveralInputsInPlaceAlsoViews) {
  Tensor* v = variable(main(), "v", {1, 2, 3, 4, 5, 6}, {3, 2});
  Tensor* w = variable(main(), "w", {10, 20, 30, 40, 50, 60}, {2, 3});
  OpBuilder ops = builder_of(main());
  // A view whose rows are not contiguous: columns of v.
  Tensor* columns = ops.make("TransposeInplace", {v}, {{"permutation", Ints{1, 0}}});
  Tensor* more = ops.broadcast_to(ops.constant(1.0, DType::Float32), {2, 3});
  const Op& swap = ops.op("SwapInplace", {columns, w, more});
  EXPECT_EQ(swap.modified_inputs(), (InputSet{0, 1}));
  store(main(), ops.make("Concat", {swap.output(0), swap.output(1)}, {{"axis", std::int64_t{0}}}));
  Session session(ir, options_of());
  session.attach();
  session.weights_from_host();
  EXPECT_EQ(run<float>(session), (std::vector<float>{11, 21, 31, 41, 51, 61, 2, 4, 6, 3, 5, 7}));
  session.weights_to_host();
  const auto* values = reinterpret_cast<const float*>(v->data->data);
  EXPECT_EQ(std::vector<float>(values, values + 6), (std::vector<float>{11, 41, 21, 51, 31, 61}));
}

TEST_F(LibraryTest, ATensorThatIsWrittenIsNoOtherInput) {
  Tensor* v = variable(main(), "v", {1, 2}, {2});
  Tensor* w = variable(main(), "w", {3, 4}, {2});
  OpBuilder ops = builder_of(main());
  for (const std::vector<Tensor*>& inputs : {std::vector{v, v}, {v, w, v}, {v, w, w}}) {
    EXPECT_NE(error_of([&] { ops.op("SwapInplace", inputs); }).find("is the same tensor"),
              std::string::npos);
  }
}

TEST_F(LibraryTest, WrongAttributesAreTheUsersFault) {
  Tensor* v = variable(main(), "v", {1, 2}, {2});
  OpBuilder ops = builder_of(main());
  const auto error_with = [&](const Attributes& attributes) {
    return error_of([&] { ops.make("Snake", {v}, attributes); });
  };
  EXPECT_EQ(error_with({}), "Snake: attribute 'a' is missing");
  EXPECT_EQ(error_with({{"a", true}}), "Snake: attribute 'a' has the wrong type: true");
  EXPECT_EQ(error_with({{"a", 1.0}, {"b", 2.0}}), "Snake has no attribute 'b'");
}

TEST_F(LibraryTest, OptionalInputsMayBeLeftOut) {
  Tensor* v = variable(main(), "v", {1, 2}, {2});
  Tensor* w = variable(main(), "w", {3, 4}, {2});
  OpBuilder ops = builder_of(main());
  const Op& swap = ops.op("SwapInplace", {v, w, nullptr});
  store(main(), ops.make("Sub", {swap.output(0), swap.output(1)}));
  EXPECT_EQ(result_of<float>(ir), (std::vector<float>{2, 2}));
}

TEST_F(LibraryTest, OnlyWhoAsksForThemGetsStrides) {
  for (const bool any : {true, false}) {
    Ir program;
    Graph& graph = program.main_graph();
    Tensor* v = variable(graph, "v", {1, 2, 3, 4, 5, 6}, {2, 3});
    OpBuilder ops = builder_of(graph);
    Tensor* transposed = ops.make("Transpose", {v}, {{"permutation", Ints{1, 0}}});
    const Op& copy = ops.op(any ? "StridedCopy" : "DenseCopy", {transposed});
    Tensor* flat = ops.reshape(copy.output(0), {6});
    Tensor* strides = ops.cast(copy.output(1), DType::Float32);
    store(graph, ops.make("Concat", {flat, strides}, {{"axis", std::int64_t{0}}}));
    const std::vector<float> wanted = any ? std::vector<float>{1, 4, 2, 5, 3, 6, 1, 3}
                                          : std::vector<float>{1, 4, 2, 5, 3, 6, 2, 1};
    EXPECT_EQ(result_of<float>(program), wanted);
  }
}

TEST_F(LibraryTest, GetsTheScratchThatItAsksFor) {
  Tensor* v = variable(main(), "v", {1, 2, 3, 4, 5}, {5});
  store(main(), builder_of(main()).make("RunningSum", {v}));
  EXPECT_EQ(result_of<float>(ir), (std::vector<float>{1, 3, 6, 10, 15}));
}

TEST_F(LibraryTest, GetsAttributesOfEveryType) {
  const Attributes all = {{"flag", true},
                          {"integer", std::int64_t{-5}},
                          {"number", 0.25},
                          {"text", std::string("four")},
                          {"dtype", DType::Float16},
                          {"integers", Ints{1, 2, 3}},
                          {"numbers", Floats{0.5, 0.75}},
                          {"texts", Texts{"a", "", "b c"}}};
  OpBuilder ops = builder_of(main());
  Tensor* given = ops.make("Told", {}, all);
  Tensor* absent = ops.make("Told", {});
  store(main(), ops.make("Concat", {given, absent}, {{"axis", std::int64_t{0}}}));
  EXPECT_EQ(result_of<double>(ir), (std::vector<double>{1, -5, 0.25, 4004, PANDO_FLOAT16, 6, 1.25,
                                                        3004, -1, -1, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(result_of<double>(*parse_ir(print_ir(ir))), result_of<double>(ir));
  EXPECT_EQ(dtype_code(DType::BFloat16), PANDO_BFLOAT16);
}

TEST_F(LibraryTest, OpsWithSideEffectsAreNeitherMergedNorLeftOut) {
  OpBuilder ops = builder_of(main());
  for (int i = 0; i < 3; ++i) ops.make("CountRuns", {});
  store(main(), ops.make("CountRuns", {}));
  Session session(ir, options_of());
  session.attach();
  run<std::int32_t>(session);
  const std::int32_t before = run<std::int32_t>(session)[0];
  EXPECT_EQ(run<std::int32_t>(session)[0], before + 4);
}

/// What every output stream gets in the second run, by its name.
std::map<std::string, std::vector<float>> results_of(const Ir& ir) {
  Session session(ir, options_of());
  session.attach();
  session.weights_from_host();
  std::map<std::string, std::vector<float>> results;
  std::vector<StreamBuffer> outputs;
  for (const StreamDesc& stream : session.output_streams()) {
    std::vector<float>& result = results[stream.id];
    result.resize(static_cast<std::size_t>(num_elements(stream.shape)));
    outputs.push_back({reinterpret_cast<std::byte*>(result.data()), 1});
  }
  session.run({}, outputs);
  session.run({}, outputs);
  return results;
}

TEST_F(LibraryTest, RandomProgramsWithItsOpsInPlaceOfPandosGiveTheSameBits) {
  const std::pair<std::string, std::string> kinds[] = {{" Neg.", " LibraryNeg."},
                                                       {" Add.", " LibraryAdd."},
                                                       {" AddLhsInplace.", " LibraryAddInplace."}};
  std::size_t replaced = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    const auto program = random_program(seed, 20);
    std::string text = print_ir(*program);
    for (const auto& [built_in, of_library] : kinds) {
      for (std::size_t at = 0; (at = text.find(built_in, at)) != std::string::npos; ++replaced) {
        text.replace(at, built_in.size(), of_library);
      }
    }
    EXPECT_EQ(results_of(*parse_ir(text)), results_of(*program)) << seed << "\n" << text;
  }
  EXPECT_GT(replaced, 500u);
}

TEST_F(LibraryTest, RunsOnSeveralThreadsAtOnce) {
  ir.replication_factor = 2;
  store_snake(main());
  SessionOptions options = options_of();
  options.num_threads = 2;
  const auto run_often = [&] {
    Session session(ir, options);
    session.attach();
    session.weights_from_host();
    for (int i = 0; i < 20; ++i) {
      std::vector<float> result(12);
      session.run({}, {{reinterpret_cast<std::byte*>(result.data()), 2}});
      for (std::size_t k = 0; k < result.size(); ++k) {
        EXPECT_NEAR(result[k], snake(kValues[k % 6], 2), 1e-6);
      }
    }
  };
  std::thread other(run_often);
  run_often();
  other.join();
}

TEST_F(LibraryTest, CompiledProgramsKnowTheLibraryByItsHash) {
  const std::string folder =
      (fs::temp_directory_path() / str_cat("pando_library_cache_", ::getpid())).string();
  store_snake(main());
  const Session first(ir, options_of(folder));
  Session second(ir, options_of(folder));
  EXPECT_EQ(first.compile_report().cache_file, "");
  EXPECT_NE(second.compile_report().cache_file, "");
  second.attach();
  second.weights_from_host();
  EXPECT_NEAR(run<float>(second)[5], snake(3, 2), 1e-6);
  fs::remove_all(folder);

  ASSERT_EQ(second.program().kernels.size(), 1u);
  KernelSpec spec = second.program().kernels[0];
  EXPECT_EQ(spec.attributes.text(kLibraryHashAttribute),
            load_library(library_file("snake")).hash());
  const auto target = make_cpu_target(1);
  EXPECT_NE(target->prepare(spec)->explain().find("Snake of "), std::string::npos);
  spec.attributes.set(kLibraryHashAttribute, std::string(32, '0'));
  const std::string other_hash = error_of([&] { target->prepare(spec); });
  EXPECT_NE(other_hash.find("compiled with another version of the library"), std::string::npos);
  EXPECT_NE(other_hash.find("made at model.py:12"), std::string::npos) << other_hash;
  spec.attributes.set(kLibraryOpAttribute, std::string("NeverLoaded"));
  EXPECT_NE(error_of([&] {
              target->prepare(spec);
            }).find("the library of the op 'NeverLoaded' is not loaded"),
            std::string::npos);
}

TEST_F(LibraryTest, TheFingerprintDoesNotDependOnLines) {
  store_snake(main());
  Ir other;
  Tensor* v = variable(other.main_graph(), "v", kValues, {2, 3});
  OpBuilder ops(other.main_graph(), {.name = "layer/op", .location = {"moved.py", 99, "build"}});
  store(other.main_graph(), ops.make("Snake", {v}, {{"a", 2.0}}));
  EXPECT_EQ(Session(ir, options_of()).fingerprint(), Session(other, options_of()).fingerprint());
}

TEST_F(LibraryTest, ADeviceWithMemoryOfItsOwnRefusesIt) {
  add_fake_device_kind();
  store_snake(main());
  SessionOptions options = options_of();
  options.device = "fake";
  const std::string refused = error_of([&] { const Session session(ir, options); });
  EXPECT_NE(refused.find("the fake target has no kernel for 'Snake'"), std::string::npos);
  EXPECT_NE(refused.find("compute on memory of the host"), std::string::npos) << refused;
}

}  // namespace
}  // namespace pando::testing
