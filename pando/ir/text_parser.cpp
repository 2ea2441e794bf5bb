#include "pando/ir/text_parser.hpp"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "pando/base/error.hpp"
#include "pando/ir/ir_data.hpp"
#include "pando/ir/text_lexer.hpp"

namespace pando {
namespace {

class Parser {
 public:
  Parser(std::string_view text, const ParseOptions& options) : lexer_(text), options_(options) {}

  IrData run() {
    IrData ir;
    parse_header(ir);
    while (is_word("remote_buffer")) parse_buffer(ir);
    while (is_word("from_host") || is_word("to_host")) {
      const TextPosition position = lexer_.peek().position;
      const bool from_host = lexer_.take().text == "from_host";
      ir.streams.push_back(
          {text("the name of a stream"),
           from_host ? StreamDirection::HostToDevice : StreamDirection::DeviceToHost, position});
    }
    do {
      parse_graph(ir);
    } while (lexer_.peek().kind != Token::Kind::End);
    return ir;
  }

 private:
  [[noreturn]] void refuse(const Token& token, const std::string& wanted) const {
    throw Error(str_cat("line ", token.position.line, ", column ", token.position.column,
                        ": wanted ", wanted, "; given ", token_text(token)));
  }

  bool is_word(std::string_view word) const {
    return lexer_.peek().kind == Token::Kind::Word && lexer_.peek().text == word;
  }
  bool is_symbol(std::string_view symbol) const {
    return lexer_.peek().kind == Token::Kind::Symbol && lexer_.peek().text == symbol;
  }
  bool take_if_word(std::string_view word) {
    if (!is_word(word)) return false;
    lexer_.take();
    return true;
  }
  bool take_if_symbol(std::string_view symbol) {
    if (!is_symbol(symbol)) return false;
    lexer_.take();
    return true;
  }
  void word(const std::string& wanted) {
    if (!take_if_word(wanted)) refuse(lexer_.peek(), str_cat("'", wanted, "'"));
  }
  void symbol(const std::string& wanted) {
    if (!take_if_symbol(wanted)) refuse(lexer_.peek(), str_cat("'", wanted, "'"));
  }
  std::string text(const std::string& what) {
    if (lexer_.peek().kind != Token::Kind::Text) {
      refuse(lexer_.peek(), str_cat(what, ", in quotes"));
    }
    return lexer_.take().text;
  }

  std::int64_t integer_of(const Token& token) const {
    std::int64_t value = 0;
    const char* end = token.text.data() + token.text.size();
    const auto [stop, error] = std::from_chars(token.text.data(), end, value);
    if (token.kind != Token::Kind::Integer || error != std::errc() || stop != end) {
      refuse(token, "an integer of 64 bits");
    }
    return value;
  }
  std::int64_t integer(std::int64_t least = std::numeric_limits<std::int64_t>::min()) {
    const Token token = lexer_.take();
    const std::int64_t value = integer_of(token);
    if (value < least) refuse(token, str_cat("an integer of ", least, " or more"));
    return value;
  }
  int line_number() {
    const Token token = lexer_.take();
    const std::int64_t value = integer_of(token);
    if (value != static_cast<int>(value)) refuse(token, "a line number");
    return static_cast<int>(value);
  }
  double number_of(const Token& token) const {
    if (token.kind == Token::Kind::Word && token.text == "nan") return std::nan("");
    if (token.kind == Token::Kind::Word && token.text == "inf") return HUGE_VAL;
    char* end = nullptr;
    const double value = std::strtod(token.text.c_str(), &end);
    const bool numeric = token.kind == Token::Kind::Number || token.kind == Token::Kind::Integer;
    if (!numeric || end != token.text.c_str() + token.text.size()) refuse(token, "a number");
    return value;
  }

  /// `item()` until `close`, separated by commas.
  template <class Item>
  void list(const std::string& close, Item item) {
    if (take_if_symbol(close)) return;
    do {
      item();
    } while (take_if_symbol(","));
    if (!take_if_symbol(close)) refuse(lexer_.peek(), str_cat("',' or '", close, "'"));
  }

  Shape shape() {
    symbol("(");
    Shape result;
    while (!take_if_symbol(")")) {
      result.push_back(integer(0));
      if (take_if_symbol(")")) break;
      symbol(",");
    }
    return result;
  }

  DType dtype() {
    const Token token = lexer_.take();
    for (std::size_t i = 0; i < kDTypeTraits.size(); ++i) {
      if (kDTypeTraits[i].name == token.text && token.kind == Token::Kind::Word) {
        return static_cast<DType>(i);
      }
    }
    refuse(token, "an element type such as float32");
  }

  TensorInfo type() {
    const Token start = lexer_.peek();
    TensorInfo info;
    info.shape = shape();
    info.dtype = dtype();
    if (take_if_word("meta")) info.meta_shape = shape();
    try {
      check_storable(info);
    } catch (const Error& error) {
      refuse(start, str_cat("a type that can be stored (", error.what(), ")"));
    }
    return info;
  }

  void parse_header(IrData& ir) {
    word("pando-ir");
    const Token version = lexer_.peek();
    if (integer() != 1) refuse(version, "version 1");
    word("replicas");
    ir.replication_factor = replicas_ = integer(1);
    word("transfers");
    ir.num_host_transfers = integer(1);
    word("counters");
    ir.counters.op_id = integer(0);
    ir.counters.tensor_suffix = integer(0);
    ir.counters.graph_suffix = integer(0);
  }

  void parse_buffer(IrData& ir) {
    word("remote_buffer");
    RemoteBuffer buffer{};
    buffer.id = integer(1);
    symbol(":");
    buffer.info = type();
    word("entries");
    buffer.entries = integer(1);
    ir.remote_buffers.push_back(std::move(buffer));
  }

  void parse_graph(IrData& ir) {
    GraphData graph;
    graph.position = lexer_.peek().position;
    word("graph");
    graph.id = text("the id of a graph");
    graph.differentiable = !take_if_word("not_differentiable");
    symbol("{");
    while (parse_source(graph)) {
    }
    while (!is_word("output") && !is_symbol("}")) parse_op(graph);
    while (take_if_word("output")) graph.outputs.push_back(text("the name of a tensor"));
    symbol("}");
    ir.graphs.push_back(std::move(graph));
  }

  bool parse_source(GraphData& graph) {
    SourceTensorData source;
    source.position = lexer_.peek().position;
    if (is_word("input")) {
      source.kind = TensorKind::GraphInput;
    } else if (is_word("variable")) {
      source.kind = TensorKind::Variable;
    } else if (is_word("constant")) {
      source.kind = TensorKind::Constant;
    } else if (is_word("stream")) {
      source.kind = TensorKind::Stream;
    } else {
      return false;
    }
    lexer_.take();
    source.id = text("the name of a tensor");
    symbol(":");
    source.info = type();
    if (source.kind == TensorKind::GraphInput) source.by_ref = take_if_word("by_ref");
    if (source.kind == TensorKind::Variable) parse_settings(source.settings);
    if (take_if_symbol("=")) source.data = host_data(source_bytes(source, replicas_));
    graph.sources.push_back(std::move(source));
    return true;
  }

  void parse_settings(VariableSettings& settings) {
    if (take_if_word("groups")) {
      symbol("[");
      list("]", [&] { settings.groups.push_back(integer(0)); });
    }
    settings.entry_per_replica = take_if_word("per_replica");
    if (!take_if_word("remote")) return;
    settings.remote_buffer = integer(1);
    word("slot");
    settings.slot = integer(0);
    if (take_if_word("shards")) settings.shard_over = integer(1);
  }

  std::shared_ptr<HostArray> host_data(std::size_t bytes) {
    const Token form = lexer_.take();
    if (form.kind == Token::Kind::Word && form.text == "elided") {
      if (!options_.zero_elided) {
        refuse(form, "the value in hex (or the parse option that makes elided values zero)");
      }
      auto data = HostArray::allocate(bytes);
      if (bytes > 0) std::memset(data->data, 0, bytes);
      return data;
    }
    if (form.kind != Token::Kind::Word || form.text != "hex") refuse(form, "'hex' or 'elided'");
    const Token digits = lexer_.peek();
    const std::string hex = text("a value in hex");
    if (hex.size() != 2 * bytes) {
      refuse(digits, str_cat(2 * bytes, " hexadecimal digits (given are ", hex.size(), ")"));
    }
    auto data = HostArray::allocate(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
      unsigned value = 0;
      const char* pair = hex.data() + 2 * i;
      const auto [stop, error] = std::from_chars(pair, pair + 2, value, 16);
      if (error != std::errc() || stop != pair + 2) refuse(digits, "hexadecimal digits");
      data->data[i] = static_cast<std::byte>(value);
    }
    return data;
  }

  void parse_op(GraphData& graph) {
    const Token kind = lexer_.take();
    if (kind.kind != Token::Kind::Word) refuse(kind, "an op, 'output' or '}'");
    const OpDef* def = Registry::instance().find(kind.text);
    if (def == nullptr) refuse(kind, "an op kind, a tensor, 'output' or '}'");
    OpData op;
    op.kind = kind.text;
    op.position = kind.position;
    symbol(".");
    op.id = integer(0);
    symbol("(");
    list(")", [&] {
      const bool connected = !take_if_symbol("-");
      op.inputs.push_back(connected ? std::optional(text("an input (or -)")) : std::nullopt);
    });
    if (take_if_symbol("{")) {
      list("}", [&] { parse_attribute(*def, op.attributes); });
    }
    symbol("->");
    symbol("(");
    list(")", [&] {
      std::string id = text("the name of an output");
      symbol(":");
      op.outputs.emplace_back(std::move(id), type());
    });
    parse_op_links(op);
    parse_context(op.context);
    graph.ops.push_back(std::move(op));
  }

  void parse_op_links(OpData& op) {
    if (take_if_word("calls")) {
      symbol("[");
      list("]", [&] { op.called_graphs.push_back(text("the id of a graph")); });
    }
    if (take_if_word("after")) {
      symbol("[");
      list("]", [&] { op.after.push_back(integer(0)); });
    }
  }

  void parse_context(OpContext& context) {
    if (take_if_word("name")) context.name = text("the name of the op");
    if (take_if_word("device")) {
      context.device = take_if_word("none") ? std::nullopt : std::optional(integer());
    }
    context.io_tiles = take_if_word("io_tiles");
    if (take_if_word("weights_from_host")) {
      context.execution = ExecutionContext::WeightsFromHost;
    } else if (take_if_word("weights_to_host")) {
      context.execution = ExecutionContext::WeightsToHost;
    }
    if (!take_if_word("at")) return;
    context.location.file = text("a file name");
    symbol(":");
    context.location.line = line_number();
    if (take_if_word("in")) context.location.function = text("the name of a function");
  }

  void parse_attribute(const OpDef& def, Attributes& attributes) {
    const Token name = lexer_.take();
    const AttributeSpec* spec = nullptr;
    for (const AttributeSpec& known : def.attributes) {
      if (known.name == name.text) spec = &known;
    }
    if (name.kind != Token::Kind::Word || spec == nullptr) {
      std::string names;
      for (const AttributeSpec& known : def.attributes) names += " " + known.name;
      refuse(name, str_cat("an attribute of ", def.name, " (it has",
                           names.empty() ? " none" : names, ")"));
    }
    if (attributes.has(name.text)) refuse(name, "every attribute once");
    symbol("=");
    attributes.set(name.text, value(spec->type));
  }

  AttributeValue value(AttributeType type) {
    switch (type) {
      case AttributeType::Flag: {
        const Token token = lexer_.take();
        const bool is_true = token.text == "true";
        if (token.kind != Token::Kind::Word || (!is_true && token.text != "false")) {
          refuse(token, "true or false");
        }
        return is_true;
      }
      case AttributeType::Integer:
        return integer();
      case AttributeType::Number:
        return number_of(lexer_.take());
      case AttributeType::Text:
        return text("a value");
      case AttributeType::DTypeName:
        return dtype();
      case AttributeType::IntList: {
        Ints values;
        symbol("[");
        list("]", [&] { values.push_back(integer()); });
        return values;
      }
      case AttributeType::NumberList: {
        Floats values;
        symbol("[");
        list("]", [&] { values.push_back(number_of(lexer_.take())); });
        return values;
      }
    }
    throw InternalError("an attribute type that the parser does not know");
  }

  Lexer lexer_;
  const ParseOptions& options_;
  std::int64_t replicas_ = 1;
};

}  // namespace

std::unique_ptr<Ir> parse_ir(std::string_view text, const ParseOptions& options) {
  return build_ir(Parser(text, options).run());
}

}  // namespace pando
