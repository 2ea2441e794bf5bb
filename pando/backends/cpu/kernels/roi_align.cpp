// RoiAlign and RoiAlignGrad: mean of bilinear samples on a grid per bin (He et al., Mask R-CNN,
// 2017; coordinates without the half pixel shift).
#include <algorithm>
#include <array>
#include <cmath>

#include "pando/backends/cpu/kernel_table.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/kernels/float_rows.hpp"
#include "pando/backends/cpu/kernels/index.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

struct RoiProblem {
  std::int64_t images = 0, channels = 0, height = 0, width = 0;
  std::int64_t rois = 0, bins_y = 1, bins_x = 1, sampling = 0;
  double scale = 1;
  DType index_dtype = DType::Int32;
  int threads = 1;
};

/// Calls body(y * width + x, weight) for the four neighbours of a sample; nothing when it lies more
/// than one pixel outside.
template <class Body>
void for_neighbours(const RoiProblem& p, double y, double x, const Body& body) {
  if (y < -1 || y > double(p.height) || x < -1 || x > double(p.width)) return;
  const auto locate = [](double at, std::int64_t size) {
    at = std::max(at, 0.0);
    auto low = static_cast<std::int64_t>(at);
    if (low >= size - 1) {
      low = size - 1;
      at = double(low);
    }
    return std::pair<std::int64_t, double>(low, at - double(low));
  };
  const auto [y0, fy] = locate(y, p.height);
  const auto [x0, fx] = locate(x, p.width);
  const std::int64_t y1 = std::min(y0 + 1, p.height - 1), x1 = std::min(x0 + 1, p.width - 1);
  body(y0 * p.width + x0, (1 - fy) * (1 - fx));
  body(y0 * p.width + x1, (1 - fy) * fx);
  body(y1 * p.width + x0, fy * (1 - fx));
  body(y1 * p.width + x1, fy * fx);
}

/// Calls body(bin, pixel, weight) for every sample of every bin of one region; weights of a bin
/// already contain the division by the number of samples.
template <class T, class Body>
void for_samples(const RoiProblem& p, const T* roi, const Body& body) {
  const double x1 = double(roi[0]) * p.scale, y1 = double(roi[1]) * p.scale;
  const double bin_w = std::max(double(roi[2]) * p.scale - x1, 1.0) / double(p.bins_x);
  const double bin_h = std::max(double(roi[3]) * p.scale - y1, 1.0) / double(p.bins_y);
  const auto count = [&](double size) {
    return p.sampling > 0 ? p.sampling : static_cast<std::int64_t>(std::ceil(size));
  };
  const std::int64_t ny = count(bin_h), nx = count(bin_w);
  const double share = 1.0 / double(std::max<std::int64_t>(1, ny * nx));
  for (std::int64_t by = 0; by < p.bins_y; ++by) {
    for (std::int64_t bx = 0; bx < p.bins_x; ++bx) {
      for (std::int64_t i = 0; i < ny * nx; ++i) {
        const std::int64_t row = i / nx;
        const double y = y1 + (double(by) + (double(row) + 0.5) / double(ny)) * bin_h;
        const double x = x1 + (double(bx) + (double(i % nx) + 0.5) / double(nx)) * bin_w;
        for_neighbours(p, y, x, [&](std::int64_t pixel, double weight) {
          body(by * p.bins_x + bx, pixel, weight * share);
        });
      }
    }
  }
}

std::string parse_roi(const KernelRequest& request, const Shape& image, const Shape& bins,
                      RoiProblem& p) {
  const Shape& rois = request.input(1).shape;
  if (image.size() != 4 || bins.size() != 4 || rois.size() != 2 || rois[1] != 4 ||
      request.input(2).shape != Shape{rois[0]} || !is_integer(request.input(2).dtype) ||
      bins[0] != rois[0] || bins[1] != image[1]) {
    return "wanted data (N, C, H, W), regions (R, 4), batch indices (R,) and bins (R, C, h, w)";
  }
  if (request.input(0).dtype != request.output(0).dtype ||
      request.input(1).dtype != request.output(0).dtype) {
    return "operand dtypes differ";
  }
  p.images = image[0];
  p.channels = image[1];
  p.height = image[2];
  p.width = image[3];
  p.rois = rois[0];
  p.bins_y = bins[2];
  p.bins_x = bins[3];
  p.scale = request.attributes().number("spatial_scale");
  p.sampling = request.attributes().integer("sampling_ratio");
  p.index_dtype = request.input(2).dtype;
  p.threads = request.num_threads;
  return "";
}

/// Channels of all regions; an image index out of range gives zeros.
template <class T>
void roi_align(const RoiProblem& p, std::byte* const* operands) {
  const T* rois = operand_in<T>(operands, 1);
  const IndexReader batch(operands[2], p.index_dtype);
  T* out = operand_out<T>(operands, 3);
  const std::int64_t bins = p.bins_y * p.bins_x, pixels = p.height * p.width;
  parallel_for(p.threads, p.rois, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      T* y = out + r * p.channels * bins;
      std::fill_n(y, p.channels * bins, T{});
      if (batch[r] < 0 || batch[r] >= p.images) continue;
      const T* x = operand_in<T>(operands, 0) + batch[r] * p.channels * pixels;
      for_samples(p, rois + 4 * r, [&](std::int64_t bin, std::int64_t pixel, double weight) {
        for (std::int64_t c = 0; c < p.channels; ++c) {
          y[c * bins + bin] += static_cast<T>(weight) * x[c * pixels + pixel];
        }
      });
    }
  });
}

/// Threads own channels, so that regions of one image add up in order.
template <class T>
void roi_align_grad(const RoiProblem& p, std::byte* const* operands) {
  const T* rois = operand_in<T>(operands, 1);
  const IndexReader batch(operands[2], p.index_dtype);
  T* dx = operand_out<T>(operands, 3);
  const std::int64_t bins = p.bins_y * p.bins_x, pixels = p.height * p.width;
  parallel_for(p.threads, p.channels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = 0; n < p.images; ++n) {
      std::fill(dx + (n * p.channels + begin) * pixels, dx + (n * p.channels + end) * pixels, T{});
    }
    for (std::int64_t r = 0; r < p.rois; ++r) {
      if (batch[r] < 0 || batch[r] >= p.images) continue;
      const T* g = operand_in<T>(operands, 0) + r * p.channels * bins;
      T* image = dx + batch[r] * p.channels * pixels;
      for_samples(p, rois + 4 * r, [&](std::int64_t bin, std::int64_t pixel, double weight) {
        for (std::int64_t c = begin; c < end; ++c) {
          image[c * pixels + pixel] += static_cast<T>(weight) * g[c * bins + bin];
        }
      });
    }
  });
}

template <bool Gradient>
KernelPlan make_roi(const KernelRequest& request) {
  RoiProblem p;
  const Shape& in = request.input(0).shape;
  const Shape& out = request.output(0).shape;
  std::string fault = Gradient ? parse_roi(request, out, in, p) : parse_roi(request, in, out, p);
  if (!fault.empty()) return KernelPlan::reject(std::move(fault));
  KernelPlan plan;
  const auto use = [&]<class T>(T) {
    plan.run = [p](std::byte* const* operands, std::byte*) {
      if constexpr (Gradient) {
        roi_align_grad<T>(p, operands);
      } else {
        roi_align<T>(p, operands);
      }
    };
  };
  const DType dtype = request.output(0).dtype;
  if (dtype == DType::Float32) {
    use(float{});
  } else if (dtype == DType::Float64) {
    use(double{});
  } else {
    return KernelPlan::reject(unsupported_dtype(dtype));
  }
  return plan;
}

template <bool Gradient>
KernelPlan make_half_roi(const KernelRequest& request) {
  return plan_through_float32(request, make_roi<Gradient>);
}

}  // namespace

void register_roi_align_kernels(KernelTable& table) {
  table["RoiAlign"] = {{{"samples", make_roi<false>}, {"half", make_half_roi<false>}}};
  table["RoiAlignGrad"] = {{{"samples", make_roi<true>}, {"half", make_half_roi<true>}}};
}

}  // namespace pando::cpu
