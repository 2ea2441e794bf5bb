#include "pando/backends/cpu/fused/iteration.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

bool mergeable(const Iteration& it, std::size_t outer) {
  return std::all_of(it.strides.begin(), it.strides.end(), [&](const Strides& s) {
    return s[outer] == s[outer + 1] * it.shape[outer + 1];
  });
}

void erase_dimension(Iteration& it, std::size_t d) {
  const auto at = static_cast<std::ptrdiff_t>(d);
  it.shape.erase(it.shape.begin() + at);
  for (Strides& s : it.strides) s.erase(s.begin() + at);
}

void sort_dimensions(Iteration& it) {
  std::vector<std::size_t> order(it.shape.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const Strides& key = it.strides.back();
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(key[a]) > std::abs(key[b]);
  });
  const auto permute = [&](std::vector<std::int64_t>& values) {
    std::vector<std::int64_t> sorted;
    sorted.reserve(order.size());
    for (std::size_t d : order) sorted.push_back(values[d]);
    values = std::move(sorted);
  };
  for (Strides& s : it.strides) permute(s);
  permute(it.shape);
}

/// Calls `row(offset, stride, count, done)` for the parts of [first, first + count) that lie in one
/// run of the inner dimension.
template <class Row>
void for_rows(const Iteration& it, std::size_t operand, std::int64_t first, std::int64_t count,
              const Row& row) {
  const std::int64_t inner = it.inner();
  const std::int64_t stride = it.strides[operand].back();
  std::int64_t done = 0;
  while (done < count) {
    const std::int64_t index = first + done;
    const std::int64_t part = std::min(count - done, inner - index % inner);
    row(it.offset(operand, index), stride, part, done);
    done += part;
  }
}

}  // namespace

std::int64_t Iteration::offset(std::size_t operand, std::int64_t index) const {
  std::int64_t result = 0;
  for (std::size_t d = shape.size(); d-- > 0;) {
    result += index % shape[d] * strides[operand][d];
    index /= shape[d];
  }
  return result;
}

Iteration collapse(const std::vector<const OperandDesc*>& operands, Merging merging) {
  Iteration it;
  it.shape = operands.back()->shape;
  for (const OperandDesc* operand : operands) {
    internal_check(operand->shape == it.shape && operand->strides.size() == it.shape.size(),
                   "the operands of a pointwise kernel must have one shape");
    it.strides.push_back(operand->strides);
  }
  for (std::size_t d = it.shape.size(); d-- > 0;) {
    if (it.shape[d] == 1) erase_dimension(it, d);
  }
  if (merging == Merging::AnyOrder) sort_dimensions(it);
  const std::size_t kept = merging == Merging::KeepRows && !it.shape.empty() ? 1 : 0;
  for (std::size_t d = it.shape.size() - kept; d-- > 1;) {
    if (!mergeable(it, d - 1)) continue;
    it.shape[d - 1] *= it.shape[d];
    for (Strides& s : it.strides) s[d - 1] = s[d];
    erase_dimension(it, d);
  }
  if (it.shape.empty()) {
    it.shape = {1};
    for (Strides& s : it.strides) s = {1};
  }
  return it;
}

void fill_elements(const std::byte* from, std::size_t element_bytes, std::int64_t count,
                   std::byte* to) {
  with_element(element_bytes, [&](auto element) {
    std::memcpy(&element, from, sizeof element);
    std::fill_n(reinterpret_cast<decltype(element)*>(to), count, element);
  });
}

void gather(const Iteration& iteration, std::size_t operand, std::size_t element_bytes,
            const std::byte* from, std::int64_t first, std::int64_t count, std::byte* to) {
  with_element(element_bytes, [&](auto element) {
    using T = decltype(element);
    const T* source = reinterpret_cast<const T*>(from);
    T* target = reinterpret_cast<T*>(to);
    for_rows(iteration, operand, first, count,
             [&](std::int64_t offset, std::int64_t stride, std::int64_t n, std::int64_t done) {
               const T* in = source + offset;
               T* out = target + done;
               if (stride == 0) {
                 std::fill_n(out, n, *in);
               } else if (stride == 1) {
                 std::copy_n(in, n, out);
               } else {
                 for (std::int64_t i = 0; i < n; ++i) out[i] = in[i * stride];
               }
             });
  });
}

void scatter(const Iteration& iteration, std::size_t operand, std::size_t element_bytes,
             const std::byte* from, std::int64_t first, std::int64_t count, std::byte* to) {
  with_element(element_bytes, [&](auto element) {
    using T = decltype(element);
    const T* source = reinterpret_cast<const T*>(from);
    T* target = reinterpret_cast<T*>(to);
    for_rows(iteration, operand, first, count,
             [&](std::int64_t offset, std::int64_t stride, std::int64_t n, std::int64_t done) {
               const T* in = source + done;
               T* out = target + offset;
               if (stride == 1) {
                 std::copy_n(in, n, out);
               } else {
                 for (std::int64_t i = 0; i < n; ++i) out[i * stride] = in[i];
               }
             });
  });
}

}  // namespace pando::cpu
