#include "pando/steps/step_table_reader.hpp"

#include "pando/base/error.hpp"
#include "pando/base/lane_names.hpp"
#include "pando/steps/step_words.hpp"

namespace pando {

std::int32_t StepTableReader::index(const std::string& what) {
  const Token token = peek();
  const int value = small_integer(what);
  if (value < 0) refuse(token, what);
  return value;
}

void StepTableReader::next_index(std::size_t count, const std::string& what) {
  const Token token = peek();
  if (index("an index") != static_cast<std::int64_t>(count)) {
    refuse(token, str_cat(what, " ", count, ", the next one"));
  }
}

std::int32_t StepTableReader::numbered(const std::string& what) {
  symbol("%");
  return index(what);
}

std::vector<std::int64_t> StepTableReader::sizes() {
  std::vector<std::int64_t> by_device;
  do by_device.push_back(integer(0));
  while (take_if_symbol(","));
  return by_device;
}

bool StepTableReader::read_table(StepProgram& program) {
  Program& tables = program.tables;
  if (read_program_line(program) || read_memory_line(tables)) return true;
  if (is_word("from_host") || is_word("to_host")) {
    read_stream(tables, take().text == "from_host");
  } else if (take_if_word("collective")) {
    read_collective(tables);
  } else if (take_if_word("print")) {
    read_print(tables);
  } else if (take_if_word("host_call")) {
    read_host_call(tables);
  } else if (take_if_word("kernel")) {
    read_kernel(tables);
  } else if (take_if_word("source")) {
    read_source(tables);
  } else {
    return false;
  }
  return true;
}

bool StepTableReader::read_program_line(StepProgram& program) {
  Program& tables = program.tables;
  if (take_if_word("replicas")) {
    tables.replicas = integer(1);
  } else if (take_if_word("devices")) {
    program.device_numbers.clear();
    symbol("[");
    list("]", [&] { program.device_numbers.push_back(integer()); });
    tables.devices = static_cast<std::int64_t>(program.device_numbers.size());
    // All of it is the first device's until storages have devices.
    tables.persistent_bytes.resize(program.device_numbers.size());
  } else if (take_if_word("separate_memories")) {
    program.devices_share_memory = false;
  } else if (take_if_word("prefetch")) {
    program.prefetch_bytes = integer(0);
  } else if (take_if_word("weights_unprepared")) {
    program.prepares_weights = false;
  } else if (take_if_word("main")) {
    tables.main_function = index("a function");
  } else if (take_if_word("weights_from_host")) {
    tables.weights_from_host_function = index("a function");
  } else if (take_if_word("weights_to_host")) {
    tables.weights_to_host_function = index("a function");
  } else {
    return false;
  }
  return true;
}

bool StepTableReader::read_memory_line(Program& tables) {
  if (take_if_word("persistent_bytes")) {
    tables.persistent_bytes = sizes();
  } else if (take_if_word("persistent")) {
    PersistentTensor tensor;
    read_id_and_type(tensor, "the id of a tensor");
    word("offset");
    tensor.offset = integer(0);
    if (take_if_word("device")) tensor.device = index("a device");
    tensor.is_variable = take_if_word("variable");
    tensor.is_prepared = take_if_word("prepared");
    if (take_if_word("make")) tensor.make_function = index("a function");
    if (take_if_word("restore")) tensor.restore_function = index("a function");
    tensor.settings = settings();
    tables.persistent.push_back(std::move(tensor));
  } else if (take_if_word("remote_buffer")) {
    RemoteBufferDesc buffer;
    buffer.id = integer(1);
    read_type(buffer);
    word("entries");
    buffer.entries = integer(1);
    tables.remote_buffers.push_back(std::move(buffer));
  } else if (take_if_word("remote_variable")) {
    RemoteVariable variable;
    read_id_and_type(variable, "the id of a variable");
    word("buffer");
    variable.buffer = index("a remote buffer");
    variable.settings = settings();
    tables.remote_variables.push_back(std::move(variable));
  } else {
    return false;
  }
  return true;
}

void StepTableReader::read_stream(Program& tables, bool host_to_device) {
  StreamDesc stream;
  read_id_and_type(stream, "the id of a stream");
  stream.host_to_device = host_to_device;
  tables.streams.push_back(std::move(stream));
}

void StepTableReader::read_collective(Program& tables) {
  next_index(tables.collectives.size(), "collective");
  CollectiveDesc collective;
  collective.kind = static_cast<CollectiveDesc::Kind>(
      one_of(kCollectiveWords, "all_reduce, reduce_scatter or all_gather"));
  collective.reduction = static_cast<Reduction>(one_of(kReductionWords, "a reduction"));
  collective.dtype = dtype();
  collective.input_elements = integer(0);
  word("to");
  collective.output_elements = integer(0);
  word("groups");
  collective.groups.size = integer(1);
  word("stride");
  collective.groups.stride = integer(1);
  collective.name = text("the name of the collective");
  tables.collectives.push_back(std::move(collective));
}

void StepTableReader::read_print(Program& tables) {
  next_index(tables.prints.size(), "print");
  PrintDesc print;
  print.title = text("the title");
  read_type(print);
  print.format = attributes();
  tables.prints.push_back(std::move(print));
}

void StepTableReader::read_host_call(Program& tables) {
  next_index(tables.host_calls.size(), "host call");
  HostCallDesc call;
  call.function = text("the name of a function");
  call.inputs = layouts();
  word("to");
  call.outputs = layouts();
  tables.host_calls.push_back(std::move(call));
}

void StepTableReader::read_kernel(Program& tables) {
  next_index(tables.kernels.size(), "kernel");
  KernelSpec spec;
  if (peek().kind != Token::Kind::Word) refuse(peek(), "the kind of a kernel");
  spec.kind = take().text;
  spec.attributes = attributes();
  spec.inputs = layouts();
  word("to");
  spec.outputs = layouts();
  if (take_if_word("products")) {
    symbol("[");
    list("]", [&] { spec.products.push_back(product()); });
  }
  if (take_if_word("scalar")) spec.scalar = scalar_program();
  tables.kernels.push_back(std::move(spec));
}

void StepTableReader::read_source(Program& tables) {
  next_index(tables.sources.size(), "source");
  SourceTable::Entry entry;
  entry.op = tables.sources.add_text(text("an op"));
  word("at");
  entry.location = tables.sources.add_text(text("a place in a file"));
  word("phase");
  entry.phase = tables.sources.add_text(text("a phase"));
  tables.sources.add(entry);
}

std::vector<OperandDesc> StepTableReader::layouts() {
  std::vector<OperandDesc> operands;
  symbol("(");
  list(")", [&] {
    OperandDesc desc;
    desc.shape = shape();
    desc.dtype = dtype();
    if (take_if_word("strides")) {
      symbol("[");
      list("]", [&] { desc.strides.push_back(integer()); });
    } else {
      desc.strides = contiguous_strides(desc.shape);
    }
    operands.push_back(std::move(desc));
  });
  return operands;
}

ProductInput StepTableReader::product() {
  ProductInput product;
  symbol("(");
  product.value = index("an input");
  symbol(",");
  product.left = index("an input");
  symbol(",");
  product.right = index("an input");
  symbol(")");
  if (take_if_word("in")) product.place = index("an output");
  return product;
}

ScalarProgram StepTableReader::scalar_program() {
  ScalarProgram program;
  symbol("{");
  while (!take_if_symbol("}")) {
    program.instructions.push_back(scalar_instruction(program.instructions.size()));
  }
  return program;
}

ScalarInstruction StepTableReader::scalar_instruction(std::size_t number) {
  static constexpr std::string_view kOps[] = {
#define PANDO_SCALAR_WORD(name, arity) #name,
      PANDO_SCALAR_OPS(PANDO_SCALAR_WORD)
#undef PANDO_SCALAR_WORD
  };
  symbol("%");
  next_index(number, "value");
  symbol("=");
  ScalarInstruction in;
  in.op = static_cast<ScalarOp>(one_of(kOps, "a scalar op"));
  symbol(".");
  in.lane = static_cast<LaneType>(one_of(kLaneNames, "a lane type such as f32"));
  symbol("(");
  ScalarValue* const values[] = {&in.a, &in.b, &in.c};
  for (int k = 0; k < scalar_arity(in.op); ++k) {
    if (k > 0) symbol(",");
    *values[k] = numbered("a value");
  }
  symbol(")");
  const bool has_dtype = peek().kind == Token::Kind::Word && !is_word("index") &&
                         !is_word("number") && !is_word("integer");
  if (has_dtype) in.dtype = dtype();
  if (take_if_word("index")) in.index = index("an operand");
  if (take_if_word("number")) in.immediate = number_of(take());
  if (take_if_word("integer")) in.integer_immediate = integer();
  return in;
}

Attributes StepTableReader::attributes() {
  Attributes attributes;
  if (!take_if_symbol("{")) return attributes;
  list("}", [&] {
    const Token name = take();
    if (name.kind != Token::Kind::Word || attributes.has(name.text)) {
      refuse(name, "the name of another attribute");
    }
    symbol("=");
    attributes.set(name.text, attribute_value());
  });
  return attributes;
}

AttributeValue StepTableReader::attribute_value() {
  if (take_if_word("true")) return true;
  if (take_if_word("false")) return false;
  if (is_word("numbers") || is_word("texts") || is_symbol("[")) return list_value();
  if (peek().kind == Token::Kind::Text) return take().text;
  if (peek().kind == Token::Kind::Integer) return integer();
  const bool is_number = peek().kind == Token::Kind::Number || is_word("nan") || is_word("inf");
  if (is_number) return number_of(take());
  return dtype();
}

/// A list is of texts or integers if its first value is one. One that is empty is of integers if it
/// is not said to be of something else.
AttributeValue StepTableReader::list_value() {
  const bool says_numbers = take_if_word("numbers");
  const bool says_texts = !says_numbers && take_if_word("texts");
  symbol("[");
  if (says_texts || peek().kind == Token::Kind::Text) {
    Texts texts;
    list("]", [&] { texts.push_back(text("a text")); });
    return texts;
  }
  Ints integers;
  Floats numbers;
  const bool of_numbers = says_numbers || (peek().kind != Token::Kind::Integer && !is_symbol("]"));
  list("]", [&] {
    if (of_numbers) {
      numbers.push_back(number_of(take()));
    } else {
      integers.push_back(integer());
    }
  });
  if (of_numbers) return numbers;
  return integers;
}

}  // namespace pando
