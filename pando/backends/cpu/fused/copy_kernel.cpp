// Kernels `Copy` and `Fill`.
#include <algorithm>
#include <cstring>

#include "pando/backends/cpu/fused/fused_kernel.hpp"
#include "pando/backends/cpu/fused/iteration.hpp"
#include "pando/backends/cpu/parallel.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

constexpr std::int64_t kTile = 1024;
constexpr std::int64_t kGrainTiles = 16;

class CopyKernel : public Kernel {
 public:
  CopyKernel(const KernelSpec& spec, int num_threads)
      : num_threads_(num_threads),
        count_(num_elements(spec.outputs[0].shape)),
        from_(spec.inputs[0]),
        to_(spec.outputs[0]) {
    internal_check(spec.inputs[0].shape == spec.outputs[0].shape &&
                       spec.inputs[0].dtype == spec.outputs[0].dtype,
                   "a copy needs equal shapes and dtypes");
  }

  void run(std::byte* const* operands, std::byte*) const override {
    const std::int64_t tiles = (count_ + kTile - 1) / kTile;
    parallel_for(num_threads_, tiles, kGrainTiles, [&](std::int64_t begin, std::int64_t end) {
      if (from_.is_linear() && to_.is_linear()) {
        const std::int64_t first = begin * kTile;
        const std::int64_t last = std::min(count_, end * kTile);
        const auto bytes = from_.bytes();
        std::memmove(operands[1] + static_cast<std::size_t>(first) * bytes,
                     operands[0] + static_cast<std::size_t>(first) * bytes,
                     static_cast<std::size_t>(last - first) * bytes);
        return;
      }
      for (std::int64_t tile = begin; tile < end; ++tile) copy_tile(operands, tile * kTile);
    });
  }

  std::string explain() const override { return "strided copy over tiles"; }

 private:
  void copy_tile(std::byte* const* operands, std::int64_t first) const {
    const std::int64_t count = std::min(kTile, count_ - first);
    const auto offset = static_cast<std::size_t>(first) * from_.bytes();
    if (to_.is_linear()) return from_.gather(operands[0], first, count, operands[1] + offset);
    if (from_.is_linear()) return to_.scatter(operands[0] + offset, first, count, operands[1]);
    alignas(64) std::byte tile[kTile * 16];
    from_.gather(operands[0], first, count, tile);
    to_.scatter(tile, first, count, operands[1]);
  }

  int num_threads_;
  std::int64_t count_;
  OperandIteration from_;
  OperandIteration to_;
};

}  // namespace

std::shared_ptr<const Kernel> make_copy_kernel(const KernelSpec& spec, int num_threads) {
  return std::make_shared<CopyKernel>(spec, num_threads);
}

std::shared_ptr<const Kernel> make_fill_kernel(const KernelSpec& spec, int num_threads) {
  KernelSpec fused;
  fused.kind = "Fused";
  fused.outputs = spec.outputs;
  ScalarEmitter emitter(fused.scalar);
  const DType dtype = spec.outputs[0].dtype;
  const double value = spec.attributes.number("value");
  emitter.store(0, emitter.constant(value, lane_of(dtype)), dtype);
  return make_fused_kernel(fused, num_threads);
}

}  // namespace pando::cpu
