#include "pando/compile/prepare_weights.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "pando/base/alignment.hpp"
#include "pando/compile/kernel_numbers.hpp"

namespace pando {
namespace {

std::int64_t bytes_of(const OperandDesc& desc) {
  return num_elements(desc.shape) * static_cast<std::int64_t>(dtype_bytes(desc.dtype));
}

class WeightPreparer {
 public:
  WeightPreparer(StepProgram& program, Target& target)
      : program_(program),
        target_(target),
        kernels_(program.tables),
        main_(program.functions[static_cast<std::size_t>(program.tables.main_function)]) {
    maker_.name = "prepare_weights";
  }

  void run() {
    find_written();
    for (StepInstruction& in : main_.instructions) {
      if (in.kind == Instruction::Kind::Kernel) prepare(in);
    }
    if (maker_.instructions.empty()) return;
    program_.tables.prepare_weights_function = static_cast<std::int32_t>(program_.functions.size());
    program_.functions.push_back(std::move(maker_));
  }

 private:
  /// A part of a variable or constant, and the kernel that lays it out.
  struct Source {
    std::int64_t offset = 0;  // in persistent memory
    std::int32_t maker = 0;
    auto operator<=>(const Source&) const = default;
  };

  /// What runs write. Prepared tensors are made again after a weights-from-host program.
  void find_written() {
    for (std::size_t i = 0; i < program_.functions.size(); ++i) {
      const StepFunction& function = program_.functions[i];
      if (static_cast<std::int32_t>(i) == program_.tables.weights_from_host_function) continue;
      for (const StepInstruction& in : function.instructions) {
        for (const StepOperand& operand : in.operands) {
          if (operand.storage < 0 || operand.read_only) continue;
          const Storage& storage = function.storage_of(operand);
          if (storage.kind == Storage::Kind::Global) written_.insert(storage.offset);
        }
      }
    }
  }

  bool stays_the_same(const StepOperand& operand) const {
    if (operand.storage < 0) return false;
    const Storage& storage = main_.storage_of(operand);
    return storage.kind == Storage::Kind::Global && !written_.contains(storage.offset);
  }

  void prepare(StepInstruction& in) {
    const auto& is_global = [&](const StepOperand& operand) { return stays_the_same(operand); };
    if (std::none_of(in.operands.begin(), in.operands.end(), is_global)) return;
    const std::optional<PreparedInput> wanted = target_.prepared_input(kernels_[in.target]);
    if (!wanted) return;
    StepOperand& weight = in.operands[static_cast<std::size_t>(wanted->input)];
    if (!stays_the_same(weight)) return;
    const Source source{main_.storage_of(weight).offset + weight.offset,
                        kernels_.of(wanted->maker)};
    auto known = made_.find(source);
    if (known == made_.end()) {
      const std::int64_t bytes = bytes_of(wanted->maker.outputs.front());
      if (prepared_bytes_ + bytes > target_.most_prepared_bytes()) return;
      prepared_bytes_ += bytes;
      known = made_.emplace(source, make(in, weight, source.maker)).first;
    }
    weight = {known->second, true};
    in.target = kernels_.of(wanted->user);
  }

  /// The storage of the main function that has what `maker` makes of `weight`.
  std::int32_t make(const StepInstruction& user, const StepOperand& weight, std::int32_t maker) {
    const Storage from = main_.storage_of(weight);
    const Storage made = add_tensor(from, kernels_[maker].outputs.front());
    const std::int32_t read = add_storage(maker_, from, false);
    const std::int32_t write = add_storage(maker_, made, true);
    StepInstruction in;
    in.target = maker;
    in.operands = {{read, true, weight.offset}, {write}};
    in.device = user.device;
    in.source = user.source;
    maker_.instructions.push_back(std::move(in));
    return add_storage(main_, made, false);
  }

  Storage add_tensor(const Storage& like, const OperandDesc& made) {
    const std::string name = str_cat(program_.name_of(like), " (prepared)");
    std::int64_t& end = program_.tables.persistent_bytes.front();
    PersistentTensor& tensor = program_.tables.persistent.emplace_back();
    tensor.id = name;
    tensor.dtype = made.dtype;
    tensor.shape = made.shape;
    tensor.offset = end;
    tensor.is_prepared = true;
    Storage storage;
    storage.kind = Storage::Kind::Global;
    storage.offset = end;
    storage.bytes = bytes_of(made);
    storage.name = program_.texts.add(name);
    storage.location = like.location;
    end += align_bytes(storage.bytes);
    return storage;
  }

  static std::int32_t add_storage(StepFunction& function, Storage storage, bool is_written) {
    storage.is_writable = is_written;
    function.storages.push_back(storage);
    return static_cast<std::int32_t>(function.storages.size()) - 1;
  }

  StepProgram& program_;
  Target& target_;
  KernelNumbers kernels_;
  StepFunction& main_;
  StepFunction maker_;
  std::set<std::int64_t> written_;       // offsets in persistent memory
  std::map<Source, std::int32_t> made_;  // storages of the main function
  std::int64_t prepared_bytes_ = 0;
};

}  // namespace

void prepare_weights(StepProgram& program, Target& target) {
  if (program.prepares_weights) WeightPreparer(program, target).run();
}

}  // namespace pando
