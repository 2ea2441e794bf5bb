#include "pando/ir/text_parser.hpp"

#include <charconv>
#include <cstring>

#include "pando/base/error.hpp"
#include "pando/ir/ir_data.hpp"
#include "pando/ir/text_reader.hpp"

namespace pando {
namespace {

class Parser : private TextReader {
 public:
  Parser(std::string_view text, const ParseOptions& options)
      : TextReader(text), options_(options) {}

  IrData run() {
    IrData ir;
    parse_header(ir);
    while (is_word("remote_buffer")) parse_buffer(ir);
    while (is_word("from_host") || is_word("to_host")) {
      const TextPosition position = peek().position;
      const bool from_host = take().text == "from_host";
      ir.streams.push_back(
          {text("the name of a stream"),
           from_host ? StreamDirection::HostToDevice : StreamDirection::DeviceToHost, position});
    }
    do {
      parse_graph(ir);
    } while (peek().kind != Token::Kind::End);
    return ir;
  }

 private:
  TensorInfo type() {
    const Token start = peek();
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
    const Token version = peek();
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
    graph.position = peek().position;
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
    source.position = peek().position;
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
    take();
    source.id = text("the name of a tensor");
    symbol(":");
    source.info = type();
    if (source.kind == TensorKind::GraphInput) source.by_ref = take_if_word("by_ref");
    if (source.kind == TensorKind::Variable) source.settings = settings();
    if (take_if_symbol("=")) source.data = host_data(source_bytes(source, replicas_));
    graph.sources.push_back(std::move(source));
    return true;
  }

  std::shared_ptr<HostArray> host_data(std::size_t bytes) {
    const Token form = take();
    if (form.kind == Token::Kind::Word && form.text == "elided") {
      if (!options_.zero_elided) {
        refuse(form, "the value in hex (or the parse option that makes elided values zero)");
      }
      auto data = HostArray::allocate(bytes);
      if (bytes > 0) std::memset(data->data, 0, bytes);
      return data;
    }
    if (form.kind != Token::Kind::Word || form.text != "hex") refuse(form, "'hex' or 'elided'");
    const Token digits = peek();
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
    const Token kind = take();
    if (kind.kind != Token::Kind::Word) refuse(kind, "an op, 'output' or '}'");
    const OpDef* def = Registry::instance().find(kind.text);
    if (def == nullptr) {
      refuse(kind,
             "an op kind, a tensor, 'output' or '}' (if it is an op of a library, load the library "
             "first)");
    }
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
    if (take_if_word("phase")) context.phase = text("the name of a phase");
    context.is_repeated = take_if_word("repeated");
    if (!take_if_word("at")) return;
    context.location.file = text("a file name");
    symbol(":");
    context.location.line = small_integer("a line number");
    if (take_if_word("in")) context.location.function = text("the name of a function");
  }

  void parse_attribute(const OpDef& def, Attributes& attributes) {
    const Token name = take();
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
        const Token token = take();
        const bool is_true = token.text == "true";
        if (token.kind != Token::Kind::Word || (!is_true && token.text != "false")) {
          refuse(token, "true or false");
        }
        return is_true;
      }
      case AttributeType::Integer:
        return integer();
      case AttributeType::Number:
        return number_of(take());
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
        list("]", [&] { values.push_back(number_of(take())); });
        return values;
      }
      case AttributeType::TextList: {
        Texts values;
        symbol("[");
        list("]", [&] { values.push_back(text("a value")); });
        return values;
      }
    }
    throw InternalError("an attribute type that the parser does not know");
  }

  const ParseOptions& options_;
  std::int64_t replicas_ = 1;
};

}  // namespace

std::unique_ptr<Ir> parse_ir(std::string_view text, const ParseOptions& options) {
  return build_ir(Parser(text, options).run());
}

}  // namespace pando
