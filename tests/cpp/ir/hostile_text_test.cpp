// Texts and stored Irs that nobody should have written: an error, or an Ir that keeps the rules.
#include <gtest/gtest.h>

#include "pando/base/hash.hpp"
#include "pando/ir/dot.hpp"
#include "pando/ir/serialise.hpp"
#include "pando/ir/text_parser.hpp"
#include "pando/ir/text_printer.hpp"
#include "pando/ir/verifier.hpp"
#include "tests/cpp/fuzz/generator.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"
#include "tests/cpp/ir/text_header.hpp"
#include "tests/cpp/ir/text_mutation.hpp"

namespace pando::testing {
namespace {

/// How reading ended: "" for an Ir that keeps the rules, else the error. Anything but an error
/// about the text fails the test.
std::string outcome(const std::function<std::unique_ptr<Ir>()>& read) {
  std::unique_ptr<Ir> ir;
  try {
    ir = read();
  } catch (const InternalError& error) {
    ADD_FAILURE() << "an internal error: " << error.what();
    return error.what();
  } catch (const Error& error) {
    return error.what();
  }
  EXPECT_EQ(error_of([&] { verify(*ir); }), "no error");
  const std::string printed = print_ir(*ir);
  EXPECT_EQ(print_ir(*parse_ir(printed)), printed);
  EXPECT_EQ(print_ir(*deserialise_ir(serialise_ir(*ir))), printed);
  EXPECT_EQ(print_ir(*ir->clone()), printed);
  EXPECT_NE(dot_text(*ir).find("digraph"), std::string::npos);
  return "";
}

std::string outcome_of_text(const std::string& text) {
  op_registry();
  return outcome([&] { return parse_ir(text); });
}

/// A text with `body` in the main graph.
std::string in_main(const std::string& body) {
  return str_cat(kHeader, "graph \"\" {\n", body, "\n}\n");
}

std::string repeated(std::string_view text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

TEST(HostileText, NestingAndHugeCounts) {
  constexpr int kMany = 100000;
  for (const std::string_view bracket : {"(", "[", "{", "((", "[1, ", "graph \"x\" {"}) {
    const std::string open = repeated(bracket, kMany);
    EXPECT_NE(outcome_of_text(open), "") << bracket;
    EXPECT_NE(outcome_of_text(std::string(kHeader) + open), "") << bracket;
    EXPECT_NE(outcome_of_text(in_main("input \"x\" : " + open)), "") << bracket;
    EXPECT_NE(outcome_of_text(in_main("input \"x\" : (2) float32\nNeg.100(\"x\") -> " + open)), "");
  }
  const std::string big = "9223372036854775807", bigger = "9223372036854775808";
  for (const std::string& size : {big, bigger, std::string(400, '9'), std::string("-1")}) {
    for (const std::string& body :
         {str_cat("input \"x\" : (", size, ") float32"),
          str_cat("input \"x\" : (2, ", size, ", 0) float32"),
          str_cat("constant \"x\" : (", size, ") float32 = hex \"00\""),
          str_cat("stream \"x\" : (", size, ",4294967296) float64"),
          str_cat("input \"x\" : (2,) float32\nNeg.", size, "(\"x\") -> (\"y\" : (2,) int8)"),
          str_cat("input \"x\" : (2,) float32\nReshape.5(\"x\") {shape = [", size, ", ", size,
                  "]} -> (\"y\" : (2,) float32)")}) {
      EXPECT_NE(outcome_of_text(in_main(body)), "") << body;
    }
    for (const char* line : {"replicas ", "transfers ", "counters 0 0 "}) {
      std::string header(kHeader);
      const std::size_t at = header.find(line) + std::strlen(line);
      header.replace(at, 1, size);
      outcome_of_text(header + "graph \"\" {\n}\n");
    }
  }
  // As deep as shapes may be: many dimensions are no crash, either.
  outcome_of_text(in_main("input \"x\" : (" + repeated("1, ", kMany) + ") float32"));
}

TEST(HostileText, UnknownAndDoubleNames) {
  const std::string x = "input \"x\" : (2,) float32\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {in_main(x + x), "the tensor 'x' is given twice"},
      {in_main(x + "Nag.1(\"x\") -> (\"y\" : (2,) float32)"), "wanted an op kind"},
      {in_main(x + "Neg.1(\"z\") -> (\"y\" : (2,) float32)"), "there is no tensor 'z'"},
      {in_main(x + "Neg.1(\"x\") -> (\"x\" : (2,) float32)"), "the tensor 'x' is given twice"},
      {in_main(x +
               "Neg.1(\"x\") -> (\"y\" : (2,) float32)\nNeg.1(\"x\") -> (\"z\" : (2,) float32)"),
       "the op id 1 is given twice"},
      {in_main(x + "Neg.200(\"x\") -> (\"y\" : (2,) float32)"),
       "the op id 200 will be given out again: wanted a counter of ops above it, given 200"},
      {in_main("") + "graph \"g\" {\n}\ngraph \"g\" {\n}\n", "the graph 'g' is given twice"},
      {in_main("") + "graph \"\" {\n}\n", "the graph '' is given twice"},
      {in_main("Call.1() -> () calls [\"\"]"), "there is no graph '' that can be called"},
      {in_main("Call.1() -> () calls [\"g\"]"), "there is no graph 'g' that can be called"},
      {in_main(x + "Neg.1(\"x\") -> (\"y\" : (2,) float32) after [2]\n"
                   "Neg.2(\"x\") -> (\"z\" : (2,) float32) after [1]"),
       "`after` names no earlier op of the graph: 2"},
      {in_main(x + "Neg.1(\"x\") -> (\"y\" : (2,) float32) after [1]"),
       "`after` names no earlier op of the graph: 1"},
      {in_main("Call.1() -> ()"), "needs 1 called graphs, has 0"},
      {in_main(x + "Neg.1(\"x\") -> (\"y\" : (2,) float32) calls [\"g\"]") + "graph \"g\" {\n}\n",
       "needs 0 called graphs, has 1"},
      {in_main(x + "Neg.1(\"x\") {axis = 1} -> (\"y\" : (2,) float32)"), "an attribute of Neg"},
      {in_main("constant \"c\" : (1,) bool = hex \"0g\""), "hexadecimal digits"}};
  for (const auto& [text, part] : cases) {
    const std::string error = outcome_of_text(text);
    EXPECT_NE(error.find(part), std::string::npos) << text << "\ngave: " << error;
  }
}

/// Tensors need not be named after their graph.
TEST(HostileText, NamesWithoutTheGraph) {
  const std::string text =
      str_cat(kHeader,
              "graph \"\" {\n  input \"m\" : (2,) float32\n"
              "  Call.1(\"m\") -> (\"r\" : (2,) float32) calls [\"a long name of a graph\"]\n}\n"
              "graph \"a long name of a graph\" {\n  input \"x\" : (2,) float32\n"
              "  Neg.2(\"x\") -> (\"a long name of a graph and more\" : (2,) float32)\n"
              "  output \"a long name of a graph and more\"\n}\n");
  EXPECT_EQ(outcome_of_text(text), "");
  const auto ir = parse_ir(text);
  const Graph& graph = *ir->graphs()[1];
  EXPECT_EQ(graph.inputs()[0]->name(), "x");
  EXPECT_EQ(graph.outputs()[0]->name(), "a long name of a graph and more");
  const std::string drawing = dot_text(*ir);
  for (const char* label : {"label=\"x\\n(2,) float32\"", "label=\"m\\n(2,) float32\""}) {
    EXPECT_NE(drawing.find(label), std::string::npos) << drawing;
  }
}

using Random = std::mt19937_64;

std::size_t pick(Random& random, std::size_t count) { return random() % count; }

std::vector<std::string> printed_programs() {
  std::vector<std::string> texts = {print_ir(*program_with_everything()), print_ir(*row_program())};
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    texts.push_back(print_ir(*fuzz::random_program(seed, true).ir));
  }
  return texts;
}

TEST(HostileText, MutationsOfRandomProgramsGiveAnIrOrAnError) {
  Random random(11);
  int accepted = 0, refused = 0;
  for (const std::string& text : printed_programs()) {
    for (int round = 0; round < 400; ++round) {
      std::string mutated = text;
      for (std::size_t edits = 1 + pick(random, 2); edits > 0; --edits)
        mutate_text(mutated, random);
      const bool is_error = !outcome_of_text(mutated).empty();
      ++(is_error ? refused : accepted);
      if (::testing::Test::HasFailure()) FAIL() << mutated;
    }
  }
  EXPECT_GT(accepted, 50);
  EXPECT_GT(refused, 500);
}

/// The checksum made right: what is refused is refused for what it says.
TEST(HostileText, MutationsOfStoredIrsGiveAnIrOrAnError) {
  op_registry();
  Random random(13);
  int accepted = 0, refused = 0;
  for (const auto& ir : {program_with_everything(), row_program(), random_program(3, 20)}) {
    const std::string bytes = serialise_ir(*ir);
    for (int round = 0; round < 1000; ++round) {
      std::string mutated = bytes.substr(0, bytes.size() - sizeof(std::uint64_t));
      const std::size_t at = 12 + pick(random, mutated.size() - 12);
      const char values[] = {0, 1, 2, -1, 127, static_cast<char>(random())};
      mutated[at] = values[pick(random, std::size(values))];
      const std::uint64_t sum = hash64(mutated);
      mutated.append(reinterpret_cast<const char*>(&sum), sizeof sum);
      const bool is_error = !outcome([&] { return deserialise_ir(mutated); }).empty();
      ++(is_error ? refused : accepted);
      if (::testing::Test::HasFailure()) FAIL() << "byte " << at;
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace pando::testing
