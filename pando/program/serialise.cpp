#include "pando/program/serialise.hpp"

#include <limits>
#include <type_traits>

#include "pando/base/byte_stream.hpp"

namespace pando {
namespace {

constexpr std::string_view kMagic = "PANDOPRG";
constexpr std::uint32_t kVersion = 19;

enum Section : std::uint32_t { kKernels = 1, kFunctions, kMemory, kHost, kReplication, kReport };

/// An instruction but for its operands, as it is stored: an array of these is read in one go. All
/// bytes are fields.
struct InstructionRecord {
  std::int64_t count;
  std::int64_t num_carried;
  std::int32_t target;
  std::int32_t other_target;
  std::int32_t source;
  std::int32_t device;
  std::uint32_t num_operands;
  std::uint32_t num_frames;
  std::uint32_t kind;
  std::int32_t row;
  std::uint32_t writes_row;
  std::uint32_t ends_early;
};
static_assert(sizeof(InstructionRecord) == 56);

struct OperandRecord {
  std::int64_t offset;
  std::int32_t slot;
  std::uint16_t device;
  std::uint16_t space;
};
static_assert(sizeof(OperandRecord) == 16);

// The format is described once, over an `Archive` that writes (Saver) or reads (Loader) each field.
class Saver {
 public:
  explicit Saver(ByteWriter& out) : out_(out) {}
  template <class T>
  void value(const T& v) {
    out_.value(v);
  }
  template <class E>
  void enumerator(const E& v, E) {
    out_.value(v);
  }
  void text(const std::string& v) { out_.text(v); }
  void ints(const Ints& v) { out_.ints(v); }
  void attributes(const Attributes& v) { out_.attributes(v); }
  template <class T, class Each>
  void list(std::vector<T>& items, Each each) {
    out_.value(static_cast<std::uint64_t>(items.size()));
    for (T& item : items) each(item);
  }
  template <class Record>
  void records(const std::vector<Record>& records) {
    static_assert(std::has_unique_object_representations_v<Record>);
    out_.value(static_cast<std::uint64_t>(records.size()));
    out_.raw(records.data(), records.size() * sizeof(Record));
  }
  void texts(const TextTable& table) {
    text(table.bytes());
    records(table.ends());
  }
  template <class Table>
  void table(const Table& v) {
    texts(v.texts());
    records(v.entries());
  }
  void instructions(const std::vector<Instruction>& instructions);
  template <class Work>
  void section(std::uint32_t tag, Work work) {
    out_.section(tag, work);
  }

 private:
  ByteWriter& out_;
};

class Loader {
 public:
  explicit Loader(ByteReader& in) : in_(in) {}
  template <class T>
  void value(T& v) {
    v = in_.value<T>();
  }
  template <class E>
  void enumerator(E& v, E last) {
    v = in_.enumerator(last);
  }
  void text(std::string& v) { v = in_.text(); }
  void ints(Ints& v) { v = in_.ints(); }
  void attributes(Attributes& v) { v = in_.attributes(); }
  template <class T, class Each>
  void list(std::vector<T>& items, Each each) {
    items = in_.list([&] {
      T item{};
      each(item);
      return item;
    });
  }
  template <class Record>
  void records(std::vector<Record>& records) {
    static_assert(std::has_unique_object_representations_v<Record>);
    const auto count = in_.value<std::uint64_t>();
    if (count > std::numeric_limits<std::uint64_t>::max() / sizeof(Record)) {
      in_.corrupt("a list longer than the file");
    }
    const std::string_view bytes = in_.raw(count * sizeof(Record));
    records.resize(count);
    bytes.copy(reinterpret_cast<char*>(records.data()), bytes.size());
  }
  template <class Table>
  void table(Table& v) {
    std::string bytes = in_.text();
    std::vector<std::uint32_t> ends;
    records(ends);
    std::vector<typename Table::Entry> entries;
    records(entries);
    v = Table::of(TextTable(std::move(bytes), std::move(ends)), std::move(entries));
  }
  void instructions(std::vector<Instruction>& instructions);
  template <class Work>
  void section(std::uint32_t tag, Work work) {
    in_.section(tag, work);
  }

 private:
  ByteReader& in_;
};

void Saver::instructions(const std::vector<Instruction>& instructions) {
  std::vector<InstructionRecord> heads;
  std::vector<OperandRecord> operands;
  std::vector<std::int64_t> frames, carried;
  for (const Instruction& in : instructions) {
    heads.push_back({in.count, in.num_carried, in.target, in.other_target, in.source, in.device,
                     static_cast<std::uint32_t>(in.operands.size()),
                     static_cast<std::uint32_t>(in.callee_frames.size()),
                     static_cast<std::uint32_t>(in.kind), in.row, std::uint32_t{in.writes_row},
                     std::uint32_t{in.ends_early}});
    for (const OperandRef& ref : in.operands) {
      operands.push_back({ref.offset, ref.slot, ref.device, static_cast<std::uint16_t>(ref.space)});
    }
    frames.insert(frames.end(), in.callee_frames.begin(), in.callee_frames.end());
    carried.insert(carried.end(), in.carried_bytes.begin(), in.carried_bytes.end());
  }
  records(heads);
  records(operands);
  records(frames);
  records(carried);
}

void Loader::instructions(std::vector<Instruction>& instructions) {
  std::vector<InstructionRecord> heads;
  std::vector<OperandRecord> operands;
  std::vector<std::int64_t> frames, carried;
  records(heads);
  records(operands);
  records(frames);
  records(carried);
  std::size_t next = 0, next_frame = 0, next_carried = 0;
  instructions.reserve(heads.size());
  for (const InstructionRecord& head : heads) {
    if (head.kind > static_cast<std::uint32_t>(kLastInstructionKind) ||
        head.num_operands > operands.size() - next ||
        head.num_frames > frames.size() - next_frame) {
      in_.corrupt("an unknown instruction or one without its operands");
    }
    Instruction& in = instructions.emplace_back();
    in.kind = static_cast<Instruction::Kind>(head.kind);
    in.target = head.target;
    in.other_target = head.other_target;
    in.count = head.count;
    in.num_carried = head.num_carried;
    in.source = head.source;
    in.device = head.device;
    in.row = head.row;
    in.writes_row = head.writes_row != 0;
    in.ends_early = head.ends_early != 0;
    if (in.ends_early) {
      const auto count = static_cast<std::uint64_t>(in.num_carried);
      if (count > carried.size() - next_carried) in_.corrupt("a loop without its carried values");
      const auto first = carried.begin() + static_cast<std::ptrdiff_t>(next_carried);
      in.carried_bytes.assign(first, first + in.num_carried);
      next_carried += count;
    }
    const auto frame = frames.begin() + static_cast<std::ptrdiff_t>(next_frame);
    in.callee_frames.assign(frame, frame + static_cast<std::ptrdiff_t>(head.num_frames));
    next_frame += head.num_frames;
    in.operands.resize(head.num_operands);
    for (OperandRef& ref : in.operands) {
      const OperandRecord& record = operands[next++];
      if (record.space > static_cast<std::uint16_t>(OperandRef::Space::None)) {
        in_.corrupt("an operand in an unknown place");
      }
      ref = {static_cast<OperandRef::Space>(record.space), record.device, record.slot,
             record.offset};
    }
  }
  if (next != operands.size() || next_frame != frames.size() || next_carried != carried.size())
    in_.corrupt("operands of no instruction");
}

template <class Archive>
void tensor_type(Archive& archive, DType& dtype, Shape& shape) {
  archive.enumerator(dtype, DType::Complex128);
  archive.ints(shape);
}

template <class Archive>
void tensor_type(Archive& archive, DType& dtype, SharedShape& shared) {
  Shape shape = shared;
  tensor_type(archive, dtype, shape);
  if (shape != shared) shared = std::move(shape);
}

template <class Archive>
void operand(Archive& archive, OperandDesc& desc) {
  tensor_type(archive, desc.dtype, desc.shape);
  archive.ints(desc.strides);
}

template <class Archive>
void scalar_instruction(Archive& archive, ScalarInstruction& in) {
  archive.enumerator(in.op, ScalarOp::Store);
  archive.enumerator(in.lane, LaneType::U64);
  archive.enumerator(in.dtype, DType::Complex128);
  archive.value(in.index);
  archive.value(in.a);
  archive.value(in.b);
  archive.value(in.c);
  archive.value(in.immediate);
  archive.value(in.integer_immediate);
}

template <class Archive>
void kernel(Archive& archive, KernelSpec& spec) {
  archive.text(spec.kind);
  archive.attributes(spec.attributes);
  archive.list(spec.inputs, [&](OperandDesc& desc) { operand(archive, desc); });
  archive.list(spec.outputs, [&](OperandDesc& desc) { operand(archive, desc); });
  archive.list(spec.scalar.instructions,
               [&](ScalarInstruction& in) { scalar_instruction(archive, in); });
  archive.list(spec.products, [&](ProductInput& product) {
    archive.value(product.value);
    archive.value(product.left);
    archive.value(product.right);
    archive.value(product.place);
  });
}

template <class Archive>
void function(Archive& archive, Function& f) {
  archive.text(f.name);
  archive.instructions(f.instructions);
  archive.list(f.devices, [&](std::int32_t& device) { archive.value(device); });
  archive.list(f.streams, [&](std::vector<StreamStep>& stream) {
    archive.list(stream, [&](StreamStep& step) {
      archive.enumerator(step.kind, StreamStep::Kind::Wait);
      archive.value(step.index);
    });
  });
  archive.list(f.carried_signals, [&](CarriedSignals& signals) {
    archive.value(signals.from);
    archive.value(signals.to);
    archive.value(signals.count);
  });
  archive.ints(f.frame_bytes);
  archive.value(f.num_arguments);
}

template <class Archive>
void variable_settings(Archive& archive, VariableSettings& settings) {
  archive.ints(settings.groups);
  archive.value(settings.entry_per_replica);
  archive.value(settings.remote_buffer);
  archive.value(settings.slot);
  archive.value(settings.shard_over);
}

template <class Archive>
void replication(Archive& archive, Program& program) {
  archive.value(program.replicas);
  archive.value(program.devices);
  archive.list(program.remote_variables, [&](RemoteVariable& variable) {
    archive.text(variable.id);
    tensor_type(archive, variable.dtype, variable.shape);
    archive.value(variable.buffer);
    variable_settings(archive, variable.settings);
  });
  archive.list(program.collectives, [&](CollectiveDesc& collective) {
    archive.enumerator(collective.kind, CollectiveDesc::Kind::AllGather);
    archive.enumerator(collective.reduction, Reduction::Local);
    archive.enumerator(collective.dtype, DType::Complex128);
    archive.value(collective.input_elements);
    archive.value(collective.output_elements);
    archive.value(collective.groups.stride);
    archive.value(collective.groups.size);
    archive.text(collective.name);
  });
}

template <class Archive>
void host_side(Archive& archive, Program& program) {
  archive.list(program.streams, [&](StreamDesc& stream) {
    archive.text(stream.id);
    tensor_type(archive, stream.dtype, stream.shape);
    archive.value(stream.host_to_device);
  });
  archive.list(program.remote_buffers, [&](RemoteBufferDesc& buffer) {
    archive.value(buffer.id);
    tensor_type(archive, buffer.dtype, buffer.shape);
    archive.value(buffer.entries);
  });
  archive.list(program.prints, [&](PrintDesc& print) {
    archive.text(print.title);
    tensor_type(archive, print.dtype, print.shape);
    archive.attributes(print.format);
  });
  archive.list(program.host_calls, [&](HostCallDesc& call) {
    archive.text(call.function);
    archive.list(call.inputs, [&](OperandDesc& desc) { operand(archive, desc); });
    archive.list(call.outputs, [&](OperandDesc& desc) { operand(archive, desc); });
  });
  archive.table(program.sources);
}

template <class Archive>
void report(Archive& archive, MemoryReport& memory) {
  archive.value(memory.persistent_bytes);
  archive.value(memory.peak_frame_bytes);
  archive.value(memory.frame_lower_bound_bytes);
  archive.table(memory.alive_at_peak);
  archive.value(memory.source_at_peak);
  archive.ints(memory.timeline);
  archive.list(memory.devices, [&](DeviceMemoryUse& device) {
    archive.value(device.device);
    archive.value(device.persistent_bytes);
    archive.value(device.peak_frame_bytes);
    archive.table(device.alive_at_peak);
    archive.value(device.source_at_peak);
  });
}

template <class Archive>
void whole_program(Archive& archive, Program& program) {
  archive.section(kKernels, [&] {
    archive.list(program.kernels, [&](KernelSpec& spec) { kernel(archive, spec); });
  });
  archive.section(kFunctions, [&] {
    archive.list(program.functions, [&](Function& f) { function(archive, f); });
    archive.value(program.main_function);
    archive.value(program.weights_from_host_function);
    archive.value(program.weights_to_host_function);
  });
  archive.section(kMemory, [&] {
    archive.list(program.persistent, [&](PersistentTensor& tensor) {
      archive.text(tensor.id);
      tensor_type(archive, tensor.dtype, tensor.shape);
      archive.value(tensor.offset);
      archive.value(tensor.device);
      archive.value(tensor.is_variable);
      archive.value(tensor.is_prepared);
      archive.value(tensor.make_function);
      archive.value(tensor.restore_function);
      variable_settings(archive, tensor.settings);
    });
    archive.ints(program.persistent_bytes);
  });
  archive.section(kHost, [&] { host_side(archive, program); });
  archive.section(kReplication, [&] { replication(archive, program); });
  archive.section(kReport, [&] { report(archive, program.memory); });
}

}  // namespace

void write_program(ByteWriter& out, const Program& program) {
  Saver saver(out);
  // The common description takes fields by reference; a Saver only reads them.
  whole_program(saver, const_cast<Program&>(program));
}

Program read_program(ByteReader& in) {
  Loader loader(in);
  Program program;
  whole_program(loader, program);
  return program;
}

std::string serialise_program(const Program& program) {
  ByteWriter out(kMagic, kVersion);
  write_program(out, program);
  return std::move(out).finish();
}

Program deserialise_program(std::string_view bytes) {
  ByteReader in(bytes, kMagic, kVersion, "a stored program");
  Program program = read_program(in);
  in.finish();
  return program;
}

}  // namespace pando
