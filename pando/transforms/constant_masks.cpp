#include "pando/transforms/constant_masks.hpp"

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "pando/base/half.hpp"
#include "pando/ir/op_def.hpp"

namespace pando {
namespace {

/// e^x of it is 0 beside any score.
constexpr float kMasked = -1e8F;

template <class T>
std::span<const T> values_of(const Tensor& constant) {
  return {reinterpret_cast<const T*>(constant.data->data),
          static_cast<std::size_t>(constant.info.num_elements())};
}

bool is_constant(const Tensor* tensor, DType dtype) {
  return tensor != nullptr && tensor->kind() == TensorKind::Constant && tensor->data != nullptr &&
         tensor->dtype() == dtype;
}

/// The band of the elements that are kept, of a mask over the last two dimensions of `scores`.
template <class T>
std::optional<Band> band_of_mask(const Tensor& mask, const Shape& scores,
                                 const std::function<std::optional<bool>(T)>& is_kept) {
  const Shape& shape = mask.shape();
  if (shape.size() < 2 || shape.size() > scores.size()) return std::nullopt;
  const std::int64_t rows = shape[shape.size() - 2], columns = shape.back();
  if (rows != scores[scores.size() - 2] || columns != scores.back()) return std::nullopt;
  const std::span<const T> values = values_of<T>(mask);
  const auto count = static_cast<std::int64_t>(values.size());
  const auto diagonal = [&](std::int64_t i) { return i % columns - i / columns % rows; };
  std::vector<bool> kept(values.size());
  Band band{-columns, -rows};
  for (std::int64_t i = 0; i < count; ++i) {
    const std::optional<bool> keep = is_kept(values[static_cast<std::size_t>(i)]);
    if (!keep) return std::nullopt;
    kept[static_cast<std::size_t>(i)] = *keep;
    if (!*keep) continue;
    band.lower = std::max(band.lower, -diagonal(i));
    band.upper = std::max(band.upper, diagonal(i));
  }
  bool hides = false;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool inside = -band.lower <= diagonal(i) && diagonal(i) <= band.upper;
    if (kept[static_cast<std::size_t>(i)] != inside) return std::nullopt;
    hides = hides || !inside;
  }
  if (!hides || !band.meets_rows(rows, columns)) return std::nullopt;
  return band;
}

}  // namespace

std::optional<double> scalar_of(const Tensor& tensor) {
  if (tensor.info.num_elements() != 1) return std::nullopt;
  if (is_constant(&tensor, DType::Float16) || is_constant(&tensor, DType::BFloat16)) {
    return half_precision_to_float(values_of<std::uint16_t>(tensor).front(), tensor.dtype());
  }
  if (!is_constant(&tensor, DType::Float32)) return std::nullopt;
  return values_of<float>(tensor).front();
}

std::optional<Band> band_kept_by(const Op& mask, int scores) {
  const Shape& shape = mask.output(0)->shape();
  if (mask.kind() == OpKind::Add) {
    const Tensor* added = mask.input(1 - scores);
    if (!is_constant(added, DType::Float32)) return std::nullopt;
    return band_of_mask<float>(*added, shape, [](float value) -> std::optional<bool> {
      if (value == 0) return true;
      return value <= kMasked ? std::optional(false) : std::nullopt;
    });
  }
  if (mask.kind() != OpKind::Where || scores != 1) return std::nullopt;
  const auto hidden = scalar_of(*mask.input(2));
  if (!is_constant(mask.input(0), DType::Bool) || !hidden || !(*hidden <= kMasked)) {
    return std::nullopt;
  }
  return band_of_mask<std::uint8_t>(*mask.input(0), shape,
                                    [](std::uint8_t value) { return std::optional(value != 0); });
}

}  // namespace pando
