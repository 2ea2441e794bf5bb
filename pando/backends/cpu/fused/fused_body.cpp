#include "pando/backends/cpu/fused/fused_body.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "pando/backends/cpu/fused/uniform_division.hpp"
#include "pando/backends/cpu/parallel.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

/// Below this much work, in rough nanoseconds, another thread costs more than it saves.
constexpr double kThreadWork = 6000;

/// Below this many elements the micro-ops are done before machine code would have been made. Parts
/// are short rows, each of which costs micro-ops more than it costs machine code.
constexpr std::int64_t kCompiledElements = 16384, kCompiledPartElements = 2048;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

bool compiles(const KernelSpec& spec, MachineCode machine_code, bool keep_rows) {
  // The micro-ops of other targets round otherwise (a product and its sum apart).
  if (machine_code == MachineCode::Never || !chain_machine().has_fma) return false;
  const std::int64_t least = keep_rows ? kCompiledPartElements : kCompiledElements;
  return machine_code == MachineCode::Always || machine_code == MachineCode::Always256 ||
         (!kSanitized && num_elements(spec.outputs.front().shape) >= least);
}

/// Lanes of a vector of the machine code that writes past the caches.
constexpr std::int64_t kStreamedVector = 8;

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

constexpr std::size_t in_groups(std::size_t slots) {
  return (slots + kSlotGroup - 1) / kSlotGroup * kSlotGroup;
}

bool in_hazard(const FusedPlan& plan, std::size_t operand) {
  return std::any_of(plan.hazards.begin(), plan.hazards.end(), [&](const auto& hazard) {
    return static_cast<std::size_t>(hazard.first) == operand;
  });
}

std::vector<bool> moving_slots(const FusedPlan& plan, const FusedLayout& layout) {
  std::vector<bool> result(plan.num_slots());
  for (std::size_t i = 0; i < layout.num_operands + plan.generated.size(); ++i) {
    result[i] = i >= layout.num_operands || layout.access[i] != Access::Splat;
  }
  return result;
}

/// Whether machine code is right for the divisors of this run.
bool divides_by_products(const FusedPlan& plan, std::byte* const* slots) {
  return std::all_of(plan.divisors.begin(), plan.divisors.end(), [&](std::uint16_t slot) {
    float magnitude;
    std::memcpy(&magnitude, slots[slot], sizeof magnitude);
    return allows_products(magnitude);
  });
}

/// In place, the line to be written is in the cache already.
bool writes_apart(const FusedPlan& plan, const FusedLayout& layout, std::byte* const* operands) {
  for (std::size_t o = plan.num_inputs; o < layout.num_operands; ++o) {
    const std::byte* output = operands[layout.position(o)];
    if (reinterpret_cast<std::uintptr_t>(output) % 32 != 0) return false;
    for (std::size_t i = 0; i < plan.num_inputs; ++i) {
      if (operands[layout.position(i)] == output) return false;
    }
  }
  return true;
}

/// How many elements from number `linear` on one run may have: those of one group of drawn numbers.
std::int64_t longest_run(const FusedPlan& plan, std::int64_t linear) {
  constexpr auto kGroup = static_cast<std::int64_t>(kPhiloxGroup);
  return plan.generated.empty() ? kGroup : kGroup - linear % kGroup;
}

/// `to` gets `bytes` bytes: the first `period` of `from`, over and over.
void repeat_bytes(const std::byte* from, std::size_t period, std::size_t bytes, std::byte* to) {
  std::memcpy(to, from, period);
  for (std::size_t done = period; done < bytes; done *= 2) {
    std::memcpy(to + done, to, std::min(done, bytes - done));
  }
}

void draw(const GeneratedOperand& operand, std::byte* const* slots, std::int64_t group,
          std::uint32_t* words) {
  const auto key = [&](std::uint16_t slot) {
    std::uint32_t value;
    std::memcpy(&value, slots[slot], sizeof value);
    return value;
  };
  tile_machine().philox_group(static_cast<std::uint32_t>(group), key(operand.key0),
                              key(operand.key1), operand.stream, words);
}

}  // namespace

FusedBody::FusedBody(const KernelSpec& spec, int num_threads, MachineCode machine_code,
                     bool keep_rows)
    : plan_(plan_fused(spec, compiles(spec, machine_code, keep_rows))),
      lanes_(static_cast<std::int64_t>(chain_machine().block_lanes)),
      layout_(spec, plan_, lanes_, keep_rows) {
  for (std::size_t i = 0; i < layout_.num_operands; ++i) {
    const bool is_direct = layout_.access[i] == Access::Direct;
    const bool is_placed = i < plan_.num_inputs && layout_.uniform[i];
    if (!is_placed) (is_direct ? direct_ : buffered_).push_back(i);
  }
  lay_out_scratch();
  choose_parts(num_threads);
  fill_constants();
  if (plan_.chain.program.body.empty()) return;
  // Groups of drawn numbers cut rows anywhere.
  const bool is_even =
      plan_.generated.empty() || layout_.rows == 1 || layout_.row_length % kStreamedVector == 0;
  streams_ = !keep_rows && is_even && layout_.is_better_past_the_caches();
  plan_.chain.moves = moving_slots(plan_, layout_);
  compiled_ = compile_chain(
      std::move(plan_.chain), streams_,
      machine_code == MachineCode::Always256 ? RegisterWidth::Bits256 : RegisterWidth::Bits512);
  plan_.chain = {};
  // Machine code goes from row to row by itself.
  if (compiled_ != nullptr) row_steps_ = layout_.row_steps();
  if (keep_rows) direct_parts_ = DirectParts::make(plan_, layout_, compiled_);
}

void FusedBody::run(std::byte* const* operands, std::byte* scratch) const {
  if (num_units_ == 0) return;
  parallel_for(num_parts_, num_parts_, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      run_part(operands, scratch + part_bytes_ * static_cast<std::size_t>(part),
               num_units_ * part / num_parts_, num_units_ * (part + 1) / num_parts_);
    }
  });
}

void FusedBody::run_matrix_part(std::byte* const* operands, std::byte* scratch,
                                const MatrixPart& matrix) const {
  if (direct_parts_ && DirectParts::takes(matrix.columns))
    return direct_parts_->run(operands, matrix);
  const Part part = prepare(operands, scratch);
  const bool whole = layout_.merges_pieces && !part.copies_inputs;
  const std::int64_t end = matrix.column + matrix.columns;
  const std::int64_t step = whole ? matrix.columns : static_cast<std::int64_t>(kPhiloxGroup);
  std::int64_t row = matrix.row;
  go_to_row(part, row);
  for (std::int64_t left = matrix.rows, rows = 1; left > 0; left -= rows, row += rows) {
    rows = whole && matrix.columns % kChainRowLanes == 0 ? rows_at_once(part, left) : 1;
    if (rows > 1) {
      run_rows(part, rows, matrix.column, matrix.columns);
    } else {
      for (std::int64_t at = matrix.column; at < end; at += step) {
        run_run(part, row, at, std::min(step, end - at));
      }
    }
    if (left > rows) go_on(part, rows);
  }
}

std::string FusedBody::explain() const {
  std::string code;
  if (compiled_ != nullptr) {
    code = str_cat(compiled_->code_bytes(), " bytes of machine code on ",
                   compiled_->width() == RegisterWidth::Bits512 ? 512 : 256, "-bit registers, ");
    const std::size_t count = plan_.divisors.size();
    if (count == 1) code += "1 divisor with a reciprocal, ";
    if (count > 1) code += str_cat(count, " divisors with reciprocals, ");
  }
  std::string text =
      str_cat("Fused: ", chain_machine().target, ", blocks of ", lanes_, " lanes, ",
              plan_.num_chain_ops, " chain ops and ", plan_.num_tile_ops, " tile ops per block, ",
              plan_.num_tiles, " temporary blocks, ", code, num_parts_, " threads; ", layout_.rows,
              " rows of ", layout_.row_length, "; operands");
  for (Access access : layout_.access) {
    text += access == Access::Direct     ? " direct"
            : access == Access::Splat    ? " splat"
            : access == Access::Repeated ? " repeated"
            : access == Access::Gathered ? " gathered"
                                         : " computed";
  }
  return text + "\n" + plan_.listing;
}

void FusedBody::lay_out_scratch() {
  std::size_t size = 0;
  const auto take = [&](std::size_t bytes) {
    const std::size_t at = size;
    size += aligned(bytes);
    return at;
  };
  const auto block = static_cast<std::size_t>(lanes_) * 8;
  take((plan_.num_slots() + kSlotGroup) * sizeof(std::byte*));
  steps_offset_ = take(in_groups(moving()) * sizeof(std::int64_t));
  rows_offset_ = take(layout_.num_operands * sizeof(std::byte*));
  indices_offset_ = take(layout_.iteration.shape.size() * sizeof(std::int64_t));
  group_offset_ = take(sizeof(std::int64_t));
  repeated_offset_ = take(layout_.num_operands * sizeof(const std::byte*));
  tiles_offset_ = take(plan_.num_tiles * block);
  for (std::size_t i = 0; i < layout_.num_operands; ++i) {
    const bool whole_piece = layout_.access[i] == Access::Gathered ||
                             layout_.access[i] == Access::Computed || in_hazard(plan_, i);
    // The last block of a row reads on behind what is repeated.
    const std::int64_t elements = layout_.access[i] == Access::Repeated
                                      ? layout_.row_length + lanes_
                                  : whole_piece ? static_cast<std::int64_t>(kPhiloxGroup)
                                                : lanes_;
    buffers_.push_back(take(static_cast<std::size_t>(elements) * layout_.bytes[i]));
  }
  for (std::size_t i = 0; i < plan_.generated.size(); ++i) {
    // The last block of a run reads on behind it.
    buffers_.push_back(
        take((kPhiloxGroup + static_cast<std::size_t>(lanes_)) * sizeof(std::uint32_t)));
  }
  part_bytes_ = size;
}

void FusedBody::choose_parts(int num_threads) {
  pieces_per_row_ = (layout_.row_length + layout_.piece - 1) / layout_.piece;
  num_units_ = layout_.rows * pieces_per_row_;
  if (layout_.iteration.size() == 0) num_units_ = 0;
  double block_work = 2.0 * static_cast<double>(plan_.num_chain_ops) +
                      25.0 * static_cast<double>(plan_.num_tile_ops);
  for (Access access : layout_.access) {
    const bool moves = access == Access::Direct || access == Access::Repeated;
    block_work += moves ? 3.0 : access == Access::Splat ? 0.0 : 30.0;
  }
  for (const auto& operand : plan_.generated) block_work += operand.is_philox ? 60.0 : 0.0;
  for (const FusedProduct& product : layout_.products) {
    block_work += 2.0 * static_cast<double>(product.shape.depth);
  }
  const double work =
      block_work * static_cast<double>(layout_.iteration.size()) / static_cast<double>(lanes_);
  const auto useful = static_cast<std::int64_t>(work / kThreadWork);
  num_parts_ = std::clamp<std::int64_t>(std::min(useful, num_units_), 1, num_threads);
}

void FusedBody::fill_constants() {
  const auto lanes = static_cast<std::size_t>(lanes_);
  // Words of 64 bytes, so that the blocks are aligned.
  constants_.resize((plan_.constants.size() * lanes * 8 + 63) / 64);
  std::byte* block = reinterpret_cast<std::byte*>(constants_.data());
  for (const auto& [bits, bytes] : plan_.constants) {
    fill_elements(reinterpret_cast<const std::byte*>(&bits), bytes, lanes_, block);
    block += lanes * 8;
  }
}

void FusedBody::run_part(std::byte* const* operands, std::byte* memory, std::int64_t begin,
                         std::int64_t end) const {
  if (begin == end) return;
  Part part = prepare(operands, memory);
  part.streams = streams_ && writes_apart(plan_, layout_, part.operands);
  run_units(part, begin, end, layout_.merges_pieces && !part.copies_inputs);
}

FusedBody::Part FusedBody::prepare(std::byte* const* operands, std::byte* memory) const {
  Part part{operands,
            reinterpret_cast<std::byte**>(memory),
            reinterpret_cast<std::int64_t*>(memory + steps_offset_),
            reinterpret_cast<std::byte**>(memory + rows_offset_),
            reinterpret_cast<std::int64_t*>(memory + indices_offset_),
            memory,
            reinterpret_cast<std::int64_t*>(memory + group_offset_),
            reinterpret_cast<const std::byte**>(memory + repeated_offset_)};
  *part.group = -1;
  const auto block = static_cast<std::size_t>(lanes_) * 8;
  auto* constants = reinterpret_cast<std::byte*>(const_cast<Line*>(constants_.data()));
  for (std::size_t i = 0; i < plan_.constants.size(); ++i) {
    part.slots[plan_.first_constant() + i] = constants + i * block;
  }
  for (std::size_t i = 0; i < plan_.num_tiles; ++i) {
    part.slots[plan_.first_tile() + i] = memory + tiles_offset_ + i * block;
  }
  for (std::size_t i = 0; i < plan_.num_inputs; ++i) {
    if (!layout_.uniform[i]) continue;
    part.slots[i] = memory + buffers_[i];
    fill_elements(operands[layout_.position(i)], layout_.bytes[i], lanes_, part.slots[i]);
  }
  std::fill_n(part.repeated, layout_.num_operands, nullptr);
  if (plan_.prologue.size() > 1) {
    chain_machine().run(plan_.prologue.data(), part.slots, part.steps, 0, 1);
  }
  if (divides_by_products(plan_, part.slots)) part.code = compiled_.get();
  for (std::size_t i = 0; i < layout_.num_operands; ++i) {
    part.copies_inputs = part.copies_inputs || must_copy(part, i);
    part.steps[i] = layout_.access[i] == Access::Splat
                        ? 0
                        : lanes_ * static_cast<std::int64_t>(layout_.bytes[i]);
  }
  for (std::size_t i = layout_.num_operands; i < moving(); ++i) {
    part.steps[i] = lanes_ * static_cast<std::int64_t>(sizeof(std::uint32_t));
  }
  std::fill(part.steps + moving(), part.steps + in_groups(moving()), 0);
  return part;
}

bool FusedBody::must_copy(const Part& part, std::size_t operand) const {
  return std::any_of(plan_.hazards.begin(), plan_.hazards.end(), [&](const auto& hazard) {
    return static_cast<std::size_t>(hazard.first) == operand &&
           layout_.access[operand] == Access::Direct &&
           part.operands[operand] ==
               part.operands[layout_.position(plan_.num_inputs +
                                              static_cast<std::size_t>(hazard.second))];
  });
}

void FusedBody::run_units(const Part& part, std::int64_t begin, std::int64_t end,
                          bool merge) const {
  std::int64_t unit = begin;
  std::int64_t row = begin / pieces_per_row_;
  go_to_row(part, row);
  for (std::int64_t rows = 1; unit < end; go_on(part, rows), row += rows) {
    const std::int64_t piece = unit - row * pieces_per_row_;
    const bool whole = merge && piece == 0 && layout_.row_length % lanes_ == 0;
    rows = whole ? rows_at_once(part, (end - unit) / pieces_per_row_) : 1;
    if (rows > 1) {
      run_rows(part, rows, 0, layout_.row_length);
      unit += rows * pieces_per_row_;
      continue;
    }
    const std::int64_t pieces = std::min(pieces_per_row_ - piece, end - unit);
    const std::int64_t first = piece * layout_.piece;
    const std::int64_t last = std::min(layout_.row_length, (piece + pieces) * layout_.piece);
    for (std::int64_t at = first, count = 0; at < last; at += count) {
      count = merge ? last - at
                    : std::min(longest_run(plan_, row * layout_.row_length + at), last - at);
      run_run(part, row, at, count);
    }
    unit += pieces;
  }
}

void FusedBody::go_to_row(const Part& part, std::int64_t row) const {
  for (std::size_t i = 0; i < layout_.num_operands; ++i) {
    if (layout_.access[i] == Access::Computed) continue;
    part.rows[i] =
        part.operands[layout_.position(i)] + layout_.iteration.offset(i, row * layout_.row_length) *
                                                 static_cast<std::int64_t>(layout_.bytes[i]);
  }
  for (std::size_t d = layout_.outer_dimensions(); d-- > 0;) {
    part.indices[d] = row % layout_.iteration.shape[d];
    row /= layout_.iteration.shape[d];
  }
}

std::int64_t FusedBody::rows_at_once(const Part& part, std::int64_t left) const {
  if (part.code == nullptr || row_steps_.empty()) return 1;
  const std::size_t d = layout_.outer_dimensions() - 1;
  return std::clamp<std::int64_t>(layout_.iteration.shape[d] - part.indices[d], 1,
                                  std::max<std::int64_t>(left, 1));
}

void FusedBody::run_rows(const Part& part, std::int64_t rows, std::int64_t first,
                         std::int64_t count) const {
  place_operands(part, 0, first, count);
  part.code->run({part.slots, count, rows, row_steps_.data(), part.streams});
}

void FusedBody::go_on(const Part& part, std::int64_t rows) const {
  for (std::size_t d = layout_.outer_dimensions(); d-- > 0; rows = 1) {
    const bool wraps = (part.indices[d] += rows) == layout_.iteration.shape[d];
    const std::int64_t moved = wraps ? rows - layout_.iteration.shape[d] : rows;
    for (std::size_t i = 0; i < layout_.num_operands; ++i) {
      if (layout_.access[i] == Access::Computed) continue;
      part.rows[i] +=
          moved * layout_.iteration.strides[i][d] * static_cast<std::int64_t>(layout_.bytes[i]);
    }
    if (!wraps) return;
    part.indices[d] = 0;
  }
}

void FusedBody::run_run(const Part& part, std::int64_t row, std::int64_t first,
                        std::int64_t count) const {
  const std::int64_t linear = row * layout_.row_length + first;
  place_operands(part, linear, first, count);
  if (!plan_.generated.empty()) generate(part, linear, count);
  run_blocks(part, count / lanes_);
  if (count % lanes_ != 0) run_tail(part, count % lanes_);
  for (std::size_t i = plan_.num_inputs; i < layout_.num_operands; ++i) {
    if (layout_.access[i] != Access::Gathered) continue;
    scatter(layout_.iteration, i, layout_.bytes[i], part.memory + buffers_[i], linear, count,
            part.operands[layout_.position(i)]);
  }
}

void FusedBody::run_blocks(const Part& part, std::int64_t blocks) const {
  if (part.code == nullptr) {
    chain_machine().run(plan_.body.data(), part.slots, part.steps, moving(), blocks);
    return;
  }
  part.code->run({.slots = part.slots, .lanes = blocks * lanes_, .streams = part.streams});
  for (std::size_t i = 0; i < moving(); ++i) part.slots[i] += part.steps[i] * blocks;
}

void FusedBody::place_operands(const Part& part, std::int64_t linear, std::int64_t first,
                               std::int64_t count) const {
  for (std::size_t i : direct_) {
    if (part.copies_inputs && must_copy(part, i)) {
      place_in_buffer(part, i, linear, first, count);
    } else {
      part.slots[i] = part.rows[i] + first * static_cast<std::int64_t>(layout_.bytes[i]);
    }
  }
  for (std::size_t i : buffered_) place_in_buffer(part, i, linear, first, count);
}

void FusedBody::place_in_buffer(const Part& part, std::size_t i, std::int64_t linear,
                                std::int64_t first, std::int64_t count) const {
  std::byte* buffer = part.memory + buffers_[i];
  if (layout_.access[i] == Access::Splat) {
    part.slots[i] = buffer;
    fill_elements(part.rows[i], layout_.bytes[i], lanes_, buffer);
  } else if (layout_.access[i] == Access::Repeated) {
    const std::size_t element = layout_.bytes[i];
    if (part.repeated[i] != part.rows[i]) {
      repeat_bytes(part.rows[i], static_cast<std::size_t>(layout_.period) * element,
                   static_cast<std::size_t>(layout_.row_length) * element, buffer);
      part.repeated[i] = part.rows[i];
    }
    part.slots[i] = buffer + first * static_cast<std::int64_t>(element);
  } else if (layout_.access[i] == Access::Computed) {
    part.slots[i] = buffer;
    layout_.product_of(i)->multiply(part.operands, linear, count, reinterpret_cast<float*>(buffer));
  } else {
    part.slots[i] = buffer;
    if (layout_.is_input(i)) {
      gather(layout_.iteration, i, layout_.bytes[i], part.operands[layout_.position(i)], linear,
             count, buffer);
    }
  }
}

void FusedBody::generate(const Part& part, std::int64_t linear, std::int64_t count) const {
  constexpr auto kGroup = static_cast<std::int64_t>(kPhiloxGroup);
  const std::int64_t group = linear / kGroup;
  const bool is_drawn = *part.group == group;
  *part.group = group;
  for (std::size_t i = 0; i < plan_.generated.size(); ++i) {
    const GeneratedOperand& operand = plan_.generated[i];
    auto* words =
        reinterpret_cast<std::uint32_t*>(part.memory + buffers_[layout_.num_operands + i]);
    std::uint32_t* first = words + (operand.is_philox ? linear % kGroup : 0);
    part.slots[plan_.first_generated() + i] = reinterpret_cast<std::byte*>(first);
    if (!operand.is_philox) {
      for (std::int64_t k = 0; k < count; ++k) words[k] = static_cast<std::uint32_t>(linear + k);
    } else if (!is_drawn) {
      draw(operand, part.slots, group, words);
    }
  }
}

void FusedBody::run_tail(const Part& part, std::int64_t lanes) const {
  for (std::size_t i = 0; i < layout_.num_operands; ++i) {
    if (layout_.access[i] != Access::Direct || must_copy(part, i)) continue;
    std::byte* buffer = part.memory + buffers_[i];
    std::byte* memory = part.slots[i];
    part.slots[i] = buffer;
    const std::size_t bytes = static_cast<std::size_t>(lanes) * layout_.bytes[i];
    if (layout_.is_input(i)) {
      std::memcpy(buffer, memory, bytes);
    } else {
      part.steps[i] = memory - buffer;  // where to copy it; the steps are not needed any more
    }
  }
  chain_machine().run(plan_.body.data(), part.slots, part.steps, 0, 1);
  for (std::size_t i = plan_.num_inputs; i < layout_.num_operands; ++i) {
    if (layout_.access[i] != Access::Direct) continue;
    std::byte* buffer = part.memory + buffers_[i];
    std::memcpy(buffer + part.steps[i], buffer, static_cast<std::size_t>(lanes) * layout_.bytes[i]);
    part.steps[i] = lanes_ * static_cast<std::int64_t>(layout_.bytes[i]);
  }
}

}  // namespace pando::cpu
