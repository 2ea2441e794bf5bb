#include "pando/compile/prepare_kernels.hpp"

#include <optional>

#include "pando/base/error.hpp"

namespace pando {
namespace {

class KernelPreparer {
 public:
  KernelPreparer(StepProgram& program, Target& target)
      : program_(program), target_(target), scratch_bytes_(program.tables.kernels.size()) {}

  void run() {
    for (StepFunction& function : program_.functions) {
      for (StepInstruction& in : function.instructions) {
        if (in.kind == Instruction::Kind::Kernel) prepare(function, in);
      }
    }
  }

 private:
  void prepare(StepFunction& function, StepInstruction& in) {
    const KernelSpec& spec = program_.tables.kernels[static_cast<std::size_t>(in.target)];
    std::optional<std::int64_t>& bytes = scratch_bytes_[static_cast<std::size_t>(in.target)];
    if (!bytes) bytes = static_cast<std::int64_t>(prepared(spec, in)->scratch_bytes());
    const bool has_scratch = in.operands.size() > spec.inputs.size() + spec.outputs.size();
    if (*bytes == 0 || has_scratch) return;
    Storage storage;
    storage.bytes = *bytes;
    storage.name = program_.texts.add(spec.kind + " scratch");
    if (!spec.outputs.empty() && in.operands[spec.inputs.size()].storage >= 0) {
      storage.location = function.storage_of(in.operands[spec.inputs.size()]).location;
    }
    in.operands.push_back({static_cast<std::int32_t>(function.storages.size())});
    function.storages.push_back(storage);
  }

  std::shared_ptr<const Kernel> prepared(const KernelSpec& spec, const StepInstruction& in) {
    try {
      return target_.prepare(spec);
    } catch (const Error& refusal) {
      if (in.source < 0 || refusal.code() != ErrorCode::InvalidProgram) throw;
      const SourceInfo source = program_.tables.sources[static_cast<std::size_t>(in.source)];
      throw Error(str_cat(source.op, source.location.empty() ? "" : ", made at ", source.location,
                          ": ", refusal.what()));
    }
  }

  StepProgram& program_;
  Target& target_;
  std::vector<std::optional<std::int64_t>> scratch_bytes_;  // by kernel
};

}  // namespace

void prepare_kernels(StepProgram& program, Target& target) {
  KernelPreparer(program, target).run();
}

}  // namespace pando
