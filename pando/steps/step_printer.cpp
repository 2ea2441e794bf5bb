#include "pando/steps/step_printer.hpp"

#include <algorithm>
#include <cmath>

#include "pando/base/error.hpp"
#include "pando/base/lane_names.hpp"
#include "pando/ir/text_reader.hpp"
#include "pando/steps/step_words.hpp"

namespace pando {
namespace {

std::string type_text(DType dtype, const Shape& shape) {
  return str_cat(shape_text(shape), " ", dtype);
}

std::string numbers_text(const std::vector<std::int32_t>& numbers) {
  return "[" + joined(numbers, [](auto number) { return std::to_string(number); }) + "]";
}

std::string numbers_text(const std::vector<std::int64_t>& numbers) {
  return "[" + joined(numbers, [](auto number) { return std::to_string(number); }) + "]";
}

/// `64, 128`
std::string sizes_text(const std::vector<std::int64_t>& by_device) {
  return joined(by_device, [](auto bytes) { return std::to_string(bytes); });
}

std::string attributes_text(const Attributes& attributes) {
  if (attributes.empty()) return "";
  const auto entry_text = [](const Attributes::Entry& entry) {
    // Nothing in an empty list says what it is a list of.
    const auto* numbers = std::get_if<Floats>(&entry.second);
    const auto* texts = std::get_if<Texts>(&entry.second);
    const char* type = numbers != nullptr && numbers->empty() ? "numbers "
                       : texts != nullptr && texts->empty()   ? "texts "
                                                              : "";
    return entry.first + " = " + type + attribute_text(entry.second);
  };
  return " {" + joined(attributes, entry_text) + "}";
}

std::string layouts_text(const std::vector<OperandDesc>& operands) {
  const auto layout_text = [](const OperandDesc& desc) {
    const std::string type = type_text(desc.dtype, desc.shape);
    return desc.is_contiguous() && desc.strides == contiguous_strides(desc.shape)
               ? type
               : type + " strides " + numbers_text(desc.strides);
  };
  return "(" + joined(operands, layout_text) + ")";
}

std::string scalar_text(const ScalarInstruction& in) {
  std::string values;
  for (int k = 0; k < scalar_arity(in.op); ++k) {
    const ScalarValue value = k == 0 ? in.a : k == 1 ? in.b : in.c;
    values += str_cat(k == 0 ? "%" : ", %", value);
  }
  std::string text = str_cat(scalar_op_name(in.op), ".", lane_name(in.lane), "(", values, ")");
  if (in.dtype != DType::Float32) text += str_cat(" ", in.dtype);
  if (in.index != 0) text += str_cat(" index ", in.index);
  if (in.immediate != 0.0 || std::signbit(in.immediate)) {
    text += " number " + attribute_text(AttributeValue(in.immediate));
  }
  if (in.integer_immediate != 0) text += str_cat(" integer ", in.integer_immediate);
  return text;
}

class TablePrinter {
 public:
  explicit TablePrinter(const StepProgram& program) : tables_(program.tables), program_(program) {}

  std::string run() {
    line("pando-steps 1");
    line("replicas ", tables_.replicas);
    line("devices ", numbers_text(program_.device_numbers));
    if (!program_.devices_share_memory) line("separate_memories");
    if (program_.prefetch_bytes != 0) line("prefetch ", program_.prefetch_bytes);
    if (!program_.prepares_weights) line("weights_unprepared");
    line("main ", tables_.main_function);
    if (tables_.weights_from_host_function >= 0) {
      line("weights_from_host ", tables_.weights_from_host_function);
    }
    if (tables_.weights_to_host_function >= 0) {
      line("weights_to_host ", tables_.weights_to_host_function);
    }
    print_memory();
    print_exchanges();
    for (std::size_t i = 0; i < tables_.kernels.size(); ++i) print_kernel(i);
    for (std::size_t i = 0; i < tables_.sources.size(); ++i) {
      const SourceInfo source = tables_.sources[i];
      line("source ", i, " ", quoted(source.op), " at ", quoted(source.location), " phase ",
           quoted(source.phase));
    }
    return std::move(text_);
  }

 private:
  template <class... Parts>
  void line(const Parts&... parts) {
    text_ += str_cat(parts..., "\n");
  }

  void print_memory() {
    const auto& sizes = tables_.persistent_bytes;
    if (std::any_of(sizes.begin(), sizes.end(), [](auto bytes) { return bytes != 0; })) {
      line("persistent_bytes ", sizes_text(sizes));
    }
    for (const PersistentTensor& tensor : tables_.persistent) {
      line("persistent ", quoted(tensor.id), " : ", type_text(tensor.dtype, tensor.shape),
           " offset ", tensor.offset, tensor.device != 0 ? str_cat(" device ", tensor.device) : "",
           tensor.is_variable ? " variable" : "", tensor.is_prepared ? " prepared" : "",
           tensor.make_function >= 0 ? str_cat(" make ", tensor.make_function) : "",
           tensor.restore_function >= 0 ? str_cat(" restore ", tensor.restore_function) : "",
           settings_text(tensor.settings));
    }
    for (const RemoteBufferDesc& buffer : tables_.remote_buffers) {
      line("remote_buffer ", buffer.id, " : ", type_text(buffer.dtype, buffer.shape), " entries ",
           buffer.entries);
    }
    for (const RemoteVariable& variable : tables_.remote_variables) {
      line("remote_variable ", quoted(variable.id), " : ",
           type_text(variable.dtype, variable.shape), " buffer ", variable.buffer,
           settings_text(variable.settings));
    }
  }

  void print_exchanges() {
    for (const StreamDesc& stream : tables_.streams) {
      line(stream.host_to_device ? "from_host " : "to_host ", quoted(stream.id), " : ",
           type_text(stream.dtype, stream.shape));
    }
    for (std::size_t i = 0; i < tables_.collectives.size(); ++i) {
      const CollectiveDesc& c = tables_.collectives[i];
      line("collective ", i, " ", kCollectiveWords[static_cast<std::size_t>(c.kind)], " ",
           reduction_word(c.reduction), " ", c.dtype, " ", c.input_elements, " to ",
           c.output_elements, " groups ", c.groups.size, " stride ", c.groups.stride, " ",
           quoted(c.name));
    }
    for (std::size_t i = 0; i < tables_.prints.size(); ++i) {
      const PrintDesc& print = tables_.prints[i];
      line("print ", i, " ", quoted(print.title), " : ", type_text(print.dtype, print.shape),
           attributes_text(print.format));
    }
    for (std::size_t i = 0; i < tables_.host_calls.size(); ++i) {
      const HostCallDesc& call = tables_.host_calls[i];
      line("host_call ", i, " ", quoted(call.function), " ", layouts_text(call.inputs), " to ",
           layouts_text(call.outputs));
    }
  }

  void print_kernel(std::size_t index) {
    const KernelSpec& spec = tables_.kernels[index];
    std::string products, scalar;
    for (const ProductInput& p : spec.products) {
      products += str_cat(products.empty() ? " products [(" : ", (", p.value, ", ", p.left, ", ",
                          p.right, ")", p.place < 0 ? "" : str_cat(" in ", p.place));
    }
    for (std::size_t i = 0; i < spec.scalar.instructions.size(); ++i) {
      scalar += str_cat("  %", i, " = ", scalar_text(spec.scalar.instructions[i]), "\n");
    }
    line("kernel ", index, " ", spec.kind, attributes_text(spec.attributes), " ",
         layouts_text(spec.inputs), " to ", layouts_text(spec.outputs), products,
         products.empty() ? "" : "]", scalar.empty() ? "" : " scalar {\n" + scalar + "}");
  }

  const Program& tables_;
  const StepProgram& program_;
  std::string text_;
};

class FunctionPrinter {
 public:
  FunctionPrinter(const StepProgram& program, std::size_t index)
      : program_(program), function_(program.functions[index]), index_(index) {}

  std::string run() {
    text_ = str_cat("\nfunction ", index_, " ", quoted(function_.name), " inputs ",
                    function_.num_inputs, " arguments ", function_.num_arguments);
    if (function_.num_carried) text_ += str_cat(" carried ", *function_.num_carried);
    if (!function_.devices.empty()) text_ += " devices " + numbers_text(function_.devices);
    if (function_.is_planned()) text_ += " frame " + sizes_text(function_.frame_bytes);
    text_ += " {\n";
    for (std::size_t i = 0; i < function_.storages.size(); ++i) print_storage(i);
    for (const StepInstruction& in : function_.instructions) print_instruction(in);
    for (std::size_t d = 0; d < function_.streams.size(); ++d) print_stream(d);
    for (const CarriedSignals& carried : function_.carried_signals) {
      text_ +=
          str_cat("  carry ", carried.from, " to ", carried.to, " times ", carried.count, "\n");
    }
    return std::move(text_ += "}\n");
  }

 private:
  void print_storage(std::size_t index) {
    const Storage& s = function_.storages[index];
    text_ += str_cat("  storage %", index, " ", kStorageWords[static_cast<std::size_t>(s.kind)]);
    if (s.kind == Storage::Kind::Argument) text_ += str_cat(" ", s.slot);
    if (s.kind == Storage::Kind::Global) text_ += str_cat(" ", s.offset);
    text_ += str_cat(" : ", s.bytes, " bytes ", quoted(program_.name_of(s)));
    if (!program_.location_of(s).empty()) text_ += " at " + quoted(program_.location_of(s));
    if (!s.is_writable) text_ += " read_only";
    if (s.starts_undefined) text_ += " undefined";
    if (s.callee >= 0) text_ += str_cat(" frame_of ", s.callee);
    if (s.row >= 0) text_ += str_cat(" row ", s.row);
    if (s.first >= 0) text_ += str_cat(" alive ", s.first, " to ", s.last);
    if (s.device != 0) text_ += str_cat(" device ", s.device);
    if (s.is_shared) text_ += " shared";
    const bool is_placed = s.kind == Storage::Kind::Local && s.offset != 0;
    text_ += is_placed ? str_cat(" offset ", s.offset, "\n") : "\n";
  }

  void print_instruction(const StepInstruction& in) {
    text_ += str_cat("  ", step_word(in.kind), " ");
    if (in.kind == Instruction::Kind::Kernel) {
      text_ += program_.tables.kernels[static_cast<std::size_t>(in.target)].kind + ".";
    }
    text_ += std::to_string(in.target);
    const StepClauses clauses = clauses_of(in.kind);
    if (!clauses.other_target.empty()) {
      text_ += str_cat(" ", clauses.other_target, " ", in.other_target);
    }
    if (!clauses.count.empty()) text_ += str_cat(" ", clauses.count, " ", in.count);
    if (in.kind == Instruction::Kind::Loop) text_ += str_cat(" carried ", in.num_carried);
    if (in.ends_early) text_ += " while";
    text_ += "(" + joined(in.operands, operand_text) + ")";
    if (!in.in_place.empty()) text_ += " in_place " + numbers_text(in.in_place);
    if (in.in_place_output != 0) text_ += str_cat(" output ", in.in_place_output);
    if (clauses.is_transfer && in.count != 0) text_ += " unsigned";
    if (in.constant_row) text_ += str_cat(" constant_row ", *in.constant_row);
    if (!in.callee_frames.empty()) {
      const auto frame_text = [](std::int32_t storage) { return str_cat("%", storage); };
      text_ += " frame " + joined(in.callee_frames, frame_text);
    }
    if (in.row >= 0) text_ += str_cat(" row ", in.row);
    if (in.writes_row) text_ += " written";
    if (in.device >= 0) text_ += str_cat(" device ", in.device);
    if (in.source >= 0) text_ += str_cat(" source ", in.source, comment(in.source));
    text_ += "\n";
  }

  static std::string operand_text(const StepOperand& operand) {
    if (operand.storage < 0) return "-";
    const std::string text = str_cat(operand.read_only ? "in %" : "out %", operand.storage);
    return operand.offset == 0 ? text : str_cat(text, "[", operand.offset, "]");
  }

  /// `  # MatMul 'fc1' at file.py:12`
  std::string comment(std::int32_t index) const {
    const SourceInfo source = program_.tables.sources[static_cast<std::size_t>(index)];
    std::string text = str_cat("  # ", source.op);
    if (!source.location.empty()) text += str_cat(" at ", source.location);
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  }

  void print_stream(std::size_t index) {
    const auto step_text = [](const StreamStep& step) {
      return str_cat(kStreamWords[static_cast<std::size_t>(step.kind)], " ", step.index);
    };
    text_ += str_cat("  stream ", function_.devices[index], " [",
                     joined(function_.streams[index], step_text), "]\n");
  }

  const StepProgram& program_;
  const StepFunction& function_;
  std::size_t index_;
  std::string text_;
};

}  // namespace

std::string print_steps(const StepProgram& program) {
  std::string text = TablePrinter(program).run();
  for (std::size_t i = 0; i < program.functions.size(); ++i) {
    text += FunctionPrinter(program, i).run();
  }
  return text;
}

}  // namespace pando
