#include "pando/compile/channels_last.hpp"

#include <algorithm>
#include <utility>

#include "pando/base/error.hpp"
#include "pando/compile/image_values.hpp"
#include "pando/compile/kernel_numbers.hpp"
#include "pando/compile/layout_choice.hpp"

namespace pando {
namespace {

/// A function's kernels and copies with channels last.
class FunctionRewriter {
 public:
  FunctionRewriter(StepProgram& program, StepFunction& function, ImageKernels& kernels)
      : program_(program), function_(function), kernels_(kernels), values_(function, kernels) {}

  void run() {
    if (!values_.has_reordered_images()) return;
    is_last_ = values_.choose_layouts();
    if (std::find(is_last_.begin(), is_last_.end(), true) == is_last_.end()) return;
    find_needs();
    for (std::size_t i = 0; i < function_.instructions.size(); ++i) rewrite(i);
    function_.instructions = std::move(rewritten_);
  }

 private:
  /// Where a value lies.
  struct Places {
    bool is_needed_first = false;
    bool has_first = false;  // its own storage has it channels first
    std::int32_t last = -1;  // the storage that has it with channels last; -1: none has yet
  };

  void find_needs() {
    places_.resize(function_.storages.size());
    for (std::size_t i = 0; i < function_.instructions.size(); ++i) {
      const StepInstruction& in = function_.instructions[i];
      for (std::size_t k = 0; k < in.operands.size(); ++k) {
        const std::int32_t storage = in.operands[k].storage;
        if (storage < 0) continue;
        if (!is_last_image(i, k)) places_of(storage).is_needed_first = true;
      }
    }
  }

  Places& places_of(std::int32_t storage) { return places_[static_cast<std::size_t>(storage)]; }

  bool is_last_image(std::size_t instruction, std::size_t operand) const {
    return is_last_[instruction] && values_.is_image(instruction, operand);
  }

  void rewrite(std::size_t i) {
    StepInstruction in = function_.instructions[i];
    std::vector<StepInstruction> copies_back;
    const std::int32_t plain = in.target;
    if (is_last_[i]) in.target = kernels_.with_channels_last(plain);
    for (std::size_t k = 0; k < in.operands.size(); ++k) {
      if (in.operands[k].storage < 0) continue;
      if (!is_last_image(i, k)) {
        use_first(in, k);
      } else if (in.operands[k].read_only) {
        in.operands[k] = image_to_read(in, k, kernels_.operand(plain, k)).as_read_only();
      } else {
        write_last(in, k, kernels_.operand(plain, k), copies_back);
      }
    }
    rewritten_.push_back(std::move(in));
    for (StepInstruction& copy : copies_back) rewritten_.push_back(std::move(copy));
  }

  /// The value, if it was made with channels last, is needed as it was before.
  void use_first(const StepInstruction& in, std::size_t k) {
    const std::int32_t storage = in.operands[k].storage;
    Places& places = places_of(storage);
    const bool is_there = places.has_first || !in.operands[k].read_only || places.last < 0;
    places.has_first = true;
    if (is_there) return;
    emit_copy(in, {places.last}, {storage}, values_.image(storage), false);
  }

  StepOperand image_to_read(const StepInstruction& in, std::size_t k, const OperandDesc& image) {
    const StepOperand from = in.operands[k];
    const bool is_shared = values_.is_shared(from.storage);
    if (is_shared && places_of(from.storage).last >= 0) return {places_of(from.storage).last};
    const StepOperand copy{new_storage(from.storage, image)};
    emit_copy(in, from, copy, image, true);
    if (is_shared) places_of(from.storage).last = copy.storage;
    return copy;
  }

  void write_last(StepInstruction& in, std::size_t k, const OperandDesc& image,
                  std::vector<StepInstruction>& copies_back) {
    const StepOperand to = in.operands[k];
    const bool is_shared = values_.is_shared(to.storage);
    const bool is_apart = !is_shared || places_of(to.storage).is_needed_first;
    in.operands[k] = {is_apart ? new_storage(to.storage, image) : to.storage};
    if (is_shared) {
      places_of(to.storage).last = in.operands[k].storage;
      return;
    }
    copies_back.push_back(copy_of(in, in.operands[k], to, image, false));
  }

  std::int32_t new_storage(std::int32_t like, const OperandDesc& image) {
    const Storage& old = function_.storages[static_cast<std::size_t>(like)];
    Storage storage;
    storage.bytes = image_bytes(image);
    storage.name = program_.texts.add(str_cat(program_.name_of(old), " (channels last)"));
    storage.location = old.location;
    function_.storages.push_back(storage);
    places_.emplace_back();
    return static_cast<std::int32_t>(function_.storages.size()) - 1;
  }

  void emit_copy(const StepInstruction& in, const StepOperand& from, const StepOperand& to,
                 const OperandDesc& image, bool to_last) {
    rewritten_.push_back(copy_of(in, from, to, image, to_last));
  }
  /// A copy of an image for the sake of `in`.
  StepInstruction copy_of(const StepInstruction& in, const StepOperand& from, const StepOperand& to,
                          const OperandDesc& image, bool to_last) {
    StepInstruction copy;
    copy.target = kernels_.copy(image, to_last);
    copy.operands = {from.as_read_only(), to};
    copy.device = in.device;
    copy.source = in.source;
    return copy;
  }

  StepProgram& program_;
  StepFunction& function_;
  ImageKernels& kernels_;
  ImageValues values_;
  std::vector<bool> is_last_;   // by instruction
  std::vector<Places> places_;  // by storage
  std::vector<StepInstruction> rewritten_;
};

}  // namespace

void put_channels_last(StepProgram& program, Target& target) {
  ImageKernels kernels(program.tables, target);
  for (StepFunction& function : program.functions) {
    FunctionRewriter(program, function, kernels).run();
  }
}

}  // namespace pando
