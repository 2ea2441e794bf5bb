// Reads the tables of steps: what instructions name by index.
#pragma once

#include <string_view>

#include "pando/ir/text_reader.hpp"
#include "pando/steps/step_function.hpp"

namespace pando {

class StepTableReader : public TextReader {
 public:
  using TextReader::TextReader;

 protected:
  /// One table entry into `program`, or false where another thing begins.
  bool read_table(StepProgram& program);

  /// A number of 32 bits, 0 or more.
  std::int32_t index(const std::string& what);
  /// The index of the next of `count` entries, as a check that nothing is missing.
  void next_index(std::size_t count, const std::string& what);
  /// `%3`.
  std::int32_t numbered(const std::string& what);
  /// `64, 128`.
  std::vector<std::int64_t> sizes();
  /// One of `words`, as its position.
  template <class Words>
  std::size_t one_of(const Words& words, const std::string& what) {
    const Token token = take();
    for (std::size_t i = 0; i < std::size(words); ++i) {
      if (token.kind == Token::Kind::Word && token.text == words[i]) return i;
    }
    refuse(token, what);
  }

 private:
  /// `: (2, 3) float32`.
  template <class Entry>
  void read_type(Entry& entry) {
    symbol(":");
    entry.shape = shape();
    entry.dtype = dtype();
  }
  template <class Entry>
  void read_id_and_type(Entry& entry, const std::string& what) {
    entry.id = text(what);
    read_type(entry);
  }
  bool read_program_line(StepProgram& program);
  bool read_memory_line(Program& tables);
  void read_stream(Program& tables, bool host_to_device);
  void read_collective(Program& tables);
  void read_print(Program& tables);
  void read_host_call(Program& tables);
  void read_kernel(Program& tables);
  void read_source(Program& tables);
  std::vector<OperandDesc> layouts();
  ProductInput product();
  ScalarProgram scalar_program();
  ScalarInstruction scalar_instruction(std::size_t number);
  Attributes attributes();
  AttributeValue attribute_value();
  AttributeValue list_value();
};

}  // namespace pando
