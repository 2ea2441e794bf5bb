#include "pando/ir/serialise.hpp"

#include "pando/base/byte_stream.hpp"
#include "pando/base/error.hpp"
#include "pando/ir/ir_data.hpp"
#include "pando/ir/numbered_map.hpp"

namespace pando {
namespace {

constexpr std::string_view kMagic = "PANDO-IR";
constexpr std::uint32_t kVersion = 5;

enum Section : std::uint32_t { kHeader = 1, kResources, kGraph };

/// How a Writer writes an Ir whole.
class FileFields {
 public:
  static constexpr bool kHasVariableValues = true;

  explicit FileFields(ByteWriter& out) : out_(out) {}
  ByteWriter& out() { return out_; }
  void begin_graph() {}
  void define(const Tensor& tensor) { out_.text(tensor.id()); }
  void refer(const Tensor& tensor) { out_.text(tensor.id()); }
  void file(const std::string& name) { out_.text(name); }
  void function(const std::string& name) { out_.text(name); }
  void kind(const OpDef& def) { out_.text(def.name); }

 private:
  ByteWriter& out_;
};

/// How a Writer hashes an Ir: each tensor's id once, afterwards its number among those before it;
/// and names of files and functions where they change.
class HashFields {
 public:
  static constexpr bool kHasVariableValues = false;

  explicit HashFields(HashWriter& out) : out_(out) {}
  HashWriter& out() { return out_; }
  void begin_graph() {
    numbers_ = TensorMap<std::uint32_t>(0);
    last_number_ = 0;
  }
  void define(const Tensor& tensor) {
    out_.text(tensor.id());
    numbers_[&tensor] = ++last_number_;
  }
  void refer(const Tensor& tensor) {
    const std::uint32_t number = numbers_.at(&tensor);
    out_.value(number);
    if (number == 0) out_.text(tensor.id());  // made by a later op
  }
  void file(const std::string& name) { if_changed(name, file_); }
  void function(const std::string& name) { if_changed(name, function_); }
  void kind(const OpDef& def) {
    out_.text(def.name);
    if (!def.library_hash.empty()) out_.text(def.library_hash);
  }

 private:
  void if_changed(const std::string& text, const std::string*& last) {
    const bool changed = last == nullptr || *last != text;
    out_.value(changed);
    if (!changed) return;
    out_.text(text);
    last = &text;
  }

  HashWriter& out_;
  TensorMap<std::uint32_t> numbers_{0};
  std::uint32_t last_number_ = 0;
  const std::string* file_ = nullptr;
  const std::string* function_ = nullptr;
};

template <class Fields>
class Writer {
 public:
  template <class Out>
  explicit Writer(Out& out) : fields_(out), out_(out) {}

  void run(const Ir& ir) {
    const std::vector<Graph*> graphs = ir.graphs();
    out_.section(kHeader, [&] {
      out_.value(ir.num_host_transfers);
      out_.value(ir.replication_factor);
      out_.value(ir.counters().graph_suffix);
      out_.value(ir.counters().tensor_suffix);
      out_.value(ir.counters().op_id);
      out_.value(static_cast<std::uint64_t>(graphs.size()));
    });
    out_.section(kResources, [&] {
      out_.list(ir.remote_buffers(), [&](const auto& buffer) {
        out_.value(buffer->id);
        write(buffer->info);
        out_.value(buffer->entries);
      });
      out_.list(ir.streams(), [&](const auto& stream) {
        out_.text(stream->handle->id());
        out_.value(stream->direction);
      });
    });
    for (const Graph* graph : graphs) {
      out_.section(kGraph, [&] { write(*graph); });
    }
  }

 private:
  void write(const TensorInfo& info) {
    out_.value(info.dtype);
    out_.ints(info.shape);
    out_.ints(info.meta_shape);
  }

  void write_source(const Tensor& source) {
    fields_.define(source);
    write(source.info);
    out_.value(source.kind());
    out_.value(source.is_by_ref());
    out_.ints(source.settings().groups);
    out_.value(source.settings().entry_per_replica);
    out_.value(source.settings().remote_buffer);
    out_.value(source.settings().slot);
    out_.value(source.settings().shard_over);
    out_.value(source.data != nullptr);
    if (source.data == nullptr) return;
    out_.value(static_cast<std::uint64_t>(source.data->bytes));
    if (Fields::kHasVariableValues || source.kind() == TensorKind::Constant) {
      out_.raw(source.data->data, source.data->bytes);
    }
  }

  void write(const OpContext& context) {
    out_.text(context.name);
    fields_.file(context.location.file);
    out_.value(static_cast<std::int32_t>(context.location.line));
    fields_.function(context.location.function);
    out_.value(context.device.has_value());
    out_.value(context.device.value_or(0));
    out_.value(context.io_tiles);
    out_.value(context.execution);
    out_.text(context.phase);
    out_.value(context.is_repeated);
  }

  void write(const Op& op) {
    out_.value(op.id());
    fields_.kind(op.def());
    out_.list(op.inputs(), [&](const Tensor* input) {
      out_.value(input != nullptr);
      if (input != nullptr) fields_.refer(*input);
    });
    out_.attributes(op.attributes);
    out_.list(op.outputs(), [&](const Tensor* output) {
      fields_.define(*output);
      write(output->info);
    });
    out_.list(op.called_graphs, [&](const Graph* graph) { out_.text(graph->id()); });
    out_.list(op.after(), [&](const Op* earlier) { out_.value(earlier->id()); });
    write(op.context);
  }

  /// Inputs in order, then variables, constants and streams sorted by id.
  void write(const Graph& graph) {
    fields_.begin_graph();
    out_.text(graph.id());
    out_.value(graph.differentiable);
    std::vector<Tensor*> sources = graph.inputs();
    for (Tensor* source : graph.tensors().sources()) sources.push_back(source);
    out_.list(sources, [&](const Tensor* source) { write_source(*source); });
    out_.list(graph.ops(), [&](const Op* op) { write(*op); });
    out_.list(graph.outputs(), [&](const Tensor* output) { fields_.refer(*output); });
  }

  Fields fields_;
  std::remove_reference_t<decltype(fields_.out())>& out_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : in_(bytes, kMagic, kVersion, "a stored Ir") {}

  IrData run() {
    IrData ir;
    std::uint64_t num_graphs = 0;
    in_.section(kHeader, [&] {
      ir.num_host_transfers = in_.value<std::int64_t>();
      ir.replication_factor = in_.value<std::int64_t>();
      ir.counters.graph_suffix = in_.value<std::int64_t>();
      ir.counters.tensor_suffix = in_.value<std::int64_t>();
      ir.counters.op_id = in_.value<std::int64_t>();
      num_graphs = in_.value<std::uint64_t>();
    });
    in_.section(kResources, [&] {
      ir.remote_buffers = in_.list([&] {
        RemoteBuffer buffer{};
        buffer.id = in_.value<std::int64_t>();
        buffer.info = info();
        buffer.entries = in_.value<std::int64_t>();
        return buffer;
      });
      ir.streams = in_.list([&] {
        StreamData stream;
        stream.handle = in_.text();
        stream.direction = in_.enumerator(StreamDirection::DeviceToHost);
        return stream;
      });
    });
    for (std::uint64_t i = 0; i < num_graphs; ++i) {
      in_.section(kGraph, [&] { ir.graphs.push_back(graph()); });
    }
    in_.finish();
    return ir;
  }

 private:
  TensorInfo info() {
    TensorInfo result;
    result.dtype = in_.dtype();
    result.shape = in_.ints();
    result.meta_shape = in_.ints();
    return result;
  }

  SourceTensorData source() {
    SourceTensorData result;
    result.id = in_.text();
    result.info = info();
    result.kind = in_.enumerator(TensorKind::Stream);
    result.by_ref = in_.value<bool>();
    result.settings.groups = in_.ints();
    result.settings.entry_per_replica = in_.value<bool>();
    result.settings.remote_buffer = in_.value<std::int64_t>();
    result.settings.slot = in_.value<std::int64_t>();
    result.settings.shard_over = in_.value<std::int64_t>();
    if (!in_.value<bool>()) return result;
    const std::string_view bytes = in_.raw(in_.value<std::uint64_t>());
    result.data = HostArray::copy_of(bytes.data(), bytes.size());
    return result;
  }

  OpContext context() {
    OpContext result;
    result.name = in_.text();
    result.location.file = texts_.of(in_.text());
    result.location.line = in_.value<std::int32_t>();
    result.location.function = texts_.of(in_.text());
    const bool has_device = in_.value<bool>();
    const auto device = in_.value<std::int64_t>();
    result.device = has_device ? std::optional(device) : std::nullopt;
    result.io_tiles = in_.value<bool>();
    result.execution = in_.enumerator(ExecutionContext::WeightsToHost);
    result.phase = in_.text();
    result.is_repeated = in_.value<bool>();
    return result;
  }

  OpData op() {
    OpData result;
    result.id = in_.value<std::int64_t>();
    result.kind = in_.text();
    result.inputs = in_.list([&]() -> std::optional<std::string> {
      if (!in_.value<bool>()) return std::nullopt;
      return in_.text();
    });
    result.attributes = in_.attributes();
    result.outputs = in_.list([&] {
      std::string id = in_.text();
      return std::pair(std::move(id), info());
    });
    result.called_graphs = in_.list([&] { return in_.text(); });
    result.after = in_.ints();
    result.context = context();
    return result;
  }

  GraphData graph() {
    GraphData result;
    result.id = in_.text();
    result.differentiable = in_.value<bool>();
    result.sources = in_.list([&] { return source(); });
    result.ops = in_.list([&] { return op(); });
    result.outputs = in_.list([&] { return in_.text(); });
    return result;
  }

  ByteReader in_;
  SharedTexts texts_;  // of files and functions
};

}  // namespace

std::string serialise_ir(const Ir& ir) {
  ByteWriter out(kMagic, kVersion);
  Writer<FileFields>(out).run(ir);
  return std::move(out).finish();
}

void hash_ir(HashWriter& out, const Ir& ir) { Writer<HashFields>(out).run(ir); }

std::unique_ptr<Ir> deserialise_ir(std::string_view bytes) { return build_ir(Reader(bytes).run()); }

}  // namespace pando
