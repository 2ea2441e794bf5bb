#include "pando/compile/prepare_weights.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pando/base/alignment.hpp"
#include "pando/base/error.hpp"
#include "pando/compile/kernel_numbers.hpp"

namespace pando {
namespace {

std::int64_t bytes_of(const OperandDesc& desc) {
  return num_elements(desc.shape) * static_cast<std::int64_t>(dtype_bytes(desc.dtype));
}

std::int64_t bytes_of(const PersistentTensor& tensor) {
  return num_elements(tensor.shape) * static_cast<std::int64_t>(dtype_bytes(tensor.dtype));
}

/// Whether the elements are, in some order, all those of one piece of memory that begins with the
/// first of them.
bool is_one_piece(const OperandDesc& desc) {
  std::vector<std::size_t> order(desc.shape.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return desc.strides[a] < desc.strides[b]; });
  std::int64_t elements = 1;
  for (const std::size_t d : order) {
    if (desc.shape[d] == 1) continue;
    if (desc.strides[d] != elements) return false;
    elements *= desc.shape[d];
  }
  return true;
}

/// The tensors of persistent memory by where they lie.
class PersistentPlaces {
 public:
  explicit PersistentPlaces(const std::vector<PersistentTensor>& tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      index_.try_emplace({tensors[i].offset, bytes_of(tensors[i])}, i);
    }
  }
  std::size_t operator[](const Storage& storage) const {
    return index_.at({storage.offset, storage.bytes});
  }

 private:
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> index_;
};

/// A part of a tensor that a kernel of the main function would lay out.
struct Candidate {
  std::size_t instruction = 0;
  std::size_t tensor = 0;
  std::int64_t offset = 0;  // in the tensor
  const PreparedInput* wanted = nullptr;

  const OperandDesc& part() const { return wanted->maker.inputs.front(); }
};

/// Uses of a tensor in all functions.
struct TensorUse {
  std::int64_t count = 0;
  bool is_written = false;  // by runs; prepared tensors are made again after weights come
  std::vector<std::size_t> candidates;
};

class WeightPreparer {
 public:
  WeightPreparer(StepProgram& program, Target& target)
      : program_(program),
        target_(target),
        kernels_(program.tables),
        places_(program.tables.persistent),
        uses_(program.tables.persistent.size()),
        staged_(uses_.size()) {}

  void run() {
    count_uses();
    collect();
    for (std::size_t i = 0; i < uses_.size(); ++i) staged_[i] = can_be_staged(i);
    for (const Candidate& candidate : candidates_) prepare(candidate);
    if (makers_.empty()) return;
    for (std::size_t i = 0; i < staged_.size(); ++i) {
      if (staged_[i]) add_restorer(i);
    }
    close_gaps();
    for (auto& [tensor, maker] : makers_) {
      tensors()[tensor].make_function = add_function(std::move(maker));
    }
    for (auto& [tensor, restorer] : restorers_) {
      tensors()[tensor].restore_function = add_function(std::move(restorer));
    }
  }

 private:
  std::vector<PersistentTensor>& tensors() { return program_.tables.persistent; }
  StepFunction& main() {
    return program_.functions[static_cast<std::size_t>(program_.tables.main_function)];
  }
  std::int32_t add_function(StepFunction function) {
    program_.functions.push_back(std::move(function));
    return static_cast<std::int32_t>(program_.functions.size()) - 1;
  }

  void count_uses() {
    for (std::size_t i = 0; i < program_.functions.size(); ++i) {
      const StepFunction& function = program_.functions[i];
      const bool runs = static_cast<std::int32_t>(i) != program_.tables.weights_from_host_function;
      for (const StepInstruction& in : function.instructions) {
        for (const StepOperand& operand : in.operands) {
          if (operand.storage < 0) continue;
          const Storage& storage = function.storage_of(operand);
          if (storage.kind != Storage::Kind::Global) continue;
          TensorUse& use = uses_[places_[storage]];
          ++use.count;
          use.is_written = use.is_written || (runs && !operand.read_only);
        }
      }
    }
  }

  void collect() {
    const StepFunction& function = main();
    for (std::size_t i = 0; i < function.instructions.size(); ++i) {
      const StepInstruction& in = function.instructions[i];
      if (in.kind != Instruction::Kind::Kernel) continue;
      const auto is_kept = [&](const StepOperand& operand) { return stays_the_same(operand); };
      if (std::none_of(in.operands.begin(), in.operands.end(), is_kept)) continue;
      const std::optional<PreparedInput>& wanted = wanted_by(in.target);
      if (!wanted) continue;
      const StepOperand& weight = in.operands[static_cast<std::size_t>(wanted->input)];
      if (!stays_the_same(weight)) continue;
      const std::size_t tensor = places_[main().storage_of(weight)];
      uses_[tensor].candidates.push_back(candidates_.size());
      candidates_.push_back({i, tensor, weight.offset, &*wanted});
    }
  }

  const std::optional<PreparedInput>& wanted_by(std::int32_t kernel) {
    const auto [known, is_new] = wanted_.try_emplace(kernel);
    if (is_new) known->second = target_.prepared_input(kernels_[kernel]);
    return known->second;
  }

  bool stays_the_same(const StepOperand& operand) {
    if (operand.storage < 0) return false;
    const Storage& storage = main().storage_of(operand);
    return storage.kind == Storage::Kind::Global && !uses_[places_[storage]].is_written;
  }

  /// Whether all uses are candidates whose parts make up the tensor and can be restored.
  bool can_be_staged(std::size_t tensor) {
    const TensorUse& use = uses_[tensor];
    if (program_.device_numbers.size() > 1 || use.candidates.empty()) return false;
    if (use.count != static_cast<std::int64_t>(use.candidates.size())) return false;
    std::map<std::int64_t, std::int64_t> parts;  // bytes by offset
    for (const std::size_t index : use.candidates) {
      const Candidate& candidate = candidates_[index];
      if (!candidate.wanted->restorer || !is_one_piece(candidate.part())) return false;
      if (has_scratch(candidate.wanted->maker) || has_scratch(*candidate.wanted->restorer)) {
        return false;
      }
      const auto known = parts.emplace(candidate.offset, bytes_of(candidate.part())).first;
      if (known->second != bytes_of(candidate.part())) return false;
    }
    std::int64_t end = 0;
    for (const auto& [offset, bytes] : parts) {
      if (offset != end) return false;
      end += bytes;
    }
    return end > 0 && end == bytes_of(tensors()[tensor]);
  }

  bool has_scratch(const KernelSpec& spec) { return target_.prepare(spec)->scratch_bytes() > 0; }

  void prepare(const Candidate& candidate) {
    const std::int32_t maker = kernels_.of(candidate.wanted->maker);
    const Source source{candidate.tensor, candidate.offset, maker};
    auto known = made_.find(source);
    if (known == made_.end()) {
      const std::int64_t bytes = bytes_of(candidate.wanted->maker.outputs.front());
      if (!staged_[candidate.tensor]) {
        if (prepared_bytes_ + bytes > target_.most_prepared_bytes()) return;
        prepared_bytes_ += bytes;
      }
      known = made_.emplace(source, make(candidate, maker)).first;
    }
    StepInstruction& in = main().instructions[candidate.instruction];
    in.operands[static_cast<std::size_t>(candidate.wanted->input)] = {known->second, true};
    in.target = kernels_.of(candidate.wanted->user);
  }

  /// The storage of the main function that has what `maker` makes of the candidate.
  std::int32_t make(const Candidate& candidate, std::int32_t maker) {
    const StepInstruction& user = main().instructions[candidate.instruction];
    const StepOperand& weight = user.operands[static_cast<std::size_t>(candidate.wanted->input)];
    const Storage from = main().storage_of(weight);
    const Storage made = add_tensor(from, candidate.wanted->maker.outputs.front());
    StepInstruction in;
    in.target = maker;
    in.device = user.device;
    in.source = user.source;
    StepFunction& function = begun(makers_, candidate.tensor, from, "prepare ");
    function.storages.push_back(made);
    in.operands = {{0, true, candidate.offset}, {last_storage(function)}};
    function.instructions.push_back(in);
    main().storages.push_back(made);
    main().storages.back().is_writable = false;
    return last_storage(main());
  }

  /// What makes each part of a staged tensor again of the first that was made of it.
  void add_restorer(std::size_t tensor) {
    std::map<std::int64_t, const Candidate*> parts;  // by offset
    for (const std::size_t index : uses_[tensor].candidates) {
      parts.emplace(candidates_[index].offset, &candidates_[index]);
    }
    for (const auto& [offset, part] : parts) {
      const StepInstruction& user = main().instructions[part->instruction];
      const StepOperand& read = user.operands[static_cast<std::size_t>(part->wanted->input)];
      StepInstruction in;
      in.target = kernels_.of(restorer_of(*part));
      in.device = user.device;
      in.source = user.source;
      StepFunction& function =
          begun(restorers_, tensor, makers_.at(tensor).storages.front(), "restore ");
      function.storages.push_back(main().storage_of(read));
      in.operands = {{last_storage(function), true}, {0, false, offset}};
      function.instructions.push_back(in);
    }
  }

  static const KernelSpec& restorer_of(const Candidate& candidate) {
    if (candidate.wanted->restorer) return *candidate.wanted->restorer;
    throw InternalError("a staged tensor must be restored by a kernel");
  }

  using Functions = std::map<std::size_t, StepFunction>;  // by tensor

  /// The function of a tensor, whose first storage has the tensor itself.
  StepFunction& begun(Functions& functions, std::size_t tensor, const Storage& like,
                      std::string_view what) {
    const auto [at, is_new] = functions.try_emplace(tensor);
    StepFunction& function = at->second;
    if (!is_new) return function;
    function.name = str_cat(what, tensors()[tensor].id);
    Storage& storage = function.storages.emplace_back(like);
    storage.is_writable = staged_[tensor];
    if (staged_[tensor]) {
      storage.kind = Storage::Kind::Local;
      storage.starts_undefined = true;
      storage.offset = 0;
    }
    return function;
  }

  static std::int32_t last_storage(const StepFunction& function) {
    return static_cast<std::int32_t>(function.storages.size()) - 1;
  }

  Storage add_tensor(const Storage& like, const OperandDesc& made) {
    const std::string name = str_cat(program_.name_of(like), " (prepared)");
    std::int64_t& end = program_.tables.persistent_bytes.front();
    PersistentTensor& tensor = tensors().emplace_back();
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

  /// Takes away the room of staged tensors.
  void close_gaps() {
    if (restorers_.empty()) return;
    const PersistentPlaces before(tensors());
    std::int64_t end = 0;
    for (std::size_t i = 0; i < tensors().size(); ++i) {
      tensors()[i].offset = end;
      if (!restorers_.contains(i)) end += align_bytes(bytes_of(tensors()[i]));
    }
    program_.tables.persistent_bytes.front() = end;
    for (StepFunction& function : program_.functions) move_storages(function, before);
    for (auto& [tensor, function] : makers_) move_storages(function, before);
    for (auto& [tensor, function] : restorers_) move_storages(function, before);
  }

  void move_storages(StepFunction& function, const PersistentPlaces& before) {
    for (Storage& storage : function.storages) {
      if (storage.kind != Storage::Kind::Global) continue;
      const std::size_t tensor = before[storage];
      storage.offset = tensors()[tensor].offset;
      // Nothing uses it any more.
      if (restorers_.contains(tensor)) storage = unused(storage);
    }
  }

  static Storage unused(const Storage& storage) {
    Storage nothing;
    nothing.bytes = storage.bytes;
    nothing.name = storage.name;
    nothing.location = storage.location;
    return nothing;
  }

  /// What is laid out: `maker` at an offset of a tensor.
  struct Source {
    std::size_t tensor = 0;
    std::int64_t offset = 0;
    std::int32_t maker = 0;
    auto operator<=>(const Source&) const = default;
  };

  StepProgram& program_;
  Target& target_;
  KernelNumbers kernels_;
  PersistentPlaces places_;  // of the tensors that the program came with
  std::vector<TensorUse> uses_;
  std::vector<bool> staged_;
  std::map<std::int32_t, std::optional<PreparedInput>> wanted_;  // by kernel
  std::vector<Candidate> candidates_;
  std::map<Source, std::int32_t> made_;  // storages of the main function
  Functions makers_, restorers_;
  std::int64_t prepared_bytes_ = 0;  // where the tensor itself stays
};

}  // namespace

void prepare_weights(StepProgram& program, Target& target) {
  if (program.prepares_weights) WeightPreparer(program, target).run();
}

}  // namespace pando
