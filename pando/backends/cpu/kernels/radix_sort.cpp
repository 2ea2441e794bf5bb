#include "pando/backends/cpu/kernels/radix_sort.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>
#include <utility>

#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/strided_copy.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

constexpr std::int64_t kMinSize = 128;
/// From so large a part of the elements on, sorting all of them beats a heap.
constexpr std::int64_t kMinPart = 8;
constexpr int kDigitBits = 8, kDigits = 4;
constexpr std::size_t kBuckets = 1u << kDigitBits;

/// Unsigned numbers in the order of the values: both zeros are equal, NaN is the largest.
template <class T>
std::uint32_t key_of(T value) {
  if constexpr (kIsFloatElement<T>) {
    const float x = static_cast<float>(value) + 0.0f;
    if (x != x) return ~0u;
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(value)) ^ 0x80000000u;
  } else {
    return value;
  }
}

/// Key above, index below.
using Entry = std::uint64_t;
using Counts = std::array<std::array<std::uint32_t, kBuckets>, kDigits>;

template <class T>
KernelPlan plan_radix_top_k(const AxisView& view, std::int64_t k, bool largest, int threads) {
  const std::size_t slot = scratch_aligned(2 * static_cast<std::size_t>(view.size) * sizeof(Entry));
  const std::uint32_t flip = largest ? ~0u : 0u;
  KernelPlan plan;
  plan.scratch_bytes = slot * static_cast<std::size_t>(threads);
  plan.run = [=](std::byte* const* operands, std::byte* scratch) {
    const T* in = operand_in<T>(operands, 0);
    T* values = operand_out<T>(operands, 1);
    auto* indices = operand_out<std::int32_t>(operands, 2);
    parallel_slots(threads, view.outer * view.inner, row_grain(view.size, 1 << 12),
                   [&](std::int64_t s, std::int64_t begin, std::int64_t end) {
                     auto* entries =
                         reinterpret_cast<Entry*>(scratch + static_cast<std::size_t>(s) * slot);
                     for (std::int64_t r = begin; r < end; ++r) {
                       const std::int64_t outer = r / view.inner, inner = r % view.inner;
                       const T* column = in + outer * view.size * view.inner + inner;
                       for (std::int64_t i = 0; i < view.size; ++i) {
                         const Entry key = key_of(column[i * view.inner]) ^ flip;
                         entries[i] = key << 32 | static_cast<std::uint32_t>(i);
                       }
                       const Entry* sorted = radix_sort(entries, entries + view.size, view.size);
                       for (std::int64_t i = 0; i < k; ++i) {
                         const auto from = static_cast<std::int64_t>(sorted[i] & 0xFFFFFFFFu);
                         const std::int64_t at = (outer * k + i) * view.inner + inner;
                         values[at] = column[from * view.inner];
                         indices[at] = static_cast<std::int32_t>(from);
                       }
                     }
                   });
  };
  return plan;
}

}  // namespace

const std::uint64_t* radix_sort(std::uint64_t* from, std::uint64_t* to, std::int64_t size) {
  if (size == 0) return from;
  Counts counts{};
  for (std::int64_t i = 0; i < size; ++i) {
    for (int digit = 0; digit < kDigits; ++digit) {
      ++counts[static_cast<std::size_t>(digit)]
              [from[i] >> (32 + kDigitBits * digit) & (kBuckets - 1)];
    }
  }
  for (int digit = 0; digit < kDigits; ++digit) {
    auto& starts = counts[static_cast<std::size_t>(digit)];
    const int shift = 32 + kDigitBits * digit;
    if (starts[from[0] >> shift & (kBuckets - 1)] == static_cast<std::uint64_t>(size)) continue;
    std::uint32_t start = 0;
    for (std::uint32_t& count : starts) start += std::exchange(count, start);
    for (std::int64_t i = 0; i < size; ++i) {
      to[starts[from[i] >> shift & (kBuckets - 1)]++] = from[i];
    }
    std::swap(from, to);
  }
  return from;
}

KernelPlan make_radix_top_k(const KernelRequest& request) {
  const AxisView view = axis_view(request);
  const std::int64_t k = request.attributes().integer("k");
  if (k < 0 || k > view.size) return KernelPlan::reject("k exceeds the dimension");
  if (request.output(1).dtype != DType::Int32) return KernelPlan::reject("indices must be int32");
  if (view.size < kMinSize)
    return KernelPlan::reject(str_cat("fewer than ", kMinSize, " elements"));
  if (k * kMinPart < view.size) return KernelPlan::reject("few results");
  if (dtype_bytes(request.input(0).dtype) > 4) return KernelPlan::reject("elements of 8 bytes");
  const bool largest = request.attributes().flag("largest");
  KernelPlan plan;
  const bool known = dispatch_arithmetic(request.input(0).dtype, [&]<class T>(T) {
    if constexpr (sizeof(T) <= 4) {
      plan = plan_radix_top_k<T>(view, k, largest, request.num_threads);
    }
  });
  return known ? plan : KernelPlan::reject(unsupported_dtype(request.input(0).dtype));
}

}  // namespace pando::cpu
