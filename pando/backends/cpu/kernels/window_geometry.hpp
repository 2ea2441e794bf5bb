// Where the windows of pools and of Unfold lie in up to three spatial dimensions.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "pando/base/attributes.hpp"
#include "pando/base/shape.hpp"

namespace pando::cpu {

using Spatial = std::array<std::int64_t, 3>;

struct WindowGeometry {
  Spatial data{1, 1, 1}, result{1, 1, 1}, kernel{1, 1, 1};
  Spatial stride{1, 1, 1}, pad{0, 0, 0}, dilation{1, 1, 1};

  std::int64_t data_size() const { return data[0] * data[1] * data[2]; }
  std::int64_t result_size() const { return result[0] * result[1] * result[2]; }
  std::int64_t kernel_size() const { return kernel[0] * kernel[1] * kernel[2]; }

  /// Results of dimension `d` whose window's cell `k` lies inside the data.
  struct Range {
    std::int64_t begin, end;
  };
  Range inside(std::size_t d, std::int64_t k) const {
    const std::int64_t shift = pad[d] - k * dilation[d];  // data index = result * stride - shift
    const std::int64_t begin = shift <= 0 ? 0 : (shift + stride[d] - 1) / stride[d];
    const std::int64_t last = data[d] - 1 + shift;
    const std::int64_t end = last < 0 ? 0 : std::min(result[d], last / stride[d] + 1);
    return {begin, std::max(begin, end)};
  }
  std::int64_t data_index(std::size_t d, std::int64_t result_index, std::int64_t k) const {
    return result_index * stride[d] - pad[d] + k * dilation[d];
  }
};

/// Fills in the geometry from the attributes kernel_size, strides, pads and dilations for spatial
/// dimensions `data` and `result`, or returns why they do not fit.
inline std::string read_windows(const Attributes& attributes, const Shape& data,
                                const Shape& result, WindowGeometry& geometry) {
  const Ints& kernel = attributes.ints("kernel_size");
  const Ints& strides = attributes.ints("strides");
  const Ints& pads = attributes.ints("pads");
  const Ints& dilations = attributes.ints("dilations");
  const std::size_t rank = kernel.size();
  if (rank < 1 || rank > 3 || data.size() != rank || result.size() != rank ||
      strides.size() != rank || pads.size() != 2 * rank || dilations.size() != rank) {
    return "wanted 1 to 3 spatial dimensions with a kernel size, stride, dilation and two pads "
           "each";
  }
  for (std::size_t d = 0; d < rank; ++d) {
    const std::size_t at = 3 - rank + d;
    geometry.data[at] = data[d];
    geometry.result[at] = result[d];
    geometry.kernel[at] = kernel[d];
    geometry.stride[at] = strides[d];
    geometry.pad[at] = pads[d];
    geometry.dilation[at] = dilations[d];
  }
  return "";
}

}  // namespace pando::cpu
