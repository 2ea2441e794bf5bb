// Libraries that must be refused, and ops that break their promises: a clear error each time, and
// nothing else changes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "pando/ir/text_parser.hpp"
#include "pando/transforms/autodiff.hpp"
#include "tests/custom/libraries.hpp"

namespace pando::testing {
namespace {

namespace fs = std::filesystem;

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "wanted '" << part << "' in: " << text;
}

struct BadLibrary {
  const char* name;
  const char* error;
};

std::ostream& operator<<(std::ostream& out, const BadLibrary& library) {
  return out << library.name;
}

class RefusedLibrary : public ::testing::TestWithParam<BadLibrary> {};

TEST_P(RefusedLibrary, LeavesNothingBehind) {
  load_library(library_file("snake"));
  const std::size_t kinds = op_registry().all().size();
  const std::string file = library_file(GetParam().name);
  // The second time is no different.
  for (int i = 0; i < 2; ++i) {
    const std::string error = error_of([&] { load_library(file); });
    expect_in(error, GetParam().error);
    expect_in(error, fs::canonical(file).string());
  }
  EXPECT_EQ(op_registry().all().size(), kinds);
  EXPECT_EQ(op_registry().find("SoundOp"), nullptr);
  EXPECT_EQ(find_library_op("SoundOp"), nullptr);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, RefusedLibrary,
    ::testing::Values(
        BadLibrary{"wrong_version", "is for another version of pando_op.h: wanted 1, given 99"},
        BadLibrary{"no_symbol", "has no function pando_op_abi_version: wanted a library"},
        BadLibrary{"no_registration", "has no function pando_register_ops_v1"},
        BadLibrary{"registration_fails", "returned 5: no licence ? for this machine"},
        BadLibrary{"registration_throws", "threw an exception: thrown by the registration"},
        BadLibrary{"no_ops", "registers no ops"},
        BadLibrary{"two_of_one_name", "registers two ops called 'SoundOp'"},
        BadLibrary{"name_of_pando", "the op 'MatMul', which is one of Pando's own"},
        BadLibrary{"name_of_another", "the op 'Snake', which is already one of the library /"},
        BadLibrary{"null_op", "registers an op that is NULL"},
        BadLibrary{"op_version", "an op whose abi_version is 7: wanted 1"},
        BadLibrary{"no_name", "an op without a name"},
        BadLibrary{"bad_name", "an op called 'output': wanted a name of"},
        BadLibrary{"no_rule", "the op 'BadOp', which has no shape rule (infer)"},
        BadLibrary{"no_compute", "the op 'BadOp', which has no compute function"},
        BadLibrary{"input_counts", "which takes 3 to 1 inputs"},
        BadLibrary{"output_counts", "which has up to 1000000 outputs: wanted 1 to 64"},
        BadLibrary{"in_place_count", "which has 2 outputs in place"},
        BadLibrary{"in_place_gradient", "which works in place and has a gradient"},
        BadLibrary{"flags", "which has unknown flags: 1073741824"},
        BadLibrary{"attributes_null", "which has 2 attributes: wanted a list"},
        BadLibrary{"attribute_type", "with the attribute 'a' of the unknown type 55"},
        BadLibrary{"attribute_name", "with an attribute called 'library_hash'"},
        BadLibrary{"attribute_twice", "with two attributes called 'a'"},
        BadLibrary{"no_domain", "has the domain '' of version 1: wanted a name"},
        BadLibrary{"domain_version", "has the domain 'com.?' of version 0: wanted a name"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Library, NoLibraryAtAll) {
  expect_in(error_of([] { load_library("/no/such/library.so"); }),
            "there is no library '/no/such/library.so': No such file");
  expect_in(error_of([] { load_library(""); }), "there is no library ''");
  const fs::path folder = fs::temp_directory_path() / str_cat("pando_no_library_", ::getpid());
  fs::create_directories(folder);
  expect_in(error_of([&] { load_library(folder.string()); }), "is no file");
  const fs::path text = folder / "text.so";
  std::ofstream(text) << "not a shared library";
  expect_in(error_of([&] { load_library(text.string()); }), "cannot load the library");
  expect_in(error_of([&] { load_library(text.string()); }), text.filename().string());
  fs::remove_all(folder);
}

TEST(Library, AFileThatChangedNeedsANewProcess) {
  const fs::path file = fs::temp_directory_path() / str_cat("pando_changed_", ::getpid(), ".so");
  fs::copy_file(library_file("none"), file);
  load_library(file.string());
  fs::remove(file);
  fs::copy_file(library_file("lying_ops"), file);
  expect_in(error_of([&] { load_library(file.string()); }), "has changed since it was loaded");
  fs::remove(file);
}

TEST(Library, TextWithAnOpThatNobodyLoadedNamesIt) {
  op_registry();
  const std::string text =
      "pando-ir 1\nreplicas 1\ntransfers 1\ncounters 4 0 0\ngraph \"\" {\n"
      "  NeverLoaded.1() -> (\"a\" : () float32)\n}\n";
  const std::string error = error_of([&] { parse_ir(text); });
  expect_in(error, "line 6, column 3");
  expect_in(error, "load the library first");
  expect_in(error, "given 'NeverLoaded'");
}

class LyingOps : public ::testing::Test {
 protected:
  LyingOps() {
    load_library(library_file("lying_ops"));
    x = variable(main(), "x", {1.0f}, {});
  }
  Graph& main() { return ir.main_graph(); }

  Ir ir;
  Tensor* x = nullptr;
};

TEST_F(LyingOps, AShapeRuleThatLiesIsRefusedWhereTheOpIsBuilt) {
  const std::string file = fs::canonical(library_file("lying_ops")).string();
  const std::vector<std::pair<const char*, std::string>> lies = {
      {"LieNothing", "gives output 0 the unknown dtype 0"},
      {"LieFails", "returned -4: " + std::string(1024, 'x')},
      {"LieThrows", "threw an exception: thrown by a rule"},
      {"LieNegative", "the shape (3, -1): wanted no negative size"},
      {"LieRank", "33 dimensions: wanted 0 to 32"},
      {"LieNoRank", "-1 dimensions"},
      {"LieDtype", "the unknown dtype 1234"},
      {"LieMore", "gives 2 outputs: wanted 1 to 1"},
      {"LieFewer", "gives 0 outputs"},
      {"LieBelowNone", "gives -3 outputs"}};
  for (const auto& [kind, fault] : lies) {
    const std::string error = error_of([&] { builder_of(main()).make(kind, {x}); });
    expect_in(error, fault);
    expect_in(error, str_cat(kind, " 'layer/op'"));
    expect_in(error, "made at model.py:12");
    expect_in(error, file);
  }
  expect_in(error_of([&] { builder_of(main()).make("LieHuge", {x}); }), "LieHuge");
  Tensor* ints = builder_of(main()).constant(1, DType::Int32);
  expect_in(error_of([&] { builder_of(main()).make("LieInPlace", {ints}); }),
            "() float32, but it is input 0 in place, which is () int32");
  EXPECT_TRUE(main().ops().empty());
}

TEST_F(LyingOps, AComputeThatFailsEndsTheRunAndNothingElse) {
  OpBuilder ops = builder_of(main());
  store(main(), ops.make("ComputeFails", {x}));
  ops.op("AddLhsInplace", {x, ops.constant(-1.0, DType::Float32)});
  Session session(ir, options_of());
  session.attach();
  session.weights_from_host();
  EXPECT_EQ(run<float>(session)[0], 2.0f);  // x is 1, then 0
  EXPECT_EQ(run<float>(session)[0], 1.0f);  // then -1
  for (int i = 0; i < 2; ++i) {
    try {
      run<float>(session);
      FAIL() << "the run went on";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::RunFailed);
      expect_in(error.what(), "ComputeFails 'layer/op'");
      expect_in(error.what(), "made at model.py:12");
      expect_in(error.what(), "returned 7: cannot take -1 ?(");
    }
  }
  session.weights_from_host();
  EXPECT_EQ(run<float>(session)[0], 2.0f);
}

TEST_F(LyingOps, AComputeThatThrowsEndsTheRun) {
  store(main(), builder_of(main()).make("ComputeThrows", {x}));
  Session session(ir, options_of());
  session.attach();
  session.weights_from_host();
  expect_in(error_of([&] { run<float>(session); }), "threw an exception without a message");
}

TEST_F(LyingOps, ScratchThatCannotBeIsRefused) {
  for (const auto& [kind, fault] : {std::pair("NegativeScratch", "asks for -1 bytes"),
                                    std::pair("ScratchFails", "returned 12 without a message")}) {
    Ir program;
    Tensor* v = variable(program.main_graph(), "v", {1.0f}, {});
    store(program.main_graph(), builder_of(program.main_graph()).make(kind, {v}));
    const std::string error = error_of([&] { const Session session(program, options_of()); });
    expect_in(error, fault);
    expect_in(error, "made at model.py:12");
  }
}

TEST_F(LyingOps, AGradientRuleThatLiesIsRefused) {
  const std::vector<std::pair<const char*, const char*>> lies = {
      {"GradientShape", "the gradient of input 0 is (1, 1) float32: wanted () float32"},
      {"GradientNode", "there is no node 777"},
      {"GradientInput", "there is no input 3"},
      {"GradientOutput", "there is no output 5: the op has 1"},
      {"GradientKind", "there is no op kind called 'NoSuchOp'"},
      {"GradientNull", "wanted the kind of an op, given NULL"},
      {"GradientAttribute", "Neg has no attribute 'no_such_attribute'"},
      {"GradientInPlace", "it works in place"},
      {"GradientFails", "returned 9: no gradient today"}};
  for (const auto& [kind, fault] : lies) {
    Ir program;
    program.main_graph();
    Graph& graph = program.create_graph("network");
    Tensor* input = graph.add_input(graph.unique_tensor_id("x"), {DType::Float32, {}, {}});
    graph.mark_output(builder_of(graph).make(kind, {input}));
    const std::size_t graphs = program.graphs().size();
    const std::string error = error_of([&] { autodiff(graph, {}, {}); });
    expect_in(error, fault);
    expect_in(error, kind);
    expect_in(error, "made at model.py:12");
    EXPECT_EQ(program.graphs().size(), graphs) << kind;
  }
}

}  // namespace
}  // namespace pando::testing
