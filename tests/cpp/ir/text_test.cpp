// The text form: round trips, errors, and the drawings made from a graph.
#include <gtest/gtest.h>
#include <bit>

#include "pando/ir/dot.hpp"
#include "pando/ir/schedule_text.hpp"
#include "pando/ir/text_parser.hpp"
#include "pando/ir/text_printer.hpp"
#include "pando/ir/verifier.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"
#include "tests/cpp/ir/text_header.hpp"

namespace pando::testing {
namespace {

std::string parse_error(const std::string& body) {
  op_registry();
  return error_of([&] { parse_ir(std::string(kHeader) + body); });
}

TEST(IrText, EverythingSurvivesARoundTrip) {
  const auto ir = program_with_everything();
  verify(*ir);
  const std::string text = print_ir(*ir);
  const auto again = parse_ir(text);
  EXPECT_EQ(print_ir(*again), text);
  verify(*again);
  EXPECT_EQ(again->counters(), ir->counters());
  EXPECT_EQ(again->graphs()[1]->id(), "outer.update \"quoted\"_subgraph(0)");
  EXPECT_FALSE(again->graphs()[1]->differentiable);
  EXPECT_TRUE(again->graphs()[1]->inputs()[0]->is_by_ref());
  for (const char* part :
       {"device none", "device 3 io_tiles weights_to_host phase \"the \\\"last\\\"\" repeated",
        "after [", "at \"dir/model.py\":12 in \"build\"", "keepdims = true",
        "hex \"0000c03f000000c0"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
}

TEST(IrText, RandomProgramsSurviveARoundTrip) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto ir = random_program(seed, 30);
    const std::string text = print_ir(*ir);
    EXPECT_EQ(print_ir(*parse_ir(text)), text) << "seed " << seed;
    EXPECT_EQ(print_ir(*ir->clone()), text) << "seed " << seed;
  }
}

TEST(IrText, ElidedDataIsZeroOnlyOnRequest) {
  const auto ir = program_with_everything();
  const std::string text = print_ir(*ir, {.max_data_bytes = 8});
  EXPECT_NE(text.find("variable \"w\" : (2, 2) float32 = elided"), std::string::npos) << text;
  const std::string error = error_of([&] { parse_ir(text); });
  EXPECT_NE(error.find("wanted the value in hex"), std::string::npos) << error;
  const auto zeroed = parse_ir(text, {.zero_elided = true});
  const HostArray& data = *zeroed->main_graph().find_tensor("w")->data;
  for (std::size_t i = 0; i < data.bytes; ++i) EXPECT_EQ(data.data[i], std::byte{0});
}

TEST(IrText, LocationsCanBeLeftOut) {
  const auto ir = program_with_everything();
  EXPECT_EQ(print_ir(*ir, {.source_locations = false}).find("model.py"), std::string::npos);
}

TEST(IrText, NumbersKeepTheirBits) {
  op_registry();
  for (double value : {0.1, -0.0, 1e300, 5e-324, 3.0, std::numeric_limits<double>::infinity(),
                       -std::numeric_limits<double>::infinity()}) {
    Ir ir;
    OpBuilder(ir.main_graph(), {})
        .op("Fill", {}, {{"shape", Ints{}}, {"dtype", DType::Float32}, {"value", value}});
    const auto again = parse_ir(print_ir(ir));
    const double read = again->main_graph().ops()[0]->attributes.number("value");
    EXPECT_EQ(std::bit_cast<std::uint64_t>(read), std::bit_cast<std::uint64_t>(value)) << value;
  }
}

struct BadText {
  const char* body;
  const char* error;
};

TEST(IrText, ErrorsNamePositionWantedAndGiven) {
  const BadText cases[] = {
      {"", "line 5, column 1: wanted 'graph'; given the end of the text"},
      {"graph \"\" {", "wanted an op, 'output' or '}'; given the end of the text"},
      {"graph \"\" {\n  input x",
       "line 6, column 9: wanted the name of a tensor, in quotes; given 'x'"},
      {"graph \"\" {\n  input \"x\" : (2) real",
       "line 6, column 19: wanted an element type such as "
       "float32; given 'real'"},
      {"graph \"\" {\n  input \"x\" : (-2,) bool", "wanted an integer of 0 or more; given '-2'"},
      {"graph \"\" {\n  input \"x\" : (99999999, 99999999) bool", "larger than 2^48 bytes"},
      {"graph \"\" {\n  input \"x\" : (99999999999999999999,) bool", "an integer of 64 bits"},
      {"graph \"\" {\n  constant \"c\" : (2,) int8 = hex \"00\"", "wanted 4 hexadecimal digits"},
      {"graph \"\" {\n  constant \"c\" : (1,) int8 = hex \"0g\"", "wanted hexadecimal digits"},
      {"graph \"\" {\n  Nonsense.100() -> () }", "line 6, column 3: wanted an op kind"},
      {"graph \"\" {\n  Add.100(\"a\", \"b\") -> () }",
       "line 6, column 3: there is no tensor 'a' before this line in the main graph"},
      {"graph \"\" {\n  input \"x\" : () bool\n  input \"x\" : () bool }",
       "line 7, column 3: the tensor 'x' is given twice"},
      {"graph \"\" {\n  input \"x\" : () float32\n  Neg.1(\"x\") -> (\"y\" : (2,) float32) }",
       "output 0 'y': wanted () float32, given (2,) float32"},
      {"graph \"\" {\n  input \"x\" : () float32\n  Neg.1(\"x\") -> () }",
       "wanted 1 outputs, given 0"},
      {"graph \"\" {\n  input \"x\" : () float32\n  Neg.1(\"x\") {axis = 1} -> () }",
       "wanted an attribute of Neg (it has none); given 'axis'"},
      {"graph \"\" {\n  Fill.1() {shape = [], dtype = float32} -> (\"y\" : () float32) }",
       "attribute 'value' is missing"},
      {"graph \"\" {\n  Fill.1() {shape = [1.5]} -> () }", "wanted an integer of 64 bits"},
      {"graph \"\" {\n  Call.1() -> () calls [\"f\"] }",
       "there is no graph 'f' that can be called"},
      {"graph \"\" {\n  input \"x\" : () float32\n  Neg.1(\"x\") -> (\"y\" : () float32) after [7] "
       "}",
       "`after` names no earlier op of the graph: 7"},
      {"graph \"\" { output \"y\" }", "there is no tensor 'y'"},
      {"graph \"f\" { }", "wanted the main graph (with an empty id) first"},
      {"graph \"\" { }\ngraph \"f\" { }\ngraph \"f\" { }", "the graph 'f' is given twice"},
      {"graph \"\" { } ; ", "line 5, column 14: wanted a word, a number, a text or one of"},
      {"graph \"unfinished", "line 5, column 7: a text starts here and has no end"},
      {"from_host \"s\" graph \"\" { }", "the main graph has no stream tensor called 's'"},
      {"remote_buffer 2 : () float32 entries 1 graph \"\" { }",
       "remote buffers are numbered from 1"},
  };
  for (const BadText& bad : cases) {
    const std::string error = parse_error(bad.body);
    EXPECT_NE(error.find(bad.error), std::string::npos)
        << bad.body << "\nwanted: " << bad.error << "\ngiven:  " << error;
  }
  EXPECT_NE(error_of([] { parse_ir("pando-ir 2"); }).find("wanted version 1; given '2'"),
            std::string::npos);
}

TEST(IrText, RandomMutationsGiveAnIrOrAnError) {
  const std::string text = print_ir(*program_with_everything());
  std::mt19937 random(7);
  const std::string_view alphabet = "\"(){}[],:=.-> 0919eaf\nAdd";
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string mutated = text;
    for (unsigned edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % mutated.size();
      switch (random() % 4) {
        case 0:
          mutated[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          mutated.erase(at, 1 + random() % 20);
          break;
        case 2:
          mutated.insert(at, text.substr(random() % text.size(), random() % 30));
          break;
        default:
          mutated.insert(at, 1, alphabet[random() % alphabet.size()]);
          break;
      }
      if (mutated.empty()) break;
    }
    try {
      const auto ir = parse_ir(mutated);
      const std::string printed = print_ir(*ir);
      EXPECT_EQ(print_ir(*parse_ir(printed)), printed);
      ++accepted;
    } catch (const std::exception&) {
      // Refused: what most mutations deserve.
    }
  }
  EXPECT_GT(accepted, 0);
}

// The text of a schedule, in full.
TEST(IrText, ScheduleOfAnExample) {
  op_registry();
  Ir ir;
  Graph& f = ir.create_graph("f");
  const TensorInfo info{DType::Float32, {2, 2}, {}};
  Tensor* x = f.add_input(f.unique_tensor_id("x"), info);
  Tensor* w = f.add_input(f.unique_tensor_id("w"), info);
  OpBuilder ops(f, {});
  f.mark_output(ops.make("Add", {ops.make("MatMul", {x, w}), w}));
  EXPECT_EQ(schedule_text(f),
            "Graph : f_subgraph(0)\n"
            "  (%1, %2) -> (%4) {\n"
            "    MatMul.100 (%1 [(2, 2) float32], %2 [(2, 2) float32]) -> (%3 [(2, 2) float32])\n"
            "    Add.101 (%3 [(2, 2) float32], %2 [(2, 2) float32]) -> (%4 [(2, 2) float32])\n"
            "  }");
  EXPECT_NE(schedule_text(f, {{w, "linear.weight"}}).find("(%1, linear.weight=%2) -> (%4)"),
            std::string::npos);
}

TEST(IrText, ScheduleNamesCalleesAndLeavesOutMissingInputs) {
  const auto ir = program_with_everything();
  const std::string text = schedule_text(ir->main_graph());
  EXPECT_TRUE(text.starts_with("Graph : \n  () -> ("));
  EXPECT_NE(text.find("(outer.update \"quoted\"_subgraph(0)) (%"), std::string::npos) << text;
  EXPECT_NE(text.find(" () -> (%"), std::string::npos) << text;
}

TEST(IrText, DrawingsAreClosedAndQuoted) {
  const auto ir = program_with_everything();
  for (const std::string& text : {dot_text(ir->main_graph()), dot_text(*ir)}) {
    EXPECT_TRUE(text.starts_with("digraph net {"));
    EXPECT_TRUE(text.ends_with("}\n"));
    EXPECT_EQ(std::count(text.begin(), text.end(), '{'), std::count(text.begin(), text.end(), '}'));
  }
  EXPECT_NE(dot_text(*ir).find("outer.update \\\"quoted\\\"_subgraph(0)"), std::string::npos);
  const std::string part = dot_text(ir->main_graph(), {.first_op = 1, .final_op = 2});
  EXPECT_NE(part.find("HostLoad"), std::string::npos);
  EXPECT_EQ(part.find("Init."), std::string::npos);
  EXPECT_EQ(part.find("ReduceSum"), std::string::npos);
}

}  // namespace
}  // namespace pando::testing
