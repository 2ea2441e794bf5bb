#include "pando/backends/cpu/fused/fused_kernel.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "pando/backends/cpu/fused/iteration.hpp"
#include "pando/backends/cpu/fused/tile_functions.hpp"
#include "pando/backends/cpu/parallel.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

/// Elements per tile. A multiple of 1024 keeps Philox blocks whole; this many F32 values take 4 KiB,
/// so a handful of live tiles stays in the first-level cache.
constexpr std::int64_t kTile = 1024;
constexpr std::size_t kTileBytes = kTile * 8;
constexpr std::int64_t kGrainTiles = 4;
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
      : spec_(spec),
        num_threads_(num_threads),
        count_(num_elements(spec.outputs.front().shape)) {
    internal_check(spec.inputs.size() + spec.outputs.size() <= kMaxOperands,
                   "a fused kernel has too many operands");
    for (const OperandDesc& desc : spec.inputs) operands_.emplace_back(desc);
    for (const OperandDesc& desc : spec.outputs) operands_.emplace_back(desc);
    find_uniform_values();
    count_uses();
    translate();
  }

  std::string explain() const override {
    return str_cat("fused machine (", simd_target_name(), "): ", steps_.size(),
                   " steps per tile of ", kTile, " elements, ", num_tiles_, " tile buffers, ",
                   uniform_steps_.size(), " steps once, ", super_steps_, " superinstructions");
  }

  void run(std::byte* const* operands, std::byte* scratch) const override {
    (void)scratch;
    if (count_ == 0) return;
    alignas(64) std::array<std::uint64_t, kMaxOperands * 2> uniforms;
    run_uniform(operands, uniforms.data());
    const std::int64_t tiles = (count_ + kTile - 1) / kTile;
    parallel_for(num_threads_, tiles, kGrainTiles, [&](std::int64_t begin, std::int64_t end) {
      thread_local std::vector<std::uint64_t> buffers;
      if (buffers.size() < static_cast<std::size_t>(num_tiles_) * kTile) {
        buffers.resize(static_cast<std::size_t>(num_tiles_) * kTile);
      }
      for (std::int64_t tile = begin; tile < end; ++tile) {
        run_tile(operands, reinterpret_cast<std::byte*>(buffers.data()), uniforms.data(),
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

  void count_uses() {
    uses_.assign(code().size(), 0);
    for (std::size_t i = 0; i < code().size(); ++i) {
      for (ScalarValue v : {code()[i].a, code()[i].b, code()[i].c}) {
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

  void translate() {
    places_.resize(code().size());
    for (std::size_t i = 0; i < code().size(); ++i) {
      const auto v = static_cast<ScalarValue>(i);
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
      case LaneType::F32: put(static_cast<float>(in.immediate)); break;
      case LaneType::F64: put(in.immediate); break;
      case LaneType::I32: put(static_cast<std::int32_t>(in.integer_immediate)); break;
      case LaneType::U32: put(static_cast<std::uint32_t>(in.integer_immediate)); break;
      case LaneType::I64:
      case LaneType::U64: put(in.integer_immediate); break;
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
    steps_.push_back(step);
  }

  /// Stores run last and one may overwrite the memory of an input, so a value that is only loaded and
  /// stored must leave that memory first when there are several stores.
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
      steps_.push_back(spread);
      step.a = spread.out;
      free_tiles_.push_back(spread.out.index);
    }
    if (!target.is_linear()) {
      step.out = {ValuePlace::Kind::Tile, take_tile()};
      step.scatter = operand;
      free_tiles_.push_back(step.out.index);
    }
    steps_.push_back(step);
    release(in.a);
  }

  static int lane_bytes(LaneType lane) {
    return lane == LaneType::F64 || lane == LaneType::I64 || lane == LaneType::U64 ? 8 : 4;
  }

  void translate_arithmetic(ScalarValue v) {
    const Instruction& in = at(v);
    MicroInstruction step;
    fill_operands(step, in);
    // Element i of the result is written after element i of the operands is read, so an operand that
    // dies here may give its tile, unless its elements are narrower.
    const auto narrower = [&](ScalarValue source) {
      return source != kNoValue && lane_bytes(at(source).lane) < lane_bytes(in.lane);
    };
    const bool keep = narrower(in.a) || narrower(in.b) || narrower(in.c);
    const auto release_all = [&] {
      for (ScalarValue source : {in.a, in.b, in.c}) release(source);
    };
    if (!keep) release_all();
    step.out = place(v) = {ValuePlace::Kind::Tile, take_tile()};
    if (keep) release_all();
    steps_.push_back(step);
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

  void run_tile(std::byte* const* operands, std::byte* tiles, std::uint64_t* uniforms,
                std::int64_t first, std::int64_t count) const {
    const auto address = [&](const ValuePlace& p) -> std::byte* {
      switch (p.kind) {
        case ValuePlace::Kind::Tile: return tiles + static_cast<std::size_t>(p.index) * kTileBytes;
        case ValuePlace::Kind::Memory:
          return operands[p.index] + static_cast<std::size_t>(first) *
                                         operands_[static_cast<std::size_t>(p.index)].bytes();
        case ValuePlace::Kind::Uniform: return reinterpret_cast<std::byte*>(uniforms + p.index);
        case ValuePlace::Kind::None: break;
      }
      return nullptr;
    };
    TileArguments args = {};
    args.count = static_cast<std::size_t>(count);
    args.first = static_cast<std::uint64_t>(first);
    alignas(64) std::byte gathered[kTileBytes];
    for (const MicroInstruction& step : steps_) {
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
  int super_steps_ = 0;
  std::vector<std::pair<int, std::uint64_t>> constants_;
  std::vector<MicroInstruction> uniform_steps_;
  std::vector<MicroInstruction> steps_;
};

}  // namespace

std::shared_ptr<const Kernel> make_fused_kernel(const KernelSpec& spec, int num_threads) {
  return std::make_shared<FusedKernel>(spec, num_threads);
}

}  // namespace pando::cpu
