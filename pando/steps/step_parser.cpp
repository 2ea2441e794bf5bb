#include "pando/steps/step_parser.hpp"

#include <unordered_map>

#include "pando/base/error.hpp"
#include "pando/steps/step_table_reader.hpp"
#include "pando/steps/step_verifier.hpp"
#include "pando/steps/step_words.hpp"

namespace pando {
namespace {

class StepReader : private StepTableReader {
 public:
  using StepTableReader::StepTableReader;

  StepProgram run() {
    StepProgram program;
    word("pando-steps");
    const Token version = peek();
    if (integer() != 1) refuse(version, "version 1");
    while (read_table(program)) {
    }
    do {
      read_function(program);
    } while (peek().kind != Token::Kind::End);
    return program;
  }

 private:
  void read_function(StepProgram& program) {
    word("function");
    next_index(program.functions.size(), "function");
    StepFunction function;
    function.name = text("the name of a function");
    word("inputs");
    function.num_inputs = index("a number of inputs");
    word("arguments");
    function.num_arguments = index("a number of arguments");
    if (take_if_word("carried")) function.num_carried = index("a number of arguments");
    if (take_if_word("devices")) {
      symbol("[");
      list("]", [&] { function.devices.push_back(index("a device")); });
    }
    if (take_if_word("frame")) function.frame_bytes = sizes();
    symbol("{");
    while (take_if_word("storage")) read_storage(program, function);
    while (!is_word("stream") && !is_word("carry") && !is_symbol("}")) {
      read_instruction(program, function);
    }
    while (take_if_word("stream")) read_stream(function);
    while (take_if_word("carry")) read_carried(function);
    symbol("}");
    program.functions.push_back(std::move(function));
  }

  void read_storage(StepProgram& program, StepFunction& function) {
    symbol("%");
    next_index(function.storages.size(), "storage");
    Storage storage;
    storage.kind = static_cast<Storage::Kind>(one_of(kStorageWords, "local, argument or global"));
    if (storage.kind == Storage::Kind::Argument) storage.slot = index("an argument");
    if (storage.kind == Storage::Kind::Global) storage.offset = integer(0);
    symbol(":");
    storage.bytes = integer(0);
    word("bytes");
    storage.name = text_index(program, text("the name of a storage"));
    if (take_if_word("at")) storage.location = text_index(program, text("a place in a file"));
    storage.is_writable = !take_if_word("read_only");
    storage.starts_undefined = take_if_word("undefined");
    if (take_if_word("frame_of")) storage.callee = index("a function");
    if (take_if_word("row")) storage.row = index("a row");
    if (take_if_word("alive")) {
      storage.first = index("an instruction");
      word("to");
      storage.last = index("an instruction");
    }
    if (take_if_word("device")) storage.device = index("a device");
    storage.is_shared = take_if_word("shared");
    if (is_word("offset") && storage.kind != Storage::Kind::Local) {
      refuse(peek(), "no offset but that in persistent memory");
    }
    if (take_if_word("offset")) storage.offset = integer(0);
    function.storages.push_back(storage);
  }

  TextTable::Index text_index(StepProgram& program, const std::string& text) {
    const auto [it, is_new] = texts_.try_emplace(text);
    if (is_new) it->second = text.empty() ? 0 : program.texts.add(text);
    return it->second;
  }

  void read_instruction(const StepProgram& program, StepFunction& function) {
    StepInstruction in;
    in.kind = kind();
    if (in.kind == Instruction::Kind::Kernel) {
      in.target = kernel(program);
    } else {
      in.target = index("what the instruction is about");
    }
    const StepClauses clauses = clauses_of(in.kind);
    if (!clauses.other_target.empty()) {
      word(std::string(clauses.other_target));
      in.other_target = index("a number");
    }
    if (!clauses.count.empty()) {
      word(std::string(clauses.count));
      in.count = integer(0);
    }
    if (in.kind == Instruction::Kind::Loop) {
      word("carried");
      in.num_carried = integer(0);
      in.ends_early = take_if_word("while");
    }
    symbol("(");
    list(")", [&] { in.operands.push_back(operand()); });
    if (take_if_word("in_place")) {
      symbol("[");
      list("]", [&] { in.in_place.push_back(index("an input")); });
      if (take_if_word("output")) in.in_place_output = index("an output");
    }
    if (clauses.is_transfer && take_if_word("unsigned")) in.count = 1;
    if (take_if_word("constant_row")) in.constant_row = integer();
    if (take_if_word("frame")) {
      do in.callee_frames.push_back(numbered("a storage"));
      while (take_if_symbol(","));
    }
    if (take_if_word("row")) in.row = index("a row");
    in.writes_row = take_if_word("written");
    if (take_if_word("device")) in.device = index("a device");
    if (take_if_word("source")) in.source = index("a source");
    function.instructions.push_back(std::move(in));
  }

  Instruction::Kind kind() {
    const Token token = take();
    for (std::size_t i = 0; i <= static_cast<std::size_t>(kLastInstructionKind); ++i) {
      const auto kind = static_cast<Instruction::Kind>(i);
      if (token.kind == Token::Kind::Word && token.text == step_word(kind)) return kind;
    }
    refuse(token, "an instruction, 'storage', 'stream', 'carry' or '}'");
  }

  /// `MatMul.3`: the name is there to be read, and must be that of the kernel.
  std::int32_t kernel(const StepProgram& program) {
    const Token name = take();
    symbol(".");
    const Token number = peek();
    const std::int32_t kernel = index("a kernel");
    const auto position = static_cast<std::size_t>(kernel);
    if (position >= program.tables.kernels.size()) refuse(number, "a kernel of the program");
    const std::string& kind = program.tables.kernels[position].kind;
    if (name.text != kind) refuse(name, str_cat(kind, ", which kernel ", kernel, " is"));
    return kernel;
  }

  StepOperand operand() {
    if (take_if_symbol("-")) return {};
    StepOperand operand;
    operand.read_only = is_word("in");
    if (!operand.read_only && !is_word("out")) refuse(peek(), "'in', 'out' or '-'");
    take();
    operand.storage = numbered("a storage");
    if (take_if_symbol("[")) {
      operand.offset = integer(0);
      symbol("]");
    }
    return operand;
  }

  void read_stream(StepFunction& function) {
    const Token device = peek();
    const std::size_t position = function.streams.size();
    if (position >= function.devices.size() || index("a device") != function.devices[position]) {
      refuse(device, "the streams of the function's devices, in order");
    }
    std::vector<StreamStep>& stream = function.streams.emplace_back();
    symbol("[");
    list("]", [&] {
      StreamStep step;
      step.kind = static_cast<StreamStep::Kind>(one_of(kStreamWords, "run, signal or wait"));
      step.index = index("a number");
      stream.push_back(step);
    });
  }

  void read_carried(StepFunction& function) {
    CarriedSignals carried;
    carried.from = index("a device");
    word("to");
    carried.to = index("a device");
    word("times");
    carried.count = index("a number of signals");
    function.carried_signals.push_back(carried);
  }

  std::unordered_map<std::string, TextTable::Index> texts_;
};

}  // namespace

StepProgram parse_steps(std::string_view text) {
  StepProgram program = StepReader(text).run();
  check_steps(program);
  return program;
}

bool is_steps_text(std::string_view text) {
  try {
    return Lexer(text).peek().text == "pando-steps";
  } catch (const Error&) {
    return false;
  }
}

}  // namespace pando
