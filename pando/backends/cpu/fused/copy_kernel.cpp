// Kinds `Copy` and `Fill`.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "pando/backends/cpu/fused/fused_kernel.hpp"
#include "pando/backends/cpu/fused/iteration.hpp"
#include "pando/backends/cpu/fused/transpose_block.hpp"
#include "pando/backends/cpu/parallel.hpp"
#include "pando/backends/cpu/row_copy.hpp"
#include "pando/base/error.hpp"
#include "pando/base/half.hpp"

namespace pando::cpu {
namespace {

/// Bytes per thread below which one thread is faster.
constexpr std::int64_t kThreadBytes = 1 << 16;

class CopyKernel : public HostKernel {
 public:
  CopyKernel(const KernelSpec& spec, int num_threads) : num_threads_(num_threads) {
    internal_check(spec.inputs.size() == 1 && spec.outputs.size() == 1 &&
                       spec.inputs[0].dtype == spec.outputs[0].dtype,
                   "Copy takes one input and one output of the same dtype");
    bytes_ = dtype_bytes(spec.outputs[0].dtype);
    iteration_ = collapse({&spec.inputs[0], &spec.outputs[0]}, Merging::AnyOrder);
    const Strides& from = iteration_.strides[0];
    const Strides& to = iteration_.strides[1];
    for (std::size_t d = 0; d + 1 < from.size() && bytes_ <= 8; ++d) {
      // A dimension along which the source is contiguous while the target is along another.
      if (from[d] == 1 && from.back() != 1 && to.back() == 1) cross_ = static_cast<int>(d);
    }
    outer_ = 1;
    for (std::size_t d = 0; d + 1 < iteration_.shape.size(); ++d) {
      if (static_cast<int>(d) != cross_) outer_ *= iteration_.shape[d];
    }
  }

  void run(std::byte* const* operands, std::byte*) const override {
    if (iteration_.size() == 0) return;
    const std::byte* from = operands[0];
    std::byte* to = operands[1];
    if (cross_ >= 0) {
      return with_element(bytes_, [&](auto element) { transpose<decltype(element)>(from, to); });
    }
    copy_in_parallel(from, to);
  }

  std::string explain() const override {
    return str_cat("Copy: ", cross_ >= 0 ? "blocked transpose" : "rows", ", dimensions ",
                   shape_text(iteration_.shape), " of ", bytes_, " bytes");
  }

 private:
  void copy_in_parallel(const std::byte* from, std::byte* to) const {
    const auto bytes = static_cast<std::int64_t>(bytes_);
    parallel_for(num_threads_, iteration_.size(), kThreadBytes / bytes,
                 [&](std::int64_t begin, std::int64_t end) {
                   with_element(bytes_, [&](auto element) {
                     copy_elements<decltype(element)>(from, to, begin, end);
                   });
                 });
  }

  /// Elements [begin, end). Rows of the last outer dimension follow each other by its strides, so
  /// that only the first of them has its place computed from its number.
  template <class T>
  void copy_elements(const std::byte* from, std::byte* to, std::int64_t begin,
                     std::int64_t end) const {
    const std::int64_t inner = iteration_.inner();
    const bool has_rows = iteration_.shape.size() > 1;
    const std::size_t rows = has_rows ? iteration_.shape.size() - 2 : 0;
    const std::int64_t block = has_rows ? inner * iteration_.shape[rows] : inner;
    const std::int64_t in_row = has_rows ? iteration_.strides[0][rows] : 0;
    const std::int64_t out_row = has_rows ? iteration_.strides[1][rows] : 0;
    const bool has_contiguous_rows =
        iteration_.strides[0].back() == 1 && iteration_.strides[1].back() == 1;
    constexpr auto bytes = static_cast<std::int64_t>(sizeof(T));
    while (begin < end) {
      const std::int64_t stop = std::min(end, begin - begin % block + block);
      const std::int64_t first = begin - begin % inner;
      std::int64_t column = begin - first;
      const T* in = reinterpret_cast<const T*>(from) + iteration_.offset(0, first);
      T* out = reinterpret_cast<T*>(to) + iteration_.offset(1, first);
      while (begin < stop) {
        const std::int64_t count = std::min(stop - begin, inner - column);
        std::int64_t copied = 1;
        if (has_contiguous_rows && count == inner) {
          copied = (stop - begin) / inner;
          copy_rows({reinterpret_cast<const std::byte*>(in), in_row * bytes},
                    {reinterpret_cast<std::byte*>(out), out_row * bytes}, inner * bytes, copied);
        } else {
          copy_row(in, out, column, count);
        }
        begin += copied * count;
        column = 0;
        in += copied * in_row;
        out += copied * out_row;
      }
    }
  }

  /// Elements [first, first + count) of one row.
  template <class T>
  void copy_row(const T* in, T* out, std::int64_t first, std::int64_t count) const {
    const std::int64_t in_stride = iteration_.strides[0].back();
    const std::int64_t out_stride = iteration_.strides[1].back();
    in += first * in_stride;
    out += first * out_stride;
    if (out_stride == 1 && in_stride == 1) {
      std::memcpy(out, in, static_cast<std::size_t>(count) * sizeof(T));
    } else if (out_stride == 1 && in_stride == 0) {
      std::fill_n(out, count, *in);
    } else {
      for (std::int64_t i = 0; i < count; ++i) out[i * out_stride] = in[i * in_stride];
    }
  }

  template <class T>
  void transpose(const std::byte* from, std::byte* to) const {
    const auto cross = static_cast<std::size_t>(cross_);
    const std::int64_t rows = iteration_.shape[cross];
    const std::int64_t row_blocks = (rows + kTransposeSide - 1) / kTransposeSide;
    const std::int64_t block_bytes =
        kTransposeSide * iteration_.inner() * static_cast<std::int64_t>(sizeof(T));
    parallel_for(
        num_threads_, outer_ * row_blocks, std::max<std::int64_t>(1, kThreadBytes / block_bytes),
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t unit = begin; unit < end; ++unit) {
            const auto [in, out] = outer_offsets(unit / row_blocks);
            const std::int64_t row = unit % row_blocks * kTransposeSide;
            transpose_strip(reinterpret_cast<const T*>(from) + in + row,
                            reinterpret_cast<T*>(to) + out + row * iteration_.strides[1][cross],
                            std::min(kTransposeSide, rows - row));
          }
        });
  }

  /// Offsets for index `index` over all dimensions but the inner one and the crossing one.
  std::pair<std::int64_t, std::int64_t> outer_offsets(std::int64_t index) const {
    std::int64_t in = 0, out = 0;
    for (std::size_t d = iteration_.shape.size() - 1; d-- > 0;) {
      if (static_cast<int>(d) == cross_) continue;
      const std::int64_t k = index % iteration_.shape[d];
      in += k * iteration_.strides[0][d];
      out += k * iteration_.strides[1][d];
      index /= iteration_.shape[d];
    }
    return {in, out};
  }

  /// `rows` rows of the target, which lie next to each other in the source.
  template <class T>
  void transpose_strip(const T* in, T* out, std::int64_t rows) const {
    const std::int64_t columns = iteration_.inner();
    const std::int64_t in_stride = iteration_.strides[0].back();
    const std::int64_t out_stride = iteration_.strides[1][static_cast<std::size_t>(cross_)];
    for (std::int64_t first = 0; first < columns; first += kTransposeSide) {
      transpose_block(TransposeBlock<T>{in + first * in_stride, in_stride, out + first, out_stride,
                                        rows, std::min(kTransposeSide, columns - first)});
    }
  }

  int num_threads_;
  std::size_t bytes_ = 0;
  Iteration iteration_;
  int cross_ = -1;
  std::int64_t outer_ = 1;
};

/// The bytes of `value` as an element of `dtype`.
std::array<std::byte, 16> element_of(double value, DType dtype) {
  std::array<std::byte, 16> bytes{};
  const auto put = [&](auto element) { std::memcpy(bytes.data(), &element, sizeof element); };
  switch (dtype) {
    case DType::Bool:
      put(static_cast<std::uint8_t>(value != 0.0));
      break;
    case DType::Int8:
      put(static_cast<std::int8_t>(value));
      break;
    case DType::Int16:
      put(static_cast<std::int16_t>(value));
      break;
    case DType::Int32:
      put(static_cast<std::int32_t>(value));
      break;
    case DType::Int64:
      put(static_cast<std::int64_t>(value));
      break;
    case DType::UInt8:
      put(static_cast<std::uint8_t>(value));
      break;
    case DType::UInt16:
      put(static_cast<std::uint16_t>(value));
      break;
    case DType::UInt32:
      put(static_cast<std::uint32_t>(value));
      break;
    case DType::UInt64:
      put(static_cast<std::uint64_t>(value));
      break;
    case DType::Float8_143:
    case DType::Float8_152:
      put(float_to_float8(static_cast<float>(value), dtype));
      break;
    case DType::Float16:
    case DType::BFloat16:
      put(float_to_half_precision(static_cast<float>(value), dtype));
      break;
    case DType::Float32:
    case DType::Complex64:
      put(static_cast<float>(value));
      break;
    case DType::Float64:
    case DType::Complex128:
      put(value);
      break;
  }
  return bytes;
}

class FillKernel : public HostKernel {
 public:
  FillKernel(const KernelSpec& spec, int num_threads) : num_threads_(num_threads) {
    internal_check(spec.outputs.size() == 1, "Fill takes one output");
    bytes_ = dtype_bytes(spec.outputs[0].dtype);
    element_ = element_of(spec.attributes.number("value"), spec.outputs[0].dtype);
    iteration_ = collapse({&spec.outputs[0]}, Merging::AnyOrder);
  }

  void run(std::byte* const* operands, std::byte*) const override {
    std::byte* to = operands[0];
    const auto bytes = static_cast<std::int64_t>(bytes_);
    const std::int64_t inner = iteration_.inner();
    const std::int64_t stride = iteration_.strides[0].back();
    parallel_for(num_threads_, iteration_.size(), kThreadBytes / bytes,
                 [&](std::int64_t begin, std::int64_t end) {
                   while (begin < end) {
                     const std::int64_t count = std::min(end - begin, inner - begin % inner);
                     std::byte* row = to + iteration_.offset(0, begin) * bytes;
                     if (stride == 1) {
                       fill_elements(element_.data(), bytes_, count, row);
                     } else {
                       for (std::int64_t i = 0; i < count; ++i) {
                         std::memcpy(row + i * stride * bytes, element_.data(), bytes_);
                       }
                     }
                     begin += count;
                   }
                 });
  }

  std::string explain() const override {
    return str_cat("Fill: rows, dimensions ", shape_text(iteration_.shape), " of ", bytes_,
                   " bytes");
  }

 private:
  int num_threads_;
  std::size_t bytes_ = 0;
  std::array<std::byte, 16> element_{};
  Iteration iteration_;
};

}  // namespace

std::unique_ptr<HostKernel> make_copy_kernel(const KernelSpec& spec, int num_threads) {
  return std::make_unique<CopyKernel>(spec, num_threads);
}

std::unique_ptr<HostKernel> make_fill_kernel(const KernelSpec& spec, int num_threads) {
  return std::make_unique<FillKernel>(spec, num_threads);
}

}  // namespace pando::cpu
