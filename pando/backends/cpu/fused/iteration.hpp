// Strided operands over one iteration space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pando/program/program.hpp"

namespace pando::cpu {

/// Stands for an element of some size where only its bits matter.
struct Element16 {
  std::uint64_t words[2];
};

/// Calls body(T{}) with a type of that size.
template <class Body>
void with_element(std::size_t bytes, const Body& body) {
  switch (bytes) {
    case 1:
      return body(std::uint8_t{});
    case 2:
      return body(std::uint16_t{});
    case 4:
      return body(std::uint32_t{});
    case 8:
      return body(std::uint64_t{});
    default:
      return body(Element16{});
  }
}

/// Several operands of one shape with the dimensions merged as far as all of their strides allow.
/// Element strides; at least one dimension.
struct Iteration {
  Shape shape;
  std::vector<Strides> strides;  // per operand

  std::int64_t inner() const { return shape.back(); }
  std::int64_t size() const { return num_elements(shape); }
  /// Element offset of element `index` (C order) of an operand.
  std::int64_t offset(std::size_t operand, std::int64_t index) const;
};

enum class Merging : std::uint8_t {
  AnyOrder,   // dimensions are sorted by the strides of `operands.back()`, largest first
  KeepOrder,  // elements are numbered as in the given shape
  KeepRows,   // so they are, and the last dimension, which is not of size 1, stays by itself
};

/// Throws InternalError when shapes differ.
Iteration collapse(const std::vector<const OperandDesc*>& operands, Merging merging);

/// Elements [first, first + count) of an operand, in C order, to or from contiguous memory.
void gather(const Iteration& iteration, std::size_t operand, std::size_t element_bytes,
            const std::byte* from, std::int64_t first, std::int64_t count, std::byte* to);
void scatter(const Iteration& iteration, std::size_t operand, std::size_t element_bytes,
             const std::byte* from, std::int64_t first, std::int64_t count, std::byte* to);

/// `count` copies of the element at `from`.
void fill_elements(const std::byte* from, std::size_t element_bytes, std::int64_t count,
                   std::byte* to);

}  // namespace pando::cpu
