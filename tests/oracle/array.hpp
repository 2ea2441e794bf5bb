// Numbers, arrays and rounding of the reference executor.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "pando/base/dtype.hpp"
#include "pando/base/shape.hpp"

namespace pando::oracle {

/// Holds every value of every real dtype exactly, 64-bit integers included.
using Number = long double;
static_assert(std::numeric_limits<Number>::digits >= 64,
              "the reference needs a long double with at least 64 significant bits");

/// A tensor's elements in C order.
struct Array {
  DType dtype = DType::Float32;
  Shape shape = {};
  std::vector<Number> data = {};

  Array() = default;
  Array(DType element, Shape dimensions)
      : dtype(element),
        shape(std::move(dimensions)),
        data(static_cast<std::size_t>(num_elements(shape)), 0.0L) {}

  std::int64_t size() const { return static_cast<std::int64_t>(data.size()); }
  Number& operator[](std::int64_t i) { return data[static_cast<std::size_t>(i)]; }
  Number operator[](std::int64_t i) const { return data[static_cast<std::size_t>(i)]; }
  std::int64_t dim(std::int64_t axis) const { return shape[static_cast<std::size_t>(axis)]; }
};

/// `x` as `dtype` stores it: floats to nearest even, integers truncated and wrapped, bool != 0.
Number rounded(Number x, DType dtype);

/// `count` elements of `dtype` from memory, and back (rounding).
std::vector<Number> decode(const void* bytes, DType dtype, std::int64_t count);
void encode(const std::vector<Number>& numbers, DType dtype, void* bytes);

/// Position in C order of an index of `shape`.
std::int64_t flat_position(const Shape& shape, const Shape& index);
/// The index of a position.
Shape index_at(const Shape& shape, std::int64_t position);
/// Position in an array of shape `from` of the element that broadcasts to `index`.
std::int64_t broadcast_position(const Shape& from, const Shape& index);
/// Steps `index` to the next one in C order.
void advance(const Shape& shape, Shape& index);

/// Calls visit(position, index) for every element of `shape` in C order.
template <class Visit>
void for_each_element(const Shape& shape, Visit visit) {
  Shape index(shape.size(), 0);
  const std::int64_t count = num_elements(shape);
  for (std::int64_t i = 0; i < count; ++i) {
    visit(i, static_cast<const Shape&>(index));
    advance(shape, index);
  }
}

}  // namespace pando::oracle
