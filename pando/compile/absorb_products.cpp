#include "pando/compile/absorb_products.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

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
  bool is_write = false;
};

/// A product, and how the kernel that reads it computes it.
struct Inside {
  std::size_t reader = 0;
  std::size_t input = 0;  // of the reader
  std::size_t product = 0;
  std::int32_t place = -1;  // see ProductInput
};

/// The uses of those storages that are looked at, by storage and in order.
class OperandUses {
 public:
  OperandUses() = default;
  OperandUses(const StepFunction& function, const std::vector<bool>& is_looked_at)
      : begins_(function.storages.size() + 1) {
    std::vector<std::pair<std::size_t, OperandUse>> found;
    for (std::size_t i = 0; i < function.instructions.size(); ++i) {
      const std::vector<StepOperand>& operands = function.instructions[i].operands;
      for (std::size_t k = 0; k < operands.size(); ++k) {
        const auto storage = static_cast<std::size_t>(operands[k].storage);
        if (operands[k].storage < 0 || !is_looked_at[storage]) continue;
        found.push_back({storage, {i, k, !operands[k].read_only}});
        ++begins_[storage + 1];
      }
    }
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    uses_.resize(found.size());
    std::vector<std::size_t> next = begins_;
    for (const auto& [storage, use] : found) uses_[next[storage]++] = use;
  }

  std::span<const OperandUse> of(std::int32_t storage) const {
    const auto s = static_cast<std::size_t>(storage);
    return std::span(uses_).subspan(begins_[s], begins_[s + 1] - begins_[s]);
  }

 private:
  std::vector<std::size_t> begins_;  // by storage; the last one is the end
  std::vector<OperandUse> uses_;
};

/// Kernels with products in them, each once. What was found for some kernels is kept, as most
/// programs have the same few again and again.
class KernelsWithProducts {
 public:
  KernelsWithProducts(Program& tables, const Target& target) : kernels_(tables), target_(target) {}

  ProductUse use_of(const StepInstruction& fused, std::size_t input,
                    const StepInstruction& product) {
    const std::array key = {fused.target, static_cast<std::int32_t>(input), product.target};
    const auto [known, is_new] = uses_.try_emplace(key, ProductUse::None);
    if (is_new) known->second = target_.computes_inside(spec(fused), input, spec(product));
    return known->second;
  }

  /// `reader` computes products itself. `products`: by Inside::product.
  void compute_inside(StepInstruction& reader, std::span<const Inside> inside,
                      const std::vector<StepInstruction>& products) {
    std::vector<std::int32_t> key = {reader.target};
    std::vector<StepOperand> matrices;
    const auto outputs = static_cast<std::ptrdiff_t>(spec(reader).inputs.size());
    for (const Inside& one : inside) {
      const StepInstruction& product = products[one.product];
      key.insert(key.end(), {static_cast<std::int32_t>(one.input), one.place, product.target});
      reader.operands[one.input] = {};
      // Where the whole product is made, most of the time goes to it.
      if (one.place >= 0) reader.source = product.source;
      matrices.insert(matrices.end(), product.operands.begin(), product.operands.begin() + 2);
    }
    reader.operands.insert(reader.operands.begin() + outputs, matrices.begin(), matrices.end());
    const auto [known, is_new] = with_products_.try_emplace(std::move(key), -1);
    if (is_new) known->second = kernels_.of(with_products(spec(reader), inside, products));
    reader.target = known->second;
  }

 private:
  const KernelSpec& spec(const StepInstruction& in) const { return kernels_[in.target]; }

  KernelSpec with_products(KernelSpec fused, std::span<const Inside> inside,
                           const std::vector<StepInstruction>& products) const {
    for (const Inside& one : inside) {
      const KernelSpec& product = spec(products[one.product]);
      const auto left = static_cast<std::int32_t>(fused.inputs.size());
      fused.products.push_back({static_cast<std::int32_t>(one.input), left, left + 1, one.place});
      fused.inputs.insert(fused.inputs.end(), product.inputs.begin(), product.inputs.begin() + 2);
    }
    return fused;
  }

  KernelNumbers kernels_;
  const Target& target_;
  std::map<std::array<std::int32_t, 3>, ProductUse> uses_;  // by kernel, input and product
  /// By kernel, then input, place and product of each.
  std::map<std::vector<std::int32_t>, std::int32_t> with_products_;
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
    last_of_reader_.assign(function_.instructions.size(), -1);
    std::vector<bool> is_absorbed(function_.instructions.size());
    next_kept_ = function_.instructions.size();
    for (std::size_t i = function_.instructions.size(); i-- > 0;) {
      if (!products.empty() && products.back() == i) {
        products.pop_back();
        is_absorbed[i] = absorb(i);
      }
      if (!is_absorbed[i]) next_kept_ = i;
    }
    compute_inside_readers();
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
    std::int32_t& last = last_of_reader_[reader->at];
    // A product that is made in an output is the only one.
    if (last >= 0 && (place >= 0 || inside_[static_cast<std::size_t>(last)].place >= 0)) {
      return false;
    }
    inside_.push_back({reader->at, reader->operand, product, place});
    last = static_cast<std::int32_t>(inside_.size()) - 1;
    return true;
  }

  /// Each reader with all of its products, in the order of readers.
  void compute_inside_readers() {
    std::stable_sort(inside_.begin(), inside_.end(),
                     [](const Inside& a, const Inside& b) { return a.reader < b.reader; });
    for (std::size_t begin = 0, end = 0; begin < inside_.size(); begin = end) {
      const std::size_t reader = inside_[begin].reader;
      while (end < inside_.size() && inside_[end].reader == reader) ++end;
      kernels_.compute_inside(at(reader), std::span(inside_).subspan(begin, end - begin),
                              function_.instructions);
    }
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
                                uses_.of(matrix.storage).back().at > reader;
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
    uses_ = OperandUses(function_, is_looked_at);
    for (std::size_t i = function_.instructions.size(); i-- > 0;) {
      for (const StepOperand& operand : at(i).operands) {
        if (operand.storage < 0) continue;
        first_use_[static_cast<std::size_t>(operand.storage)] = static_cast<std::int32_t>(i);
      }
    }
  }

  /// The fused kernel that reads the product, if nothing else uses the result.
  std::optional<OperandUse> only_reader(std::size_t product) {
    const std::span<const OperandUse> uses = uses_.of(at(product).operands[kResult].storage);
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
                         return !is_written(matrix.storage, product, reader) &&
                                !at(reader).touches(matrix.storage);
                       });
  }

  /// After instruction `from` and not after instruction `to`.
  bool is_written(std::int32_t storage, std::size_t from, std::size_t to) const {
    const std::span<const OperandUse> uses = uses_.of(storage);
    auto use = std::upper_bound(uses.begin(), uses.end(), from,
                                [](std::size_t at, const OperandUse& u) { return at < u.at; });
    for (; use != uses.end() && use->at <= to; ++use) {
      if (use->is_write) return true;
    }
    return false;
  }

  const Program& tables_;
  StepFunction& function_;
  KernelsWithProducts& kernels_;
  OperandUses uses_;                     // of the storages of products
  std::vector<std::int32_t> first_use_;  // by storage
  std::size_t next_kept_ = 0;            // the next instruction that stays
  std::vector<Inside> inside_;
  std::vector<std::int32_t> last_of_reader_;  // by instruction: the last of inside_ it computes
};

}  // namespace

void absorb_products(StepProgram& program, Target& target) {
  KernelsWithProducts kernels(program.tables, target);
  for (StepFunction& function : program.functions) {
    ProductAbsorber(program.tables, function, kernels).run();
  }
}

}  // namespace pando
