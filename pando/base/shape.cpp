#include "pando/base/shape.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "pando/base/error.hpp"

namespace pando {

std::int64_t num_elements(const Shape& shape) {
  std::int64_t count = 1;
  bool overflows = false, empty = false;
  for (std::int64_t dim : shape) {
    overflows |= __builtin_mul_overflow(count, dim, &count);
    empty |= dim == 0;
  }
  if (empty) return 0;
  if (overflows) throw Error(str_cat("a tensor of shape ", shape_text(shape), " is too large"));
  return count;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    // An empty tensor may have other dimensions whose product is anything.
    std::ignore = __builtin_mul_overflow(stride, shape[i], &stride);
  }
  return strides;
}

std::string shape_text(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  if (shape.size() == 1) text += ",";
  return text + ")";
}

std::optional<Shape> broadcast_shapes(const Shape& lhs, const Shape& rhs) {
  const std::size_t rank = std::max(lhs.size(), rhs.size());
  Shape result(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t a = i < lhs.size() ? lhs[lhs.size() - 1 - i] : 1;
    const std::int64_t b = i < rhs.size() ? rhs[rhs.size() - 1 - i] : 1;
    if (a != b && a != 1 && b != 1) return std::nullopt;
    result[rank - 1 - i] = a == 1 ? b : a;
  }
  return result;
}

std::int64_t normalise_axis(std::int64_t axis, std::int64_t rank, const char* what) {
  const std::int64_t normalised = axis < 0 ? axis + rank : axis;
  if (normalised < 0 || normalised >= rank) {
    throw Error(str_cat(what, ": axis ", axis, " is out of range for a tensor of rank ", rank));
  }
  return normalised;
}

bool is_contiguous(const Shape& shape, const Strides& strides) {
  std::int64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

std::optional<View> reshape_view(const View& view, const Shape& shape) {
  if (view.is_contiguous() || num_elements(shape) == 0) {
    return View{shape, contiguous_strides(shape), view.offset};
  }
  // Maximal runs (size, stride) of mergeable old dimensions, innermost first. A new dimension may
  // split a run but never straddle two.
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;
  for (std::size_t i = view.shape.size(); i-- > 0;) {
    if (view.shape[i] == 1) continue;
    if (!runs.empty() && view.strides[i] == runs.back().first * runs.back().second) {
      runs.back().first *= view.shape[i];
    } else {
      runs.emplace_back(view.shape[i], view.strides[i]);
    }
  }
  Strides strides(shape.size(), 1);
  std::size_t run = 0;
  std::int64_t covered = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;
    if (run < runs.size() && covered == runs[run].first) {
      ++run;
      covered = 1;
    }
    if (run == runs.size() || runs[run].first % (covered * shape[i]) != 0) return std::nullopt;
    strides[i] = runs[run].second * covered;
    covered *= shape[i];
  }
  return View{shape, strides, view.offset};
}

View permute_view(const View& view, const std::vector<std::int64_t>& permutation) {
  View result{Shape(permutation.size()), Strides(permutation.size()), view.offset};
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    const auto from = static_cast<std::size_t>(permutation[i]);
    result.shape[i] = view.shape[from];
    result.strides[i] = view.strides[from];
  }
  return result;
}

View broadcast_view(const View& view, const Shape& shape) {
  View result{shape, Strides(shape.size(), 0), view.offset};
  const std::size_t lead = shape.size() - view.shape.size();
  for (std::size_t i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] == shape[lead + i]) result.strides[lead + i] = view.strides[i];
  }
  return result;
}

View slice_view(const View& view, std::int64_t axis, std::int64_t start, std::int64_t step,
                std::int64_t count) {
  View result = view;
  const auto d = static_cast<std::size_t>(axis);
  result.shape[d] = count;
  result.offset += start * view.strides[d];
  result.strides[d] = step * view.strides[d];
  return result;
}

}  // namespace pando
