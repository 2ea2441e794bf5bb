#include "pando/backends/cpu/fused/fused_kernel.hpp"

#include <algorithm>
#include <cstring>

#include "pando/backends/cpu/fused/compiled_chain.hpp"
#include "pando/backends/cpu/fused/iteration.hpp"
#include "pando/backends/cpu/fused/plan.hpp"
#include "pando/backends/cpu/parallel.hpp"
#include "pando/backends/cpu/processor.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

/// How the blocks of an operand are reached.
enum class Access : std::uint8_t {
  Direct,    // in the caller's memory, one after the other
  Splat,     // one element per row, repeated in a buffer
  Gathered,  // element by element into (or out of) a buffer
  Computed,  // an element of a product, in a buffer
};

constexpr std::int64_t kPieceLanes = 4096;
/// Below this much work, in rough nanoseconds, another thread costs more than it saves.
constexpr double kThreadWork = 6000;

/// Below this many elements the micro-ops are done before machine code would have been made.
constexpr std::int64_t kCompiledElements = 16384;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

bool compiles(const KernelSpec& spec, ChainCompilation compilation) {
  // The micro-ops of other targets round otherwise (a product and its sum apart).
  if (compilation == ChainCompilation::Never || !chain_machine().has_fma) return false;
  return compilation == ChainCompilation::Always ||
         (!kSanitized && num_elements(spec.outputs.front().shape) >= kCompiledElements);
}

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// Those of the common shape.
std::vector<const OperandDesc*> all_operands(const KernelSpec& spec) {
  std::vector<const OperandDesc*> result;
  result.reserve(spec.num_loaded_inputs() + spec.outputs.size());
  for (std::size_t i = 0; i < spec.num_loaded_inputs(); ++i) result.push_back(&spec.inputs[i]);
  for (const OperandDesc& output : spec.outputs) result.push_back(&output);
  return result;
}

class FusedKernel : public Kernel {
 public:
  FusedKernel(const KernelSpec& spec, int num_threads, ChainCompilation compilation)
      : plan_(plan_fused(spec, compiles(spec, compilation))),
        lanes_(static_cast<std::int64_t>(chain_machine().block_lanes)),
        num_operands_(spec.num_loaded_inputs() + spec.outputs.size()) {
    for (const OperandDesc* operand : all_operands(spec)) {
      bytes_.push_back(dtype_bytes(operand->dtype));
      uniform_.push_back(is_uniform(*operand));
    }
    add_products(spec);
    iteration_ = collapse(all_operands(spec), !plan_.generated.empty() || !products_.empty());
    choose_rows();
    choose_access();
    lay_out_scratch();
    choose_parts(num_threads);
    fill_constants();
    if (plan_.steps.empty()) return;
    streams_ = is_better_past_the_caches();
    compiled_ = compile_chain(plan_.steps, moving_slots_of_steps(), streams_);
    choose_row_loop();
  }

  std::size_t scratch_bytes() const override {
    return part_bytes_ * static_cast<std::size_t>(num_parts_);
  }

  void run(std::byte* const* operands, std::byte* scratch) const override {
    if (num_units_ == 0) return;
    parallel_for(num_parts_, num_parts_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) {
        run_part(operands, scratch + part_bytes_ * static_cast<std::size_t>(part),
                 num_units_ * part / num_parts_, num_units_ * (part + 1) / num_parts_);
      }
    });
  }

  std::string explain() const override {
    std::string text =
        str_cat("Fused: ", chain_machine().target, ", blocks of ", lanes_, " lanes, ",
                plan_.num_chain_ops, " chain ops and ", plan_.num_tile_ops, " tile ops per block, ",
                plan_.num_tiles, " temporary blocks, ", code_text(), num_parts_, " threads; ",
                rows_, " rows of ", row_length_, "; operands");
    for (Access access : access_) {
      text += access == Access::Direct     ? " direct"
              : access == Access::Splat    ? " splat"
              : access == Access::Gathered ? " gathered"
                                           : " computed";
    }
    return text + "\n" + plan_.listing;
  }

 private:
  struct Part {
    std::byte* const* operands;
    std::byte** slots;
    std::int64_t* steps;
    std::byte** rows;       // per operand: where the current row begins
    std::int64_t* indices;  // of the current row, by outer dimension
    std::byte* memory;
    bool streams = false;
  };
  struct Product {
    std::size_t input, left, right;
    VectorMatrix shape;     // without the addresses
    std::int64_t left_row;  // stride
  };

  void add_products(const KernelSpec& spec) {
    for (const ProductInput& product : spec.products) {
      const auto operand = [&](std::int32_t i) { return static_cast<std::size_t>(i); };
      const OperandDesc& left = spec.inputs[operand(product.left)];
      const OperandDesc& right = spec.inputs[operand(product.right)];
      internal_check(spec.inputs[operand(product.value)].is_contiguous() &&
                         !uniform_[operand(product.value)] && right.strides[1] == 1,
                     "a fused product needs dense rows");
      VectorMatrix shape;
      shape.left_stride = left.strides[1];
      shape.right_stride = right.strides[0];
      shape.depth = left.shape[1];
      shape.columns = right.shape[1];
      products_.push_back({operand(product.value), operand(product.left), operand(product.right),
                           shape, left.strides[0]});
    }
  }

  const Product* product_of(std::size_t operand) const {
    const auto it = std::find_if(products_.begin(), products_.end(),
                                 [&](const Product& p) { return p.input == operand; });
    return it == products_.end() ? nullptr : &*it;
  }

  /// Where operand i is among those of run(): the matrices of products stand before the outputs.
  std::size_t position(std::size_t operand) const {
    return is_input(operand) ? operand : operand + 2 * products_.size();
  }

  bool is_input(std::size_t operand) const { return operand < plan_.num_inputs; }

  /// Rows are runs of the inner dimension where they hold many blocks, else everything is one row
  /// and what is not contiguous is gathered.
  void choose_rows() {
    const std::int64_t inner = iteration_.inner();
    const bool by_rows = iteration_.shape.size() == 1 ||
                         (plan_.generated.empty() && (inner % lanes_ == 0 || inner >= 8 * lanes_));
    row_length_ = by_rows ? inner : iteration_.size();
    rows_ = by_rows && inner > 0 ? iteration_.size() / inner : 1;
    by_rows_ = by_rows;
  }

  void choose_access() {
    const Strides contiguous = contiguous_strides(iteration_.shape);
    bool gathers = false;
    for (std::size_t i = 0; i < num_operands_; ++i) {
      const Strides& strides = iteration_.strides[i];
      const bool direct = by_rows_ ? strides.back() == 1 : strides == contiguous;
      const bool splat = is_input(i) && (uniform_[i] || (by_rows_ && strides.back() == 0));
      Access access = direct ? Access::Direct : Access::Gathered;
      if (splat) access = Access::Splat;
      if (product_of(i) != nullptr) access = Access::Computed;
      access_.push_back(access);
      gathers = gathers || access == Access::Gathered || access == Access::Computed;
    }
    piece_ = kPieceLanes;
    merge_pieces_ = !gathers && plan_.generated.empty();
    if (!merge_pieces_) piece_ = static_cast<std::int64_t>(kPhiloxGroup);
  }

  /// Results that the last cache could not keep push what it holds out of it, and are read into it
  /// before they are written.
  bool is_better_past_the_caches() const {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < num_operands_; ++i) {
      const Strides& strides = iteration_.strides[i];
      const bool whole = std::find(strides.begin(), strides.end(), 0) == strides.end();
      if (whole) bytes += static_cast<std::size_t>(iteration_.size()) * bytes_[i];
      if (is_input(i)) continue;
      const bool even = access_[i] == Access::Direct &&
                        std::all_of(strides.begin(), strides.end() - 1, [&](std::int64_t stride) {
                          return stride * static_cast<std::int64_t>(bytes_[i]) % 32 == 0;
                        });
      if (!even) return false;
    }
    return bytes >= last_cache_bytes() / 4 * 3;
  }

  /// In place, the line to be written is in the cache already.
  bool streams(const Part& part) const {
    for (std::size_t o = plan_.num_inputs; streams_ && o < num_operands_; ++o) {
      const std::byte* output = part.operands[position(o)];
      if (reinterpret_cast<std::uintptr_t>(output) % 32 != 0) return false;
      for (std::size_t i = 0; i < plan_.num_inputs; ++i) {
        if (part.operands[position(i)] == output) return false;
      }
    }
    return streams_;
  }

  /// Machine code goes from row to row by itself where a row needs nothing but its addresses.
  void choose_row_loop() {
    loops_over_rows_ = compiled_ != nullptr && merge_pieces_ && outer_dimensions() > 0 &&
                       row_length_ % lanes_ == 0;
    for (std::size_t i = 0; i < num_operands_; ++i) {
      loops_over_rows_ = loops_over_rows_ && (access_[i] == Access::Direct || uniform_[i]);
    }
    if (!loops_over_rows_) return;
    for (std::size_t i = 0; i < num_operands_; ++i) {
      row_steps_.push_back(iteration_.strides[i][outer_dimensions() - 1] *
                           static_cast<std::int64_t>(bytes_[i]));
    }
  }

  void lay_out_scratch() {
    std::size_t size = 0;
    const auto take = [&](std::size_t bytes) {
      const std::size_t at = size;
      size += aligned(bytes);
      return at;
    };
    const auto block = static_cast<std::size_t>(lanes_) * 8;
    take((plan_.num_slots() + kSlotGroup) * sizeof(std::byte*));
    steps_offset_ = take(moving_slots() * sizeof(std::int64_t));
    rows_offset_ = take(num_operands_ * sizeof(std::byte*));
    indices_offset_ = take(iteration_.shape.size() * sizeof(std::int64_t));
    tiles_offset_ = take(plan_.num_tiles * block);
    for (std::size_t i = 0; i < num_operands_; ++i) {
      const bool whole_piece =
          access_[i] == Access::Gathered || access_[i] == Access::Computed || in_hazard(i);
      buffers_.push_back(take(whole_piece ? static_cast<std::size_t>(kPhiloxGroup) * bytes_[i]
                                          : static_cast<std::size_t>(lanes_) * bytes_[i]));
    }
    for (std::size_t i = 0; i < plan_.generated.size(); ++i) {
      buffers_.push_back(take(kPhiloxGroup * sizeof(std::uint32_t)));
    }
    part_bytes_ = size;
  }

  bool in_hazard(std::size_t operand) const {
    return std::any_of(plan_.hazards.begin(), plan_.hazards.end(), [&](const auto& hazard) {
      return static_cast<std::size_t>(hazard.first) == operand;
    });
  }

  void choose_parts(int num_threads) {
    pieces_per_row_ = (row_length_ + piece_ - 1) / piece_;
    num_units_ = rows_ * pieces_per_row_;
    if (iteration_.size() == 0) num_units_ = 0;
    double block_work = 2.0 * static_cast<double>(plan_.num_chain_ops) +
                        25.0 * static_cast<double>(plan_.num_tile_ops);
    for (Access access : access_) {
      block_work += access == Access::Direct ? 3.0 : access == Access::Splat ? 0.0 : 30.0;
    }
    for (const Product& product : products_) {
      block_work += 2.0 * static_cast<double>(product.shape.depth);
    }
    const double work =
        block_work * static_cast<double>(iteration_.size()) / static_cast<double>(lanes_);
    const auto useful = static_cast<std::int64_t>(work / kThreadWork);
    num_parts_ = std::clamp<std::int64_t>(std::min(useful, num_units_), 1, num_threads);
  }

  void fill_constants() {
    const auto lanes = static_cast<std::size_t>(lanes_);
    // Words of 64 bytes, so that the blocks are aligned.
    constants_.resize((plan_.constants.size() * lanes * 8 + 63) / 64);
    std::byte* block = reinterpret_cast<std::byte*>(constants_.data());
    for (const auto& [bits, bytes] : plan_.constants) {
      fill_elements(reinterpret_cast<const std::byte*>(&bits), bytes, lanes_, block);
      block += lanes * 8;
    }
  }

  std::string code_text() const {
    if (compiled_ == nullptr) return "";
    return str_cat(compiled_->code_bytes(), " bytes of machine code, ");
  }

  std::vector<bool> moving_slots_of_steps() const {
    std::vector<bool> result(plan_.num_slots());
    for (std::size_t i = 0; i < moving(); ++i) {
      result[i] = i >= num_operands_ || access_[i] != Access::Splat;
    }
    return result;
  }

  std::size_t moving() const { return num_operands_ + plan_.generated.size(); }
  std::size_t moving_slots() const { return (moving() + kSlotGroup - 1) / kSlotGroup * kSlotGroup; }

  void run_part(std::byte* const* operands, std::byte* memory, std::int64_t begin,
                std::int64_t end) const {
    if (begin == end) return;
    Part part{operands,
              reinterpret_cast<std::byte**>(memory),
              reinterpret_cast<std::int64_t*>(memory + steps_offset_),
              reinterpret_cast<std::byte**>(memory + rows_offset_),
              reinterpret_cast<std::int64_t*>(memory + indices_offset_),
              memory};
    const auto block = static_cast<std::size_t>(lanes_) * 8;
    auto* constants = reinterpret_cast<std::byte*>(const_cast<Line*>(constants_.data()));
    for (std::size_t i = 0; i < plan_.constants.size(); ++i) {
      part.slots[plan_.first_constant() + i] = constants + i * block;
    }
    for (std::size_t i = 0; i < plan_.num_tiles; ++i) {
      part.slots[plan_.first_tile() + i] = memory + tiles_offset_ + i * block;
    }
    for (std::size_t i = 0; i < plan_.num_inputs; ++i) {
      if (!uniform_[i]) continue;
      part.slots[i] = memory + buffers_[i];
      fill_elements(operands[position(i)], bytes_[i], lanes_, part.slots[i]);
    }
    if (plan_.prologue.size() > 1) {
      chain_machine().run(plan_.prologue.data(), part.slots, part.steps, 0, 1);
    }
    const bool copies_inputs = set_steps(part);
    part.streams = streams(part);
    run_units(part, begin, end, merge_pieces_ && !copies_inputs);
  }

  /// Returns whether an input has to be copied because it is also an output.
  bool set_steps(const Part& part) const {
    bool copies = false;
    for (std::size_t i = 0; i < num_operands_; ++i) {
      part.steps[i] =
          access_[i] == Access::Splat ? 0 : lanes_ * static_cast<std::int64_t>(bytes_[i]);
      copies = copies || must_copy(part, i);
    }
    for (std::size_t i = num_operands_; i < moving(); ++i) {
      part.steps[i] = lanes_ * static_cast<std::int64_t>(sizeof(std::uint32_t));
    }
    std::fill(part.steps + moving(), part.steps + moving_slots(), 0);
    return copies;
  }

  bool must_copy(const Part& part, std::size_t operand) const {
    return std::any_of(plan_.hazards.begin(), plan_.hazards.end(), [&](const auto& hazard) {
      return static_cast<std::size_t>(hazard.first) == operand &&
             access_[operand] == Access::Direct &&
             part.operands[operand] ==
                 part.operands[position(plan_.num_inputs +
                                        static_cast<std::size_t>(hazard.second))];
    });
  }

  void run_units(const Part& part, std::int64_t begin, std::int64_t end, bool merge) const {
    std::int64_t unit = begin;
    std::int64_t row = begin / pieces_per_row_;
    go_to_row(part, row);
    for (std::int64_t rows = 1; unit < end; go_on(part, rows), row += rows) {
      const std::int64_t piece = unit - row * pieces_per_row_;
      rows = merge && piece == 0 ? rows_at_once(part, (end - unit) / pieces_per_row_) : 1;
      if (rows > 1) {
        run_rows(part, rows);
        unit += rows * pieces_per_row_;
        continue;
      }
      const std::int64_t pieces = std::min(pieces_per_row_ - piece, end - unit);
      const std::int64_t first = piece * piece_;
      const std::int64_t last = std::min(row_length_, (piece + pieces) * piece_);
      const std::int64_t step = merge ? last - first : static_cast<std::int64_t>(kPhiloxGroup);
      for (std::int64_t at = first; at < last; at += step) {
        run_run(part, row, at, std::min(step, last - at));
      }
      unit += pieces;
    }
  }

  void go_to_row(const Part& part, std::int64_t row) const {
    for (std::size_t i = 0; i < num_operands_; ++i) {
      if (access_[i] == Access::Computed) continue;
      part.rows[i] = part.operands[position(i)] +
                     iteration_.offset(i, row * row_length_) * static_cast<std::int64_t>(bytes_[i]);
    }
    for (std::size_t d = outer_dimensions(); d-- > 0;) {
      part.indices[d] = row % iteration_.shape[d];
      row /= iteration_.shape[d];
    }
  }

  /// How many of `left` whole rows are evenly spaced.
  std::int64_t rows_at_once(const Part& part, std::int64_t left) const {
    if (!loops_over_rows_) return 1;
    const std::size_t d = outer_dimensions() - 1;
    return std::clamp<std::int64_t>(iteration_.shape[d] - part.indices[d], 1,
                                    std::max<std::int64_t>(left, 1));
  }

  void run_rows(const Part& part, std::int64_t rows) const {
    for (std::size_t i = 0; i < num_operands_; ++i) place_operand(part, i, 0, 0, row_length_);
    compiled_->run({part.slots, row_length_, rows, row_steps_.data(), part.streams});
  }

  /// By `rows` rows, no more than are left of the last outer dimension.
  void go_on(const Part& part, std::int64_t rows) const {
    for (std::size_t d = outer_dimensions(); d-- > 0; rows = 1) {
      const bool wraps = (part.indices[d] += rows) == iteration_.shape[d];
      const std::int64_t moved = wraps ? rows - iteration_.shape[d] : rows;
      for (std::size_t i = 0; i < num_operands_; ++i) {
        if (access_[i] == Access::Computed) continue;
        part.rows[i] += moved * iteration_.strides[i][d] * static_cast<std::int64_t>(bytes_[i]);
      }
      if (!wraps) return;
      part.indices[d] = 0;
    }
  }

  /// Those that number the rows.
  std::size_t outer_dimensions() const { return by_rows_ ? iteration_.shape.size() - 1 : 0; }

  /// Elements [first, first + count) of a row.
  void run_run(const Part& part, std::int64_t row, std::int64_t first, std::int64_t count) const {
    const std::int64_t linear = row * row_length_ + first;
    for (std::size_t i = 0; i < num_operands_; ++i) place_operand(part, i, linear, first, count);
    for (std::size_t i = 0; i < plan_.generated.size(); ++i) generate(part, i, linear, count);
    run_blocks(part, count / lanes_);
    if (count % lanes_ != 0) run_tail(part, count % lanes_);
    for (std::size_t i = plan_.num_inputs; i < num_operands_; ++i) {
      if (access_[i] != Access::Gathered) continue;
      scatter(iteration_, i, bytes_[i], part.memory + buffers_[i], linear, count,
              part.operands[position(i)]);
    }
  }

  void run_blocks(const Part& part, std::int64_t blocks) const {
    if (compiled_ == nullptr) {
      chain_machine().run(plan_.body.data(), part.slots, part.steps, moving(), blocks);
      return;
    }
    compiled_->run({.slots = part.slots, .lanes = blocks * lanes_, .streams = part.streams});
    for (std::size_t i = 0; i < moving(); ++i) part.slots[i] += part.steps[i] * blocks;
  }

  void place_operand(const Part& part, std::size_t i, std::int64_t linear, std::int64_t first,
                     std::int64_t count) const {
    std::byte* buffer = part.memory + buffers_[i];
    if (access_[i] == Access::Direct && !must_copy(part, i)) {
      part.slots[i] = part.rows[i] + first * static_cast<std::int64_t>(bytes_[i]);
    } else if (access_[i] == Access::Splat) {
      part.slots[i] = buffer;
      if (!uniform_[i]) fill_elements(part.rows[i], bytes_[i], lanes_, buffer);
    } else if (access_[i] == Access::Computed) {
      part.slots[i] = buffer;
      multiply(part, *product_of(i), linear, count, reinterpret_cast<float*>(buffer));
    } else {
      part.slots[i] = buffer;
      if (is_input(i)) {
        gather(iteration_, i, bytes_[i], part.operands[position(i)], linear, count, buffer);
      }
    }
  }

  /// Elements [first, first + count) of a product, in C order.
  static void multiply(const Part& part, const Product& product, std::int64_t first,
                       std::int64_t count, float* out) {
    const auto* left = reinterpret_cast<const float*>(part.operands[product.left]);
    const auto* right = reinterpret_cast<const float*>(part.operands[product.right]);
    const std::int64_t columns = product.shape.columns;
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t row = (first + done) / columns, column = (first + done) % columns;
      VectorMatrix piece = product.shape;
      piece.left = left + row * product.left_row;
      piece.right = right + column;
      piece.columns = std::min(count - done, columns - column);
      vector_times_matrix(piece, out + done);
      done += piece.columns;
    }
  }

  void generate(const Part& part, std::size_t i, std::int64_t linear, std::int64_t count) const {
    const GeneratedOperand& operand = plan_.generated[i];
    std::byte* buffer = part.memory + buffers_[num_operands_ + i];
    part.slots[plan_.first_generated() + i] = buffer;
    auto* words = reinterpret_cast<std::uint32_t*>(buffer);
    if (operand.is_philox) {
      const auto key = [&](std::uint16_t slot) {
        std::uint32_t value;
        std::memcpy(&value, part.slots[slot], sizeof value);
        return value;
      };
      tile_machine().philox_group(
          static_cast<std::uint32_t>(linear / static_cast<std::int64_t>(kPhiloxGroup)),
          key(operand.key0), key(operand.key1), operand.stream, words);
    } else {
      for (std::int64_t k = 0; k < count; ++k) words[k] = static_cast<std::uint32_t>(linear + k);
    }
  }

  /// The last lanes of a run go through buffers of a whole block, as micro-ops know no other size.
  void run_tail(const Part& part, std::int64_t lanes) const {
    for (std::size_t i = 0; i < num_operands_; ++i) {
      if (access_[i] != Access::Direct || must_copy(part, i)) continue;
      std::byte* buffer = part.memory + buffers_[i];
      std::byte* memory = part.slots[i];
      part.slots[i] = buffer;
      const std::size_t bytes = static_cast<std::size_t>(lanes) * bytes_[i];
      if (is_input(i)) {
        std::memcpy(buffer, memory, bytes);
      } else {
        part.steps[i] = memory - buffer;  // where to copy it; the steps are not needed any more
      }
    }
    chain_machine().run(plan_.body.data(), part.slots, part.steps, 0, 1);
    for (std::size_t i = plan_.num_inputs; i < num_operands_; ++i) {
      if (access_[i] != Access::Direct) continue;
      std::byte* buffer = part.memory + buffers_[i];
      std::memcpy(buffer + part.steps[i], buffer, static_cast<std::size_t>(lanes) * bytes_[i]);
      part.steps[i] = lanes_ * static_cast<std::int64_t>(bytes_[i]);
    }
  }

  struct alignas(64) Line {
    std::byte bytes[64];
  };

  FusedPlan plan_;
  std::unique_ptr<CompiledChain> compiled_;  // of the body, or none
  std::vector<Product> products_;
  std::int64_t lanes_;
  std::size_t num_operands_;
  std::vector<std::size_t> bytes_;  // of an element, by operand
  std::vector<bool> uniform_;
  Iteration iteration_;
  bool by_rows_ = false;
  std::int64_t rows_ = 0;
  std::int64_t row_length_ = 0;
  std::vector<Access> access_;
  std::int64_t piece_ = 0;  // work is split between threads at multiples of this in a row
  std::int64_t pieces_per_row_ = 0;
  std::int64_t num_units_ = 0;  // pieces of all rows
  bool merge_pieces_ = false;
  bool loops_over_rows_ = false;
  bool streams_ = false;                 // where outputs are apart from inputs
  std::vector<std::int64_t> row_steps_;  // by operand, bytes; of the last outer dimension
  std::int64_t num_parts_ = 1;
  std::vector<Line> constants_;
  // Scratch of a part: slots, steps, rows, indices, tiles, then a buffer for each operand.
  std::size_t steps_offset_ = 0;
  std::size_t rows_offset_ = 0;
  std::size_t indices_offset_ = 0;
  std::size_t tiles_offset_ = 0;
  std::vector<std::size_t> buffers_;
  std::size_t part_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_fused_kernel(const KernelSpec& spec, int num_threads,
                                          ChainCompilation compilation) {
  if (spec.kind == "Copy") return make_copy_kernel(spec, num_threads);
  if (spec.kind == "Fill") return make_fill_kernel(spec, num_threads);
  internal_check(spec.kind == "Fused" && !spec.outputs.empty(),
                 "a fused kernel needs kind Fused and an output");
  return std::make_unique<FusedKernel>(spec, num_threads, compilation);
}

}  // namespace pando::cpu
