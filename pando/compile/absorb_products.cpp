#include "pando/compile/absorb_products.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "pando/program/kernel_spec_hash.hpp"

namespace pando {
namespace {

using Kind = Instruction::Kind;

/// An instruction and one of its operands.
struct OperandUse {
  std::size_t at = 0;
  std::size_t operand = 0;
};

/// Kernels with products in them, each once.
class KernelsWithProducts {
 public:
  KernelsWithProducts(Program& tables, const Target& target) : tables_(tables), target_(target) {}

  bool may_compute(const StepInstruction& fused, std::size_t input,
                   const StepInstruction& product) const {
    return target_.computes_inside(spec(fused), input, spec(product));
  }

  /// `reader` computes the operands `inputs`, which `products` made, itself.
  void compute_inside(StepInstruction& reader,
                      const std::vector<std::pair<std::size_t, StepInstruction>>& products) {
    KernelSpec fused = spec(reader);
    std::vector<StepOperand> matrices;
    for (const auto& [input, product] : products) {
      const auto left = static_cast<std::int32_t>(fused.inputs.size());
      fused.products.push_back({static_cast<std::int32_t>(input), left, left + 1});
      reader.operands[input] = {};
      for (const std::size_t matrix : {0, 1}) {
        fused.inputs.push_back(spec(product).inputs[matrix]);
        matrices.push_back(product.operands[matrix]);
      }
    }
    const auto outputs = static_cast<std::ptrdiff_t>(fused.inputs.size() - matrices.size());
    reader.operands.insert(reader.operands.begin() + outputs, matrices.begin(), matrices.end());
    reader.target = index_of(std::move(fused));
  }

 private:
  const KernelSpec& spec(const StepInstruction& in) const {
    return tables_.kernels[static_cast<std::size_t>(in.target)];
  }

  std::int32_t index_of(KernelSpec&& spec) {
    const std::size_t hash = KernelSpecHash()(spec);
    const auto [first, last] = known_.equal_range(hash);
    const auto known = std::find_if(first, last, [&](const auto& entry) {
      return tables_.kernels[static_cast<std::size_t>(entry.second)] == spec;
    });
    if (known != last) return known->second;
    tables_.kernels.push_back(std::move(spec));
    return known_.emplace(hash, static_cast<std::int32_t>(tables_.kernels.size()) - 1)->second;
  }

  Program& tables_;
  const Target& target_;
  std::unordered_multimap<std::size_t, std::int32_t> known_;  // by KernelSpecHash
};

class ProductAbsorber {
 public:
  ProductAbsorber(const Program& tables, StepFunction& function, KernelsWithProducts& kernels)
      : tables_(tables), function_(function), kernels_(kernels) {}

  void run() {
    std::vector<std::size_t> products;
    for (std::size_t i = 0; i < function_.instructions.size(); ++i) {
      if (is_product(at(i))) products.push_back(i);
    }
    if (products.empty()) return;
    find_uses(products);
    std::map<std::size_t, std::vector<std::pair<std::size_t, StepInstruction>>> of_readers;
    std::vector<bool> is_absorbed(function_.instructions.size());
    for (const std::size_t product : products) {
      const std::optional<OperandUse> reader = only_reader(product);
      if (!reader || !can_wait(product, reader->at)) continue;
      of_readers[reader->at].emplace_back(reader->operand, at(product));
      is_absorbed[product] = true;
    }
    for (const auto& [reader, inside] : of_readers) {
      kernels_.compute_inside(at(reader), inside);
    }
    std::size_t next = 0;
    std::erase_if(function_.instructions,
                  [&](const StepInstruction&) { return is_absorbed[next++]; });
  }

 private:
  static constexpr std::size_t kResult = 2;  // after both matrices

  StepInstruction& at(std::size_t i) { return function_.instructions[i]; }
  const KernelSpec& spec(const StepInstruction& in) const {
    return tables_.kernels[static_cast<std::size_t>(in.target)];
  }

  /// All of a local storage is the product of two matrices.
  bool is_product(const StepInstruction& in) const {
    if (in.kind != Kind::Kernel || spec(in).kind != "MatMul" || spec(in).inputs.size() != 2 ||
        spec(in).outputs.size() != 1) {
      return false;
    }
    const bool is_connected =
        std::all_of(in.operands.begin(), in.operands.begin() + kResult + 1,
                    [](const StepOperand& operand) { return operand.storage >= 0; });
    if (!is_connected) return false;
    const OperandDesc& layout = spec(in).outputs[0];
    const StepOperand& result = in.operands[kResult];
    const Storage& storage = function_.storage_of(result);
    return storage.kind == Storage::Kind::Local && storage.row < 0 && result.offset == 0 &&
           layout.is_contiguous() &&
           storage.bytes ==
               num_elements(layout.shape) * static_cast<std::int64_t>(dtype_bytes(layout.dtype));
  }

  void find_uses(const std::vector<std::size_t>& products) {
    std::vector<bool> is_looked_at(function_.storages.size());
    for (const std::size_t product : products) {
      for (std::size_t i = 0; i <= kResult; ++i) {
        is_looked_at[static_cast<std::size_t>(at(product).operands[i].storage)] = true;
      }
    }
    for (std::size_t i = 0; i < function_.instructions.size(); ++i) {
      for (std::size_t k = 0; k < at(i).operands.size(); ++k) {
        const std::int32_t storage = at(i).operands[k].storage;
        if (storage < 0 || !is_looked_at[static_cast<std::size_t>(storage)]) continue;
        uses_[storage].push_back({i, k});
        if (!at(i).operands[k].read_only) writes_[storage].push_back(i);
      }
    }
  }

  /// The fused kernel that may compute the product, if nothing else uses the result.
  std::optional<OperandUse> only_reader(std::size_t product) {
    const std::vector<OperandUse>& uses = uses_[at(product).operands[kResult].storage];
    if (uses.size() != 2 || uses[0].at != product) return std::nullopt;
    const OperandUse use = uses[1];
    const StepInstruction& reader = at(use.at);
    const bool is_fused = reader.kind == Kind::Kernel && spec(reader).kind == "Fused" &&
                          use.operand < spec(reader).num_loaded_inputs();
    if (use.at == product || !is_fused || reader.device != at(product).device ||
        reader.operands[use.operand].offset != 0 ||
        !kernels_.may_compute(reader, use.operand, at(product))) {
      return std::nullopt;
    }
    return use;
  }

  /// Nothing writes the matrices between the product's place and the reader, and the reader does
  /// not touch them otherwise: what it writes may lie where they are.
  bool can_wait(std::size_t product, std::size_t reader) {
    return std::all_of(at(product).operands.begin(), at(product).operands.begin() + kResult,
                       [&](const StepOperand& matrix) {
                         const std::vector<std::size_t>& writes = writes_[matrix.storage];
                         const auto next = std::upper_bound(writes.begin(), writes.end(), product);
                         return (next == writes.end() || *next > reader) &&
                                !at(reader).touches(matrix.storage);
                       });
  }

  const Program& tables_;
  StepFunction& function_;
  KernelsWithProducts& kernels_;
  // By storage, of those of products.
  std::unordered_map<std::int32_t, std::vector<OperandUse>> uses_;
  std::unordered_map<std::int32_t, std::vector<std::size_t>> writes_;
};

}  // namespace

void absorb_products(StepProgram& program, const Target& target) {
  KernelsWithProducts kernels(program.tables, target);
  for (StepFunction& function : program.functions) {
    ProductAbsorber(program.tables, function, kernels).run();
  }
}

}  // namespace pando
