// The storages, operands and instructions of one function while its graph is lowered.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "pando/compile/placement.hpp"
#include "pando/compile/program_tables.hpp"

namespace pando {

/// A tensor as a kernel sees it.
struct BoundTensor {
  StepOperand operand;
  OperandDesc desc;
};

class FrameBuilder {
 public:
  /// `function`: with its name and numbers. `shared_roots`: storages that outlive a run; both
  /// references must stay valid.
  FrameBuilder(ProgramTables& tables, const Placements& placements,
               const std::unordered_set<const Tensor*>& shared_roots, StepFunction function)
      : tables_(tables),
        placements_(placements),
        shared_roots_(shared_roots),
        function_(std::move(function)) {}

  ProgramTables& tables() { return tables_; }
  const Placements& placements() const { return placements_; }
  StepFunction finish() { return std::move(function_); }
  /// Makes room for so many.
  void reserve(std::size_t instructions, std::size_t storages) {
    function_.instructions.reserve(instructions);
    function_.storages.reserve(storages);
  }

  /// A storage of the function's own.
  std::int32_t new_storage(std::int64_t bytes, std::string_view name, const Op* op);
  std::int32_t new_argument(std::size_t slot, const Tensor* tensor);
  Storage& storage(std::int32_t index) {
    return function_.storages[static_cast<std::size_t>(index)];
  }
  /// The storage of a root, a new one on its first use.
  std::int32_t storage_of(const Tensor* root);
  void set_storage(const Tensor* root, std::int32_t storage) { storage_of_[root] = storage; }

  StepOperand operand_of(const Tensor* tensor);
  BoundTensor bind(const Tensor* tensor);
  /// A copy, where `tensor` is not contiguous.
  BoundTensor bind_contiguous(const Tensor* tensor, const Op& op);
  BoundTensor new_tensor(const TensorInfo& info, std::string_view name, const Op& op);

  /// `op`: what the instruction comes from, if it does.
  void emit(StepInstruction instruction, const Op* op);
  /// Inputs that the op does not modify are made `in`.
  void emit_kernel(const KernelSpec& spec, std::vector<StepOperand> operands, const Op* op);
  void emit_copy(const BoundTensor& from, const BoundTensor& to, const Op* op);

 private:
  std::int32_t add_storage(const Storage& storage);

  ProgramTables& tables_;
  const Placements& placements_;
  const std::unordered_set<const Tensor*>& shared_roots_;
  StepFunction function_;
  TensorMap<std::int32_t> storage_of_{-1};
};

}  // namespace pando
