// The compiled program: what the compiler writes and the runtime reads. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "pando/base/attributes.hpp"
#include "pando/base/reduction.hpp"
#include "pando/base/replica_group.hpp"
#include "pando/base/scalar_program.hpp"
#include "pando/base/shape.hpp"
#include "pando/base/text_table.hpp"
#include "pando/base/variable_settings.hpp"

namespace pando {

/// Layout of one kernel operand. Strides in elements; stride 0 repeats.
struct OperandDesc {
  DType dtype = DType::Float32;
  Shape shape;
  Strides strides;

  static OperandDesc contiguous(DType dtype, const Shape& shape) {
    return {dtype, shape, contiguous_strides(shape)};
  }
  bool is_contiguous() const { return pando::is_contiguous(shape, strides); }
  /// No batch dimension backwards, and one of the last two dense in the other.
  bool is_matrix() const;
  bool operator==(const OperandDesc&) const = default;
};

/// An input of a `Fused` kernel that is not read from memory but computed by it: the product of
/// float32 matrices. Indices into KernelSpec::inputs.
struct ProductInput {
  std::int32_t value = 0;  // float32, contiguous; its operand is None
  std::int32_t left = 0;   // (rows, depth), any strides
  std::int32_t right = 0;  // (depth, columns), rows of contiguous elements
  /// -1: computed piece by piece where it is read. Else an output, float32, contiguous and the
  /// memory of no input, in which the whole product is made: the program is its epilogue. Then it
  /// is the kernel's only product, the matrices may have batch dimensions and any layout that
  /// OperandDesc::is_matrix allows, and the rows of the result may be numbered by several
  /// dimensions.
  std::int32_t place = -1;
  bool operator==(const ProductInput&) const = default;
};

/// A kernel by name with everything known at compile time. Operands at run time: inputs, then
/// outputs. An input and an output may be the same memory only if the kernel says so.
///
/// `Fused`: `scalar` runs over the common shape of the outputs (inputs carry stride 0 where they
/// broadcast); outputs may be the same memory as inputs of identical layout. Matrices of `products`
/// are its last inputs and not loaded by `scalar`. Other kinds are named after their op and take
/// its attributes.
struct KernelSpec {
  /// Attribute of kernels with a matrix product whose right matrix is what another kernel made of
  /// it (Target::prepared_input), a row of numbers: its shape.
  static constexpr const char* kPackedRight = "packed_right";

  std::string kind;
  Attributes attributes;
  std::vector<OperandDesc> inputs;
  std::vector<OperandDesc> outputs;
  ScalarProgram scalar;
  std::vector<ProductInput> products;

  /// Inputs that `scalar` may load.
  std::size_t num_loaded_inputs() const { return inputs.size() - 2 * products.size(); }
  /// Whether a product is made in that output.
  bool makes_product_in(std::size_t output) const;
  bool operator==(const KernelSpec&) const = default;
};

/// Where an operand lives at run time. Offsets in bytes.
struct OperandRef {
  enum class Space : std::uint8_t {
    Frame,     // the running function's frame on the device + offset
    Argument,  // argument `slot` of the running function + offset
    Global,    // the device's persistent memory + offset (variables, constants)
    Row,       // what the load whose `row` is `slot` loaded last + offset
    None,      // not connected
  };
  Space space = Space::None;
  /// The virtual device in whose memory it is.
  std::uint16_t device = 0;
  std::int32_t slot = 0;
  std::int64_t offset = 0;
  bool operator==(const OperandRef&) const = default;
};

struct Instruction {
  enum class Kind : std::uint8_t {
    Kernel,       // target: kernel; operands: inputs, outputs
    Call,         // target: function; operands: its arguments
    Loop,         // target: function; operands: iteration, condition, the condition that an
                  // iteration gives, A..., B..., other arguments...; count: most iterations
    If,           // target: then-function; other_target: else-function; operands: the condition,
                  // or one for each device that runs it, then num_then_operands arguments of the
                  // one function, then those of the other
    HostLoad,     // target: stream; operands[0]: destination
    HostStore,    // target: stream; operands[0]: source
    RemoteLoad,   // target: remote buffer; operands: offset (int32 or uint32 scalar), destination
    RemoteStore,  // target: remote buffer; operands: offset, source
    Copy,         // operands: source, destination; count bytes, both contiguous
    Print,        // target: print spec; operands[0]: value
    Collective,   // target: collective; operands: input, output, both contiguous (the same memory
                  // for an all-reduce in place)
    RemoteLoadStart,  // as RemoteLoad, but the program may go on meanwhile; other_target: transfer
    RemoteLoadWait,   // operands[0]: destination; other_target: the transfer, complete afterwards
    Send,             // target: the device that receives; other_target: its number in the program;
           // operands[0]: what is sent, count bytes, unchanged until it has been received
    Receive,   // target: the device that sends; other_target: the Send, of the same function;
               // operands: what it sends, destination
    HostCall,  // target: host call; operands: its inputs, then its outputs, all contiguous
  };
  Kind kind = Kind::Kernel;
  std::int32_t target = 0;
  std::int32_t other_target = 0;
  std::vector<OperandRef> operands;
  /// Call, Loop, If: by device of the program, where the callee's frame lies in the running one.
  std::vector<std::int64_t> callee_frames;
  /// Loop: trip count, of one that ends early the most. Copy, Send, Receive: bytes. If: number of
  /// then-arguments. RemoteLoad, RemoteLoadStart, RemoteStore: 1 if the offset is unsigned.
  std::int64_t count = 0;
  /// Loop: how many values are carried. Each has two places, A and B, that iterations read and
  /// write by turns. The last one writes A, the first one reads what is there for that; of a loop
  /// that ends early the first one reads A, and the result is copied to A if it lies in B.
  std::int64_t num_carried = 0;
  /// Loop: it ends before an iteration whose condition (operand 2, which has a value before the
  /// first one) is false. Device `other_target` of those of the body reads it for all.
  bool ends_early = false;
  /// Of a loop that ends early: what each carried value takes.
  std::vector<std::int64_t> carried_bytes;
  /// HostLoad, RemoteLoad: the slot by which operands of Space::Row name what it loads: the row
  /// itself, of the host's array or where the remote buffer lies in memory, without a copy; else
  /// its destination. -1: none do.
  std::int32_t row = -1;
  /// RemoteLoad: those operands are written, and stored to the same row by a RemoteStore of this
  /// function.
  bool writes_row = false;
  /// Index into Program::sources (errors, traces).
  std::int32_t source = -1;
  /// HostLoad and RemoteLoad fill this operand.
  std::size_t destination() const { return kind == Kind::HostLoad ? 0 : 1; }
  /// The virtual device that runs it; of a call, loop or branch on several devices the first.
  std::int32_t device = 0;
  bool operator==(const Instruction&) const = default;
};

/// The last instruction kind: readers of stored programs check against it.
inline constexpr Instruction::Kind kLastInstructionKind = Instruction::Kind::HostCall;

/// One step of a device in a function that runs on several.
struct StreamStep {
  enum class Kind : std::uint8_t {
    Run,     // index: instruction
    Signal,  // index: device that is told that this one has come so far
    Wait,    // index: device whose oldest signal to this one, not yet waited for, must have come
  };
  Kind kind = Kind::Run;
  std::int32_t index = 0;
  bool operator==(const StreamStep&) const = default;
};

/// What the body of a loop signals for the next iteration. The loop has device `from` signal as
/// often before the first iteration, and device `to` take as many after the last one.
struct CarriedSignals {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int32_t count = 0;
  bool operator==(const CarriedSignals&) const = default;
};

struct Function {
  std::string name;
  /// In an order that one device alone could run them in.
  std::vector<Instruction> instructions;
  /// The virtual devices that run instructions, ascending; never empty.
  std::vector<std::int32_t> devices = {0};
  /// One per device of `devices`, if those are several. Signals and waits of two devices are equal
  /// in number (for a loop's body, over all iterations and `carried_signals`) and come in the same
  /// order. A call, loop or branch of several devices stands in the stream of each, which then runs
  /// its own part of the callee.
  std::vector<std::vector<StreamStep>> streams;
  /// What iterations of a loop's body on several devices signal to the next ones.
  std::vector<CarriedSignals> carried_signals;
  /// By device of the program: own temporaries and those of everything called.
  std::vector<std::int64_t> frame_bytes = {0};
  std::int32_t num_arguments = 0;
  bool operator==(const Function&) const = default;
};

/// A variable or constant in persistent device memory, or what is made of some. Where all that
/// reads one wants it in other layouts, which its value can be restored from, it is staged: it has
/// no room of its own.
struct PersistentTensor {
  std::string id;
  DType dtype = DType::Float32;
  SharedShape shape;
  std::int64_t offset = 0;
  std::int32_t device = 0;  // the virtual device in whose memory it is
  bool is_variable = false;
  bool is_prepared = false;  // made of another one by its make_function
  /// Function that makes prepared tensors of it; runs after it was written. -1: there are none.
  std::int32_t make_function = -1;
  /// Of a staged tensor: function that makes its value of them; runs before it is read. In both it
  /// lies at the start of the frame, alone.
  std::int32_t restore_function = -1;
  VariableSettings settings;  // variables

  bool is_staged() const { return restore_function >= 0; }
  bool operator==(const PersistentTensor&) const = default;
};

/// A variable whose value every replica keeps in a slot of a remote buffer.
struct RemoteVariable {
  std::string id;
  DType dtype = DType::Float32;
  Shape shape;              // of the whole value
  std::int32_t buffer = 0;  // index into Program::remote_buffers
  VariableSettings settings;
  bool operator==(const RemoteVariable&) const = default;
};

struct StreamDesc {
  std::string id;
  DType dtype = DType::Float32;
  Shape shape;
  bool host_to_device = true;

  /// What one transfer moves.
  std::int64_t bytes() const {
    return num_elements(shape) * static_cast<std::int64_t>(dtype_bytes(dtype));
  }
  bool operator==(const StreamDesc&) const = default;
};

struct RemoteBufferDesc {
  std::int64_t id = 0;
  DType dtype = DType::Float32;
  Shape shape;
  std::int64_t entries = 1;

  /// What one entry takes.
  std::int64_t slot_bytes() const {
    return num_elements(shape) * static_cast<std::int64_t>(dtype_bytes(dtype));
  }
  bool operator==(const RemoteBufferDesc&) const = default;
};

/// An exchange between the replicas of a group, whose members are ordered by replica.
struct CollectiveDesc {
  enum class Kind : std::uint8_t {
    AllReduce,      // output: the reduction of all inputs, on every member
    ReduceScatter,  // output: the member's part of the reduction, padded with zeros
    AllGather,      // output: the inputs of all members in order, the last ones cut
  };
  Kind kind = Kind::AllReduce;
  Reduction reduction = Reduction::Add;  // of AllGather: Local
  DType dtype = DType::Float32;          // if it reduces: half precision, float32, int32 or uint32
  std::int64_t input_elements = 0;
  std::int64_t output_elements = 0;
  ReplicaGroups groups;
  /// For errors: the op and the user's line.
  std::string name;
  bool operator==(const CollectiveDesc&) const = default;
};

/// Which op of the user's program an instruction comes from. Texts of the table that it is in.
struct SourceInfo {
  std::string_view op;        // `MatMul 'fc1/matmul'`
  std::string_view location;  // `file.py:12`, empty when unknown
  /// What the main program does then: the outermost name scope of the op, or else the graph that
  /// it calls, or else the branch that it is in. See phases.hpp.
  std::string_view phase;
};

/// A SourceInfo per op that instructions come from. Seldom read, so it is stored to be made and
/// loaded at once.
class SourceTable {
 public:
  /// Texts by index: one text may serve many sources.
  struct Entry {
    TextTable::Index op = 0;
    TextTable::Index location = 0;
    TextTable::Index phase = 0;
    bool operator==(const Entry&) const = default;
  };

  TextTable::Index add_text(std::string_view text) { return texts_.add(text); }
  template <class... Parts>
  TextTable::Index add_joined(const Parts&... parts) {
    return texts_.add_joined(parts...);
  }
  void add(const Entry& entry) { entries_.push_back(entry); }
  std::size_t size() const { return entries_.size(); }
  SourceInfo operator[](std::size_t index) const {
    const Entry& entry = entries_[index];
    return {texts_[entry.op], texts_[entry.location], texts_[entry.phase]};
  }
  bool operator==(const SourceTable&) const = default;

  const TextTable& texts() const { return texts_; }
  const std::vector<Entry>& entries() const { return entries_; }
  /// Throws Error if an entry has a text that is not there.
  static SourceTable of(TextTable texts, std::vector<Entry> entries);

 private:
  TextTable texts_;
  std::vector<Entry> entries_;
};

/// How a print instruction writes its value: `format` has the other attributes of PrintTensor.
struct PrintDesc {
  std::string title;
  DType dtype = DType::Float32;
  Shape shape;
  Attributes format;
  bool operator==(const PrintDesc&) const = default;
};

/// A call of a function of the host, which is found by its name when the program runs.
struct HostCallDesc {
  std::string function;
  std::vector<OperandDesc> inputs;  // contiguous, as the outputs
  std::vector<OperandDesc> outputs;
  bool operator==(const HostCallDesc&) const = default;
};

/// One row of the memory report: a tensor alive at the peak.
struct LiveTensor {
  std::string name;
  std::int64_t bytes = 0;
  std::string location;
  std::int32_t depth = 0;  // of a callee's frame that it lies in, which is listed before it
};

/// A list of them, stored as SourceTable is.
class LiveTensorTable {
 public:
  struct Entry {
    std::int64_t bytes = 0;
    TextTable::Index name = 0;
    TextTable::Index location = 0;
    std::int32_t depth = 0;
    std::int32_t unused = 0;  // stored with the rest: no bytes of it are undefined
    bool operator==(const Entry&) const = default;
  };

  TextTable::Index add_text(std::string_view text) { return texts_.add(text); }
  void add(const Entry& entry) { entries_.push_back(entry); }
  void add(const LiveTensor& tensor) {
    const TextTable::Index name = texts_.add(tensor.name);
    entries_.push_back({tensor.bytes, name, texts_.add(tensor.location), tensor.depth});
  }
  std::size_t size() const { return entries_.size(); }
  LiveTensor operator[](std::size_t index) const {
    const Entry& entry = entries_[index];
    return {std::string(texts_[entry.name]), entry.bytes, std::string(texts_[entry.location]),
            entry.depth};
  }
  std::vector<LiveTensor> all() const;
  bool operator==(const LiveTensorTable&) const = default;

  const TextTable& texts() const { return texts_; }
  const std::vector<Entry>& entries() const { return entries_; }
  /// Throws Error if an entry has a text that is not there.
  static LiveTensorTable of(TextTable texts, std::vector<Entry> entries);

 private:
  TextTable texts_;
  std::vector<Entry> entries_;
};

/// What one virtual device needs.
struct DeviceMemoryUse {
  std::int64_t device = 0;  // its number in the user's program
  std::int64_t persistent_bytes = 0;
  std::int64_t peak_frame_bytes = 0;  // planned
  LiveTensorTable alive_at_peak;      // largest first
  std::int32_t source_at_peak = -1;   // of the instruction that runs then
  std::int64_t total_bytes() const { return persistent_bytes + peak_frame_bytes; }
  bool operator==(const DeviceMemoryUse&) const = default;
};

struct MemoryReport {
  std::int64_t persistent_bytes = 0;
  std::int64_t peak_frame_bytes = 0;         // planned
  std::int64_t frame_lower_bound_bytes = 0;  // most bytes alive at once in the chosen schedule
  LiveTensorTable alive_at_peak;             // largest first, what is in a callee's frame after it
  std::int32_t source_at_peak = -1;          // of the main program's instruction that runs then
  /// Bytes alive while each instruction of main runs, and in place of a choice its larger branch's.
  std::vector<std::int64_t> timeline;
  std::vector<DeviceMemoryUse> devices;  // by dense index
  bool operator==(const MemoryReport&) const = default;
};

struct Program {
  std::vector<KernelSpec> kernels;
  std::vector<Function> functions;
  std::int32_t main_function = 0;
  std::int32_t weights_from_host_function = -1;
  std::int32_t weights_to_host_function = -1;
  std::vector<PersistentTensor> persistent;
  std::vector<std::int64_t> persistent_bytes = {0};  // by device
  std::vector<StreamDesc> streams;
  std::vector<RemoteBufferDesc> remote_buffers;
  std::vector<RemoteVariable> remote_variables;
  std::vector<CollectiveDesc> collectives;
  std::int64_t replicas = 1;
  std::int64_t devices = 1;  // virtual devices of one replica, numbered densely from 0
  std::vector<PrintDesc> prints;
  std::vector<HostCallDesc> host_calls;
  SourceTable sources;
  MemoryReport memory;

  /// Those that the program has, which nothing of it calls.
  std::vector<std::int32_t> entry_functions() const;
  bool has_prepared_weights() const;
};

}  // namespace pando
