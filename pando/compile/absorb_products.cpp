#include "pando/compile/absorb_products.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "pando/compile/kernel_numbers.hpp"

namespace pando {
namespace {

using Kind = Instruction::Kind;

std::int64_t bytes_of(const OperandDesc& desc) {
  return num_elements(desc.shape) * static_cast<std::int64_t>(dtype_bytes(desc.dtype));
}

/// An instruction and one of its operands.
struct OperandUse {
  std::size_t at = 0;
  std::size_t operand = 0;
};

/// A product, and how the kernel that reads it computes it.
struct Inside {
  std::size_t input = 0;  // of the reader
  StepInstruction product;
  std::int32_t place = -1;  // see ProductInput
};

/// Kernels with products in them, each once.
class KernelsWithProducts {
 public:
  KernelsWithProducts(Program& tables, const Target& target) : kernels_(tables), target_(target) {}

  ProductUse use_of(const StepInstruction& fused, std::size_t input,
                    const StepInstruction& product) const {
    return target_.computes_inside(spec(fused), input, spec(product));
  }

  /// `reader` computes `products` itself.
  void compute_inside(StepInstruction& reader, const std::vector<Inside>& products) {
    KernelSpec fused = spec(reader);
    std::vector<StepOperand> matrices;
    for (const auto& [input, product, place] : products) {
      const auto left = static_cast<std::int32_t>(fused.inputs.size());
      fused.products.push_back({static_cast<std::int32_t>(input), left, left + 1, place});
      reader.operands[input] = {};
      // Where the whole product is made, most of the time goes to it.
      if (place >= 0) reader.source = product.source;
      for (const std::size_t matrix : {0, 1}) {
        fused.inputs.push_back(spec(product).inputs[matrix]);
        matrices.push_back(product.operands[matrix]);
      }
    }
    const auto outputs = static_cast<std::ptrdiff_t>(fused.inputs.size() - matrices.size());
    reader.operands.insert(reader.operands.begin() + outputs, matrices.begin(), matrices.end());
    reader.target = kernels_.of(fused);
  }

 private:
  const KernelSpec& spec(const StepInstruction& in) const { return kernels_[in.target]; }

  KernelNumbers kernels_;
  const Target& target_;
};

class ProductAbsorber {
 public:
  ProductAbsorber(const Program& tables, StepFunction& function, KernelsWithProducts& kernels)
      : tables_(tables), function_(function), kernels_(kernels) {}

  /// From the last to the first: of the products that a kernel reads, the nearest is made in an
  /// output.
  void run() {
    std::vector<std::size_t> products;
    for (std::size_t i = 0; i < function_.instructions.size(); ++i) {
      if (is_product(at(i))) products.push_back(i);
    }
    if (products.empty()) return;
    find_uses(products);
    std::vector<bool> is_absorbed(function_.instructions.size());
    next_kept_ = function_.instructions.size();
    for (std::size_t i = function_.instructions.size(); i-- > 0;) {
      if (!products.empty() && products.back() == i) {
        products.pop_back();
        is_absorbed[i] = absorb(i);
      }
      if (!is_absorbed[i]) next_kept_ = i;
    }
    for (const auto& [reader, inside] : of_readers_) kernels_.compute_inside(at(reader), inside);
    std::size_t next = 0;
    std::erase_if(function_.instructions,
                  [&](const StepInstruction&) { return is_absorbed[next++]; });
  }

 private:
  static constexpr std::size_t kResult = 2;  // after both matrices

  StepInstruction& at(std::size_t i) { return function_.instructions[i]; }
  const StepInstruction& at(std::size_t i) const { return function_.instructions[i]; }
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
           layout.is_contiguous() && storage.bytes == bytes_of(layout);
  }

  bool absorb(std::size_t product) {
    const std::optional<OperandUse> reader = only_reader(product);
    if (!reader || !can_wait(product, reader->at)) return false;
    const ProductUse use = kernels_.use_of(at(reader->at), reader->operand, at(product));
    if (use == ProductUse::None) return false;
    std::int32_t place = -1;
    if (use == ProductUse::InOutput) {
      const std::optional<std::int32_t> found = place_of(product, *reader);
      if (!found) return false;
      place = *found;
    }
    std::vector<Inside>& inside = of_readers_[reader->at];
    // A product that is made in an output is the only one.
    if (!inside.empty() && (place >= 0 || inside.front().place >= 0)) return false;
    inside.push_back({reader->operand, at(product), place});
    return true;
  }

  /// The output of the reader in which the whole product can be made: new memory that is used for
  /// that alone until then. Nothing lives longer for it.
  std::optional<std::int32_t> place_of(std::size_t product, const OperandUse& reader) {
    const KernelSpec& fused = spec(at(reader.at));
    const OperandDesc& value = fused.inputs[reader.operand];
    const OperandDesc& result = spec(at(product)).outputs[0];
    const bool is_same = value.dtype == DType::Float32 && value.is_contiguous() &&
                         num_elements(value.shape) == num_elements(result.shape) &&
                         !value.shape.empty() && value.shape.back() == result.shape.back();
    if (!is_same || !(next_kept_ == reader.at || matrices_live_on(product, reader.at))) {
      return std::nullopt;
    }
    for (std::size_t output = 0; output < fused.outputs.size(); ++output) {
      if (fused.outputs[output] == value && is_new(at(reader.at), fused.inputs.size() + output)) {
        return static_cast<std::int32_t>(output);
      }
    }
    return std::nullopt;
  }

  bool matrices_live_on(std::size_t product, std::size_t reader) {
    return std::all_of(at(product).operands.begin(), at(product).operands.begin() + kResult,
                       [&](const StepOperand& matrix) {
                         return function_.storage_of(matrix).kind != Storage::Kind::Local ||
                                uses_[matrix.storage].back().at > reader;
                       });
  }

  /// Whether the instruction is the first to use the storage, which is whole, as nothing else.
  bool is_new(const StepInstruction& in, std::size_t operand) const {
    const StepOperand& to = in.operands[operand];
    if (to.storage < 0 || to.offset != 0) return false;
    const Storage& storage = function_.storage_of(to);
    const bool is_own =
        storage.kind == Storage::Kind::Local ||
        (storage.kind == Storage::Kind::Argument && storage.slot >= function_.num_inputs);
    const KernelSpec& fused = spec(in);
    return is_own && storage.row < 0 &&
           storage.bytes == bytes_of(fused.outputs[operand - fused.inputs.size()]) &&
           &at(static_cast<std::size_t>(first_use_[static_cast<std::size_t>(to.storage)])) == &in &&
           std::count_if(in.operands.begin(), in.operands.end(), [&](const StepOperand& other) {
             return other.storage == to.storage;
           }) == 1;
  }

  void find_uses(const std::vector<std::size_t>& products) {
    first_use_.assign(function_.storages.size(), -1);
    std::vector<bool> is_looked_at(function_.storages.size());
    for (const std::size_t product : products) {
      for (std::size_t i = 0; i <= kResult; ++i) {
        is_looked_at[static_cast<std::size_t>(at(product).operands[i].storage)] = true;
      }
    }
    for (std::size_t i = 0; i < function_.instructions.size(); ++i) {
      for (std::size_t k = 0; k < at(i).operands.size(); ++k) {
        const std::int32_t storage = at(i).operands[k].storage;
        if (storage < 0) continue;
        std::int32_t& first = first_use_[static_cast<std::size_t>(storage)];
        if (first < 0) first = static_cast<std::int32_t>(i);
        if (!is_looked_at[static_cast<std::size_t>(storage)]) continue;
        uses_[storage].push_back({i, k});
        if (!at(i).operands[k].read_only) writes_[storage].push_back(i);
      }
    }
  }

  /// The fused kernel that reads the product, if nothing else uses the result.
  std::optional<OperandUse> only_reader(std::size_t product) {
    const std::vector<OperandUse>& uses = uses_[at(product).operands[kResult].storage];
    if (uses.size() != 2 || uses[0].at != product) return std::nullopt;
    const OperandUse use = uses[1];
    const StepInstruction& reader = at(use.at);
    const bool is_fused = reader.kind == Kind::Kernel && spec(reader).kind == "Fused" &&
                          use.operand < spec(reader).num_loaded_inputs();
    if (use.at == product || !is_fused || reader.device != at(product).device ||
        reader.operands[use.operand].offset != 0) {
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
  std::vector<std::int32_t> first_use_;  // by storage
  std::size_t next_kept_ = 0;            // the next instruction that stays
  std::map<std::size_t, std::vector<Inside>> of_readers_;
};

}  // namespace

void absorb_products(StepProgram& program, Target& target) {
  KernelsWithProducts kernels(program.tables, target);
  for (StepFunction& function : program.functions) {
    ProductAbsorber(program.tables, function, kernels).run();
  }
}

}  // namespace pando
