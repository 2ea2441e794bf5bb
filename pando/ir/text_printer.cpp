#include "pando/ir/text_printer.hpp"

#include "pando/base/error.hpp"
#include "pando/ir/ir_data.hpp"
#include "pando/ir/text_reader.hpp"

namespace pando {
namespace {

std::string type_text(const TensorInfo& info) {
  std::string text = info_text(info);
  if (!info.meta_shape.empty()) text += " meta " + shape_text(info.meta_shape);
  return text;
}

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}

  std::string run(const IrData& ir) {
    text_ = str_cat("pando-ir 1\nreplicas ", ir.replication_factor, "\ntransfers ",
                    ir.num_host_transfers, "\ncounters ", ir.counters.op_id, " ",
                    ir.counters.tensor_suffix, " ", ir.counters.graph_suffix, "\n");
    for (const RemoteBuffer& buffer : ir.remote_buffers) {
      text_ += str_cat("remote_buffer ", buffer.id, " : ", type_text(buffer.info), " entries ",
                       buffer.entries, "\n");
    }
    for (const StreamData& stream : ir.streams) {
      const bool from_host = stream.direction == StreamDirection::HostToDevice;
      text_ += str_cat(from_host ? "from_host " : "to_host ", quoted(stream.handle), "\n");
    }
    for (const GraphData& graph : ir.graphs) print_graph(graph);
    return std::move(text_);
  }

 private:
  void print_graph(const GraphData& graph) {
    text_ += str_cat("\ngraph ", quoted(graph.id),
                     graph.differentiable ? " {\n" : " not_differentiable {\n");
    for (const SourceTensorData& source : graph.sources) print_source(source);
    for (const OpData& op : graph.ops) print_op(op);
    for (const std::string& output : graph.outputs)
      text_ += str_cat("  output ", quoted(output), "\n");
    text_ += "}\n";
  }

  void print_source(const SourceTensorData& source) {
    static constexpr const char* kWords[] = {"", "input", "variable", "constant", "stream"};
    text_ += str_cat("  ", kWords[static_cast<std::size_t>(source.kind)], " ", quoted(source.id),
                     " : ", type_text(source.info));
    if (source.by_ref) text_ += " by_ref";
    text_ += settings_text(source.settings);
    if (source.data != nullptr) print_data(*source.data);
    text_ += "\n";
  }

  void print_data(const HostArray& data) {
    if (data.bytes > options_.max_data_bytes) {
      text_ += " = elided";
      return;
    }
    static constexpr char kDigits[] = "0123456789abcdef";
    text_ += " = hex \"";
    for (std::size_t i = 0; i < data.bytes; ++i) {
      const auto byte = std::to_integer<unsigned>(data.data[i]);
      text_ += kDigits[byte >> 4];
      text_ += kDigits[byte & 15u];
    }
    text_ += '"';
  }

  void print_op(const OpData& op) {
    text_ +=
        str_cat("  ", op.kind, ".", op.id, "(",
                joined(op.inputs,
                       [](const auto& input) { return input ? quoted(*input) : std::string("-"); }),
                ")");
    if (!op.attributes.empty()) {
      text_ += str_cat(" {",
                       joined(op.attributes,
                              [](const auto& entry) {
                                return entry.first + " = " + attribute_text(entry.second);
                              }),
                       "}");
    }
    text_ += str_cat(" -> (",
                     joined(op.outputs,
                            [](const auto& output) {
                              return quoted(output.first) + " : " + type_text(output.second);
                            }),
                     ")");
    if (!op.called_graphs.empty()) {
      text_ += str_cat(" calls [", joined(op.called_graphs, quoted), "]");
    }
    if (!op.after.empty()) {
      text_ +=
          str_cat(" after [", joined(op.after, [](auto id) { return std::to_string(id); }), "]");
    }
    print_context(op.context);
    text_ += "\n";
  }

  void print_context(const OpContext& context) {
    if (!context.name.empty()) text_ += " name " + quoted(context.name);
    if (!context.device) {
      text_ += " device none";
    } else if (*context.device != 0) {
      text_ += str_cat(" device ", *context.device);
    }
    if (context.io_tiles) text_ += " io_tiles";
    if (context.execution == ExecutionContext::WeightsFromHost) text_ += " weights_from_host";
    if (context.execution == ExecutionContext::WeightsToHost) text_ += " weights_to_host";
    if (!context.phase.empty()) text_ += " phase " + quoted(context.phase);
    if (context.is_repeated) text_ += " repeated";
    const SourceLocation& location = context.location;
    if (!options_.source_locations) return;
    if (location.line == 0 && location.file.empty() && location.function.empty()) return;
    text_ += str_cat(" at ", quoted(location.file), ":", location.line);
    if (!location.function.empty()) text_ += " in " + quoted(location.function);
  }

  const PrintOptions& options_;
  std::string text_;
};

}  // namespace

std::string print_ir(const Ir& ir, const PrintOptions& options) {
  return Printer(options).run(ir_data(ir));
}

}  // namespace pando
