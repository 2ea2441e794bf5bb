#include "pando/backends/cpu/fused/fused_kernel.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "pando/backends/cpu/fused/iteration.hpp"
#include "pando/backends/cpu/fused/tile_functions.hpp"
#include "pando/backends/cpu/parallel.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

/// Elements per tile: this many F32 values take 2 KiB, so a dozen live tiles and the memory that
/// streams past them stay in the first-level cache.
constexpr std::int64_t kTile = 512;
/// Tiles must not start at equal offsets within 4 KiB: they would fall into the same cache sets,
/// and loads would wait for unrelated stores.
constexpr std::size_t kTilePadding = 192;
constexpr std::size_t kTileBytes = kTile * 8 + kTilePadding;
constexpr std::int64_t kGrainTiles = 8;
constexpr std::size_t kMaxOperands = 64;
constexpr std::size_t kMaxTiles = 96;

bool is_direct(DType dtype) {
  return dtype == DType::Float32 || dtype == DType::Int32 || dtype == DType::UInt32 ||
         dtype == DType::Float64 || dtype == DType::Int64 || dtype == DType::UInt64;
}

/// Where the value of an instruction is found while a tile runs.
struct ValuePlace {
  enum class Kind : std::uint8_t { None, Tile, Memory, Uniform } kind = Kind::None;
  int index = 0;  // tile buffer, kernel operand, or uniform slot
};

/// One step per tile.
struct MicroInstruction {
  TileFunction function = nullptr;
  ValuePlace out, out2, a, b, c;
  float s0 = 0, s1 = 0;
  std::int32_t stream = 0;
  int gather = -1;   // operand to collect into `out` before (strided or broadcast load)
  int scatter = -1;  // operand to spread `out` to afterwards (strided store)
};

class FusedKernel : public Kernel {
 public:
  FusedKernel(const KernelSpec& spec, int num_threads)
      : spec_(spec), num_threads_(num_threads), count_(num_elements(spec.outputs.front().shape)) {
    internal_check(spec.inputs.size() + spec.outputs.size() <= kMaxOperands,
                   "a fused kernel has too many operands");
    for (const OperandDesc& desc : spec.inputs) operands_.emplace_back(desc);
    for (const OperandDesc& desc : spec.outputs) operands_.emplace_back(desc);
    find_uniform_values();
    find_patterns();
    translate(safe_, false);
    translate(fast_, true);
  }

  std::string explain() const override {
    return str_cat("fused machine (", simd_target_name(), "): ", fast_.size(),
                   " steps per tile of ", kTile, " elements, ", num_tiles_, " tile buffers, ",
                   uniform_steps_.size(), " steps once, ", patterns_.size(), " superinstructions");
  }

  void run(std::byte* const* operands, std::byte* scratch) const override {
    (void)scratch;
    if (count_ == 0) return;
    alignas(64) std::array<std::uint64_t, kMaxOperands * 2> uniforms;
    run_uniform(operands, uniforms.data());
    const bool overlaps =
        std::any_of(early_stores_.begin(), early_stores_.end(),
                    [&](const auto& e) { return operands[e.first] == operands[e.second]; });
    const std::vector<MicroInstruction>& steps = overlaps ? safe_ : fast_;
    const std::int64_t tiles = (count_ + kTile - 1) / kTile;
    parallel_for(num_threads_, tiles, kGrainTiles, [&](std::int64_t begin, std::int64_t end) {
      thread_local std::vector<std::uint64_t> buffers;
      const std::size_t words = static_cast<std::size_t>(num_tiles_) * kTileBytes / 8;
      if (buffers.size() < words) buffers.resize(words);
      for (std::int64_t tile = begin; tile < end; ++tile) {
        run_tile(steps, operands, reinterpret_cast<std::byte*>(buffers.data()), uniforms.data(),
                 tile * kTile, std::min(kTile, count_ - tile * kTile));
      }
    });
  }

 private:
  using Instruction = ScalarInstruction;
  const std::vector<Instruction>& code() const { return spec_.scalar.instructions; }
  const Instruction& at(ScalarValue v) const { return code()[static_cast<std::size_t>(v)]; }
  ValuePlace& place(ScalarValue v) { return places_[static_cast<std::size_t>(v)]; }
  bool uniform(ScalarValue v) const { return uniform_[static_cast<std::size_t>(v)]; }
  int& uses(ScalarValue v) { return uses_[static_cast<std::size_t>(v)]; }
  int output_operand(int index) const { return static_cast<int>(spec_.inputs.size()) + index; }

  /// Values that are the same for every element are computed once per run.
  void find_uniform_values() {
    uniform_.resize(code().size());
    for (std::size_t i = 0; i < code().size(); ++i) {
      const Instruction& in = code()[i];
      bool same = in.op != ScalarOp::Iota && in.op != ScalarOp::Store;
      if (in.op == ScalarOp::Load) {
        same = operands_[static_cast<std::size_t>(in.index)].is_scalar();
      }
      for (ScalarValue v : {in.a, in.b, in.c}) same = same && (v == kNoValue || uniform(v));
      uniform_[i] = same;
    }
  }

  struct Pattern {
    SuperOp op;
    ScalarValue a = kNoValue, b = kNoValue;
    float s0 = 0, s1 = 0;
    int memory_in = -1;   // EmaHalf: input operand that is read as float16
    int memory_out = -1;  // EmaHalf: output operand that is written as float16
  };

  /// The value's constant, if it is a float32 one.
  std::optional<float> constant(ScalarValue v) const {
    if (v == kNoValue || at(v).op != ScalarOp::Constant || at(v).lane != LaneType::F32) return {};
    return static_cast<float>(at(v).immediate);
  }
  bool is(ScalarValue v, ScalarOp op) const {
    return v != kNoValue && at(v).op == op && at(v).lane == LaneType::F32;
  }
  bool is_half_round(ScalarValue v) const {
    return is(v, ScalarOp::Round) && at(v).dtype == DType::Float16;
  }
  /// `constant * value`: the two parts.
  std::optional<std::pair<float, ScalarValue>> scaled(ScalarValue v) const {
    if (!is(v, ScalarOp::Mul)) return {};
    if (const auto c = constant(at(v).a); c && !uniform(at(v).b)) return std::pair(*c, at(v).b);
    if (const auto c = constant(at(v).b); c && !uniform(at(v).a)) return std::pair(*c, at(v).a);
    return {};
  }

  std::vector<int> use_counts() const {
    std::vector<int> counts(code().size(), 0);
    for (const Instruction& in : code()) {
      for (ScalarValue v : {in.a, in.b, in.c}) {
        if (v != kNoValue) ++counts[static_cast<std::size_t>(v)];
      }
    }
    return counts;
  }

  /// Marks the inner values of a pattern, if nothing else uses them.
  bool absorb(const std::vector<int>& counts, std::initializer_list<ScalarValue> inner) {
    for (ScalarValue v : inner) {
      if (counts[static_cast<std::size_t>(v)] != 1) return false;
    }
    for (ScalarValue v : inner) absorbed_[static_cast<std::size_t>(v)] = true;
    return true;
  }

  /// Finds the sequences that have a superinstruction: each replaces several passes over tiles by
  /// one, with the same rounding after every step.
  void find_patterns() {
    absorbed_.assign(code().size(), false);
    const std::vector<int> counts = use_counts();
    for (std::size_t i = code().size(); i-- > 0;) {
      const auto v = static_cast<ScalarValue>(i);
      if (absorbed_[i] || uniform(v)) continue;
      if (find_ema_half(v, counts) || find_ema_square(v, counts)) continue;
      find_div_sqrt(v, counts);
    }
  }

  bool find_ema_half(ScalarValue v, const std::vector<int>& counts) {
    if (!is_half_round(v) || !is(at(v).a, ScalarOp::Add)) return false;
    const Instruction& sum = at(at(v).a);
    for (const auto& [kept, added] : {std::pair(sum.a, sum.b), std::pair(sum.b, sum.a)}) {
      if (!is_half_round(kept) || !is_half_round(added)) continue;
      const auto old_part = scaled(at(kept).a);
      const auto new_part = scaled(at(added).a);
      if (!old_part || !new_part || !is_half_round(new_part->second)) continue;
      const Instruction& old_value = at(old_part->second);
      if (old_value.op != ScalarOp::Load || old_value.dtype != DType::Float16 ||
          !operands_[static_cast<std::size_t>(old_value.index)].is_linear()) {
        continue;
      }
      const auto store = std::find_if(code().begin(), code().end(), [&](const Instruction& in) {
        return in.op == ScalarOp::Store && in.a == v && in.dtype == DType::Float16 &&
               operands_[static_cast<std::size_t>(output_operand(in.index))].is_linear();
      });
      const ScalarValue g = at(new_part->second).a;
      if (store == code().end() || uniform(g)) continue;
      if (!absorb(counts, {at(v).a, kept, added, at(kept).a, at(added).a, new_part->second,
                           old_part->second})) {
        continue;
      }
      absorbed_[static_cast<std::size_t>(store - code().begin())] = true;
      patterns_[v] = {SuperOp::EmaHalf,
                      kNoValue,
                      g,
                      old_part->first,
                      new_part->first,
                      old_value.index,
                      output_operand(store->index)};
      return true;
    }
    return false;
  }

  bool find_ema_square(ScalarValue v, const std::vector<int>& counts) {
    if (!is(v, ScalarOp::Add)) return false;
    const Instruction& sum = at(v);
    for (const auto& [kept, added] : {std::pair(sum.a, sum.b), std::pair(sum.b, sum.a)}) {
      const auto old_part = scaled(kept);
      if (!old_part || !is(added, ScalarOp::Mul)) continue;
      const auto scaled_x = scaled(at(added).a);
      if (!scaled_x || scaled_x->second != at(added).b) continue;
      if (!absorb(counts, {kept, added, at(added).a})) continue;
      patterns_[v] = {SuperOp::EmaSquare, old_part->second, scaled_x->second, old_part->first,
                      scaled_x->first};
      return true;
    }
    return false;
  }

  bool find_div_sqrt(ScalarValue v, const std::vector<int>& counts) {
    const bool half = is_half_round(v);
    const ScalarValue quotient = half ? at(v).a : v;
    if (!is(quotient, ScalarOp::Div) || uniform(at(quotient).a)) return false;
    const ScalarValue sum = at(quotient).b;
    if (!is(sum, ScalarOp::Add)) return false;
    for (const auto& [root, epsilon] :
         {std::pair(at(sum).a, at(sum).b), std::pair(at(sum).b, at(sum).a)}) {
      const auto added = constant(epsilon);
      if (!added || !is(root, ScalarOp::Sqrt) || uniform(root)) continue;
      const ScalarValue radicand = at(root).a;
      const bool free = half ? absorb(counts, {quotient, sum, root}) : absorb(counts, {sum, root});
      if (!free) continue;
      patterns_[v] = {half ? SuperOp::DivSqrtAddHalf : SuperOp::DivSqrtAdd, at(quotient).a,
                      radicand, *added};
      return true;
    }
    return false;
  }

  /// Operands of an instruction after pattern matching.
  std::array<ScalarValue, 3> operands_of(ScalarValue v) const {
    const auto pattern = patterns_.find(v);
    if (pattern != patterns_.end()) return {pattern->second.a, pattern->second.b, kNoValue};
    return {at(v).a, at(v).b, at(v).c};
  }

  void count_uses() {
    uses_.assign(code().size(), 0);
    for (std::size_t i = 0; i < code().size(); ++i) {
      if (absorbed_[i]) continue;
      for (ScalarValue v : operands_of(static_cast<ScalarValue>(i))) {
        if (v != kNoValue) ++uses(v);
      }
    }
  }

  int take_tile() {
    if (!free_tiles_.empty()) {
      const int tile = free_tiles_.back();
      free_tiles_.pop_back();
      return tile;
    }
    internal_check(num_tiles_ < static_cast<int>(kMaxTiles), "a fused kernel needs too many tiles");
    return num_tiles_++;
  }

  void release(ScalarValue v) {
    if (v == kNoValue || --uses(v) > 0) return;
    if (place(v).kind == ValuePlace::Kind::Tile) free_tiles_.push_back(place(v).index);
  }

  /// `early`: results that are stored may be written to their memory as soon as they are known;
  /// otherwise all stores come after all reads.
  void translate(std::vector<MicroInstruction>& steps, bool early) {
    count_uses();
    places_.assign(code().size(), {});
    free_tiles_.clear();
    uniform_steps_.clear();
    constants_.clear();
    num_uniforms_ = 0;
    steps_ = &steps;
    early_ = early;
    for (std::size_t i = 0; i < code().size(); ++i) {
      const auto v = static_cast<ScalarValue>(i);
      if (absorbed_[i]) continue;
      if (uniform(v)) {
        translate_uniform(v);
      } else if (at(v).op == ScalarOp::Load) {
        translate_load(v);
      } else if (at(v).op == ScalarOp::Store) {
        translate_store(v);
      } else {
        translate_arithmetic(v);
      }
    }
  }

  /// The F32 or other wide output that this value can be computed into, or -1. Remembers the inputs
  /// that are still read from memory afterwards: they must not be that output's memory.
  int early_output(ScalarValue v) {
    if (!early_) return -1;
    for (std::size_t i = 0; i < code().size(); ++i) {
      const Instruction& in = code()[i];
      if (in.op != ScalarOp::Store || in.a != v || absorbed_[i]) continue;
      const int operand = output_operand(in.index);
      if (!is_direct(in.dtype) || lane_of(in.dtype) != at(v).lane ||
          !operands_[static_cast<std::size_t>(operand)].is_linear()) {
        continue;
      }
      note_later_reads(v, operand);
      return operand;
    }
    return -1;
  }

  void note_later_reads(ScalarValue v, int output) {
    for (std::size_t i = static_cast<std::size_t>(v) + 1; i < code().size(); ++i) {
      if (absorbed_[i]) continue;
      const auto later = static_cast<ScalarValue>(i);
      if (code()[i].op == ScalarOp::Load && !uniform(later)) {
        early_stores_.emplace_back(output, code()[i].index);
      }
      for (ScalarValue source : operands_of(later)) {
        if (source != kNoValue && place(source).kind == ValuePlace::Kind::Memory &&
            place(source).index < static_cast<int>(spec_.inputs.size())) {
          early_stores_.emplace_back(output, place(source).index);
        }
      }
      const auto pattern = patterns_.find(later);
      if (pattern != patterns_.end() && pattern->second.memory_in >= 0) {
        early_stores_.emplace_back(output, pattern->second.memory_in);
      }
    }
  }

  void translate_uniform(ScalarValue v) {
    const Instruction& in = at(v);
    place(v) = {ValuePlace::Kind::Uniform, num_uniforms_++};
    internal_check(num_uniforms_ <= static_cast<int>(kMaxOperands * 2),
                   "a fused kernel has too many scalars");
    if (in.op == ScalarOp::Constant) {
      constants_.emplace_back(place(v).index, constant_bits(in));
      return;
    }
    MicroInstruction step;
    step.out = place(v);
    if (in.op == ScalarOp::Load) {
      step.function = load_function(in.dtype);
      step.a = {ValuePlace::Kind::Memory, in.index};
    } else {
      fill_operands(step, in);
    }
    uniform_steps_.push_back(step);
  }

  static std::uint64_t constant_bits(const Instruction& in) {
    std::uint64_t bits = 0;
    const auto put = [&](auto value) { std::memcpy(&bits, &value, sizeof value); };
    switch (in.lane) {
      case LaneType::F32:
        put(static_cast<float>(in.immediate));
        break;
      case LaneType::F64:
        put(in.immediate);
        break;
      case LaneType::I32:
        put(static_cast<std::int32_t>(in.integer_immediate));
        break;
      case LaneType::U32:
        put(static_cast<std::uint32_t>(in.integer_immediate));
        break;
      case LaneType::I64:
      case LaneType::U64:
        put(in.integer_immediate);
        break;
    }
    return bits;
  }

  void fill_operands(MicroInstruction& step, const Instruction& in) {
    SplatMask splats = 0;
    const auto operand = [&](ScalarValue v, SplatMask bit) {
      if (v == kNoValue) return ValuePlace{};
      if (uniform(v)) splats |= bit;
      return place(v);
    };
    step.a = operand(in.a, 1);
    step.b = operand(in.b, 2);
    step.c = operand(in.c, 4);
    step.stream = in.index;
    if (in.op == ScalarOp::Convert) {
      step.function = convert_function(at(in.a).lane, in.lane);
    } else if (in.op == ScalarOp::Round) {
      step.function = round_function(in.dtype);
    } else {
      const bool by_operand = in.op != ScalarOp::Select && in.a != kNoValue;
      step.function = tile_function(in.op, by_operand ? at(in.a).lane : in.lane, splats);
    }
  }

  void translate_load(ScalarValue v) {
    const Instruction& in = at(v);
    const OperandIteration& operand = operands_[static_cast<std::size_t>(in.index)];
    if (operand.is_linear() && is_direct(in.dtype) && !copied_among_stores(v)) {
      place(v) = {ValuePlace::Kind::Memory, in.index};
      return;
    }
    MicroInstruction step;
    step.out = place(v) = {ValuePlace::Kind::Tile, take_tile()};
    step.a = {ValuePlace::Kind::Memory, in.index};
    if (!operand.is_linear()) step.gather = in.index;
    if (operand.is_linear() || !is_direct(in.dtype)) step.function = load_function(in.dtype);
    steps_->push_back(step);
  }

  /// Stores run last and one may overwrite the memory of an input, so a value that is only loaded
  /// and stored must leave that memory first when there are several stores.
  bool copied_among_stores(ScalarValue v) const {
    int stores = 0;
    bool copied = false;
    for (const Instruction& in : code()) {
      if (in.op != ScalarOp::Store) continue;
      ++stores;
      copied = copied || in.a == v;
    }
    return copied && stores > 1;
  }

  void translate_store(ScalarValue v) {
    const Instruction& in = at(v);
    const int operand = output_operand(in.index);
    const OperandIteration& target = operands_[static_cast<std::size_t>(operand)];
    if (place(in.a).kind == ValuePlace::Kind::Memory && place(in.a).index == operand) {
      release(in.a);  // computed in place
      return;
    }
    MicroInstruction step;
    step.function = store_function(in.dtype, at(in.a).lane);
    step.a = place(in.a);
    step.out = {ValuePlace::Kind::Memory, operand};
    if (uniform(in.a)) {
      // A scalar result stored to many elements: spread it over a tile first.
      MicroInstruction spread;
      spread.out = {ValuePlace::Kind::Tile, take_tile()};
      spread.a = place(in.a);
      spread.b = place(in.a);
      const bool wide = lane_bytes(at(in.a).lane) == 8;
      spread.function = tile_function(ScalarOp::Or, wide ? LaneType::U64 : LaneType::U32, 3);
      steps_->push_back(spread);
      step.a = spread.out;
      free_tiles_.push_back(spread.out.index);
    }
    if (!target.is_linear()) {
      step.out = {ValuePlace::Kind::Tile, take_tile()};
      step.scatter = operand;
      free_tiles_.push_back(step.out.index);
    }
    steps_->push_back(step);
    release(in.a);
  }

  static int lane_bytes(LaneType lane) {
    return lane == LaneType::F64 || lane == LaneType::I64 || lane == LaneType::U64 ? 8 : 4;
  }

  void fill_pattern(MicroInstruction& step, const Pattern& pattern) {
    step.function = super_function(pattern.op);
    if (pattern.a != kNoValue) step.a = place(pattern.a);
    step.b = place(pattern.b);
    step.s0 = pattern.s0;
    step.s1 = pattern.s1;
    if (pattern.memory_in >= 0) step.a = {ValuePlace::Kind::Memory, pattern.memory_in};
    if (pattern.memory_out >= 0) step.out2 = {ValuePlace::Kind::Memory, pattern.memory_out};
  }

  void translate_arithmetic(ScalarValue v) {
    const Instruction& in = at(v);
    MicroInstruction step;
    const auto pattern = patterns_.find(v);
    if (pattern != patterns_.end()) {
      fill_pattern(step, pattern->second);
      if (pattern->second.memory_out >= 0) note_later_reads(v, pattern->second.memory_out);
    } else {
      fill_operands(step, in);
    }
    const std::array<ScalarValue, 3> sources = operands_of(v);
    // Element i of the result is written after element i of the operands is read, so an operand
    // that dies here may give its tile, unless its elements are narrower.
    const auto narrower = [&](ScalarValue source) {
      return source != kNoValue && lane_bytes(at(source).lane) < lane_bytes(in.lane);
    };
    const bool keep = std::any_of(sources.begin(), sources.end(), narrower);
    const auto release_all = [&] {
      for (ScalarValue source : sources) release(source);
    };
    if (!keep) release_all();
    const int memory = early_output(v);
    place(v) = memory >= 0 ? ValuePlace{ValuePlace::Kind::Memory, memory}
                           : ValuePlace{ValuePlace::Kind::Tile, take_tile()};
    step.out = place(v);
    if (keep) release_all();
    steps_->push_back(step);
  }

  void run_uniform(std::byte* const* operands, std::uint64_t* uniforms) const {
    for (const auto& [slot, bits] : constants_) uniforms[slot] = bits;
    for (const MicroInstruction& step : uniform_steps_) {
      TileArguments args = {};
      const auto address = [&](const ValuePlace& p) -> void* {
        if (p.kind == ValuePlace::Kind::Memory) return operands[p.index];
        if (p.kind == ValuePlace::Kind::Uniform) return uniforms + p.index;
        return nullptr;
      };
      args.a = address(step.a);
      args.b = address(step.b);
      args.c = address(step.c);
      args.out = address(step.out);
      args.count = 1;
      args.index = step.stream;
      step.function(args);
    }
  }

  void run_tile(const std::vector<MicroInstruction>& steps, std::byte* const* operands,
                std::byte* tiles, std::uint64_t* uniforms, std::int64_t first,
                std::int64_t count) const {
    const auto address = [&](const ValuePlace& p) -> std::byte* {
      switch (p.kind) {
        case ValuePlace::Kind::Tile:
          return tiles + static_cast<std::size_t>(p.index) * kTileBytes;
        case ValuePlace::Kind::Memory:
          return operands[p.index] + static_cast<std::size_t>(first) *
                                         operands_[static_cast<std::size_t>(p.index)].bytes();
        case ValuePlace::Kind::Uniform:
          return reinterpret_cast<std::byte*>(uniforms + p.index);
        case ValuePlace::Kind::None:
          break;
      }
      return nullptr;
    };
    TileArguments args = {};
    args.count = static_cast<std::size_t>(count);
    args.first = static_cast<std::uint64_t>(first);
    alignas(64) std::byte gathered[kTileBytes];
    for (const MicroInstruction& step : steps) {
      args.out = address(step.out);
      args.out2 = address(step.out2);
      args.a = address(step.a);
      args.b = address(step.b);
      args.c = address(step.c);
      args.s0 = step.s0;
      args.s1 = step.s1;
      args.index = step.stream;
      if (step.gather >= 0) {
        // Wide dtypes need no conversion: straight into the tile.
        std::byte* to = step.function == nullptr ? static_cast<std::byte*>(args.out) : gathered;
        operands_[static_cast<std::size_t>(step.gather)].gather(operands[step.gather], first, count,
                                                                to);
        args.a = gathered;
      }
      if (step.function != nullptr) step.function(args);
      if (step.scatter >= 0) {
        operands_[static_cast<std::size_t>(step.scatter)].scatter(
            static_cast<const std::byte*>(args.out), first, count, operands[step.scatter]);
      }
    }
  }

  KernelSpec spec_;
  int num_threads_;
  std::int64_t count_;
  std::vector<OperandIteration> operands_;
  std::vector<bool> uniform_;
  std::vector<int> uses_;
  std::vector<ValuePlace> places_;
  std::vector<int> free_tiles_;
  int num_tiles_ = 0;
  int num_uniforms_ = 0;
  std::vector<bool> absorbed_;
  std::map<ScalarValue, Pattern> patterns_;
  // (output, input): the output is written while the input may still be read.
  std::vector<std::pair<int, int>> early_stores_;
  bool early_ = false;
  std::vector<std::pair<int, std::uint64_t>> constants_;
  std::vector<MicroInstruction> uniform_steps_;
  std::vector<MicroInstruction> safe_;  // for kernels where an output overwrites a later input
  std::vector<MicroInstruction> fast_;
  std::vector<MicroInstruction>* steps_ = nullptr;  // being translated
};

}  // namespace

std::shared_ptr<const Kernel> make_fused_kernel(const KernelSpec& spec, int num_threads) {
  return std::make_shared<FusedKernel>(spec, num_threads);
}

}  // namespace pando::cpu
