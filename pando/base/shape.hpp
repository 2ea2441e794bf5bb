// Shapes, strides and strided views. All counts and strides are in elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pando/base/shared_value.hpp"

namespace pando {

using Shape = std::vector<std::int64_t>;
using Strides = std::vector<std::int64_t>;

/// A shape that does not change and that its copies share: tensors have few different ones.
class SharedShape {
 public:
  SharedShape() = default;
  SharedShape(Shape shape) : shape_(std::move(shape)) {}
  SharedShape(std::initializer_list<std::int64_t> sizes) : SharedShape(Shape(sizes)) {}

  const Shape& get() const { return shape_.get(); }
  operator const Shape&() const { return get(); }
  auto begin() const { return get().begin(); }
  auto end() const { return get().end(); }
  std::size_t size() const { return get().size(); }
  bool empty() const { return shape_.empty(); }
  std::int64_t operator[](std::size_t axis) const { return get()[axis]; }

  friend bool operator==(const SharedShape&, const SharedShape&) = default;
  friend bool operator==(const SharedShape& a, const Shape& b) { return a.get() == b; }

 private:
  SharedValue<Shape> shape_;
};

/// Throws Error when they are more than an int64 counts.
std::int64_t num_elements(const Shape& shape);

/// Strides of a C-ordered array of `shape`.
Strides contiguous_strides(const Shape& shape);

/// Whether strides are those of a C-ordered array without gaps (dimensions of size 1 may have any).
bool is_contiguous(const Shape& shape, const Strides& strides);

/// The shape as a Python tuple: `()`, `(3,)`, `(2, 3)`.
std::string shape_text(const Shape& shape);

/// NumPy broadcasting; nullopt when the shapes are not aligned.
std::optional<Shape> broadcast_shapes(const Shape& lhs, const Shape& rhs);

/// `axis + rank` for negative axes; throws Error when out of range, naming `what`.
std::int64_t normalise_axis(std::int64_t axis, std::int64_t rank, const char* what);

/// A window on a storage: element (i0, i1, ...) lies at offset + sum(ik * strides[k]).
struct View {
  Shape shape;
  Strides strides;
  std::int64_t offset = 0;

  static View contiguous(const Shape& shape) { return {shape, contiguous_strides(shape), 0}; }
  bool is_contiguous() const { return pando::is_contiguous(shape, strides); }
  bool operator==(const View&) const = default;
};

/// The same elements in C order under another shape, if strides allow it.
std::optional<View> reshape_view(const View& view, const Shape& shape);
/// Axis k of the result is axis permutation[k] of `view`.
View permute_view(const View& view, const std::vector<std::int64_t>& permutation);
/// Broadcasts by NumPy rules with stride 0; `shape` must be a valid target.
View broadcast_view(const View& view, const Shape& shape);
/// Elements start, start + step, ... (`count` of them) of `axis`. `step` may be negative.
View slice_view(const View& view, std::int64_t axis, std::int64_t start, std::int64_t step,
                std::int64_t count);

}  // namespace pando
