// Gradients of depthwise filters. For those of more than a few elements oneDNN makes a matrix of
// every window, or multiplies by filters of eight channels.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pando/backends/cpu/kernels/conv.hpp"
#include "pando/backends/cpu/kernels/depthwise_sums.hpp"
#include "pando/backends/cpu/kernels/element.hpp"
#include "pando/backends/cpu/parallel.hpp"

namespace pando::cpu {
namespace {

/// Multiplications below which another thread costs more than it saves.
constexpr std::int64_t kLeastDepthwiseWork = std::int64_t{1} << 16;

constexpr std::int64_t kLineFloats = 16;  // of a cache line

/// Multiplications of a window from which on oneDNN has nothing for single channels side by side.
constexpr std::int64_t kFewestDepthwiseTaps = 10;

class DepthwiseWeights {
 public:
  DepthwiseWeights(const ConvProblem& p, int num_threads)
      : num_threads_(num_threads),
        channel_last_(p.channel_last),
        block_(channel_last_ ? kLineFloats : 1),
        samples_(p.data[0]),
        channels_(p.data[1]),
        rows_(p.data[2]),
        columns_(p.data[3]),
        result_rows_(p.result[2]),
        result_columns_(p.result[3]),
        pad_rows_(p.pads[0]),
        pad_columns_(p.pads[1]),
        stride_(p.strides[1]),
        seen_rows_((result_rows_ - 1) * p.strides[0] + (p.weights[2] - 1) * p.dilations[0] + 1),
        seen_columns_((result_columns_ - 1) * stride_ + (p.weights[3] - 1) * p.dilations[1] + 1),
        phase_((seen_columns_ + stride_ - 1) / stride_),
        is_in_place_(!channel_last_ && stride_ == 1 && pad_rows_ == 0 && pad_columns_ == 0 &&
                     seen_rows_ <= rows_ && seen_columns_ <= columns_),
        row_(is_in_place_ ? columns_ : stride_ * phase_),
        image_row_(p.strides[0] * row_),
        copied_rows_(std::min(rows_, seen_rows_ - pad_rows_)),
        copied_columns_(
            std::max<std::int64_t>(0, std::min(columns_, seen_columns_ - pad_columns_))),
        image_elements_(is_in_place_ ? 0 : in_own_cache_sets(seen_rows_ * row_)),
        gradient_elements_(channel_last_ ? in_own_cache_sets(result_rows_ * result_columns_) : 0) {
    for (std::int64_t y = 0; y < p.weights[2]; ++y) {
      for (std::int64_t x = 0; x < p.weights[3]; ++x) {
        offsets_.push_back(y * p.dilations[0] * row_ + place_of(x * p.dilations[1]));
      }
    }
  }

  std::size_t scratch_bytes() const {
    return static_cast<std::size_t>(num_threads_ * block_ *
                                    (image_elements_ + gradient_elements_)) *
           sizeof(float);
  }

  void operator()(const float* data, const float* gradient, float* weights,
                  std::byte* scratch) const {
    const auto taps = static_cast<std::int64_t>(offsets_.size());
    const std::int64_t work = samples_ * result_rows_ * result_columns_ * taps;
    const std::int64_t grain = kLeastDepthwiseWork / std::max<std::int64_t>(1, work) + 1;
    parallel_for(num_threads_, channels_, grain, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t thread_elements = block_ * (image_elements_ + gradient_elements_);
      float* images = reinterpret_cast<float*>(scratch) + thread_index() * thread_elements;
      std::fill_n(images, block_ * image_elements_, 0.0F);
      std::fill(weights + begin * taps, weights + end * taps, 0.0F);
      for (std::int64_t c = begin; c < end; c += block_) {
        const std::int64_t count = std::min(block_, end - c);
        for (std::int64_t n = 0; n < samples_; ++n) {
          if (channel_last_) {
            add_block(data, gradient, n, c, count, images, weights);
          } else {
            add_channel(data, gradient, n, c, images, weights);
          }
        }
      }
    });
  }

 private:
  /// Elements of whole cache lines, and one line more: the same element of neighbouring channels
  /// must not fall into one cache set.
  static std::int64_t in_own_cache_sets(std::int64_t elements) {
    return (elements + kLineFloats - 1) / kLineFloats * kLineFloats + kLineFloats;
  }

  void add_sums(const float* gradient, const float* image, float* weights) const {
    add_depthwise_sums({gradient, result_rows_, result_columns_, image, image_row_},
                       offsets_.data(), static_cast<std::int64_t>(offsets_.size()), weights);
  }

  void add_channel(const float* data, const float* gradient, std::int64_t n, std::int64_t c,
                   float* image, float* weights) const {
    const std::int64_t plane = n * channels_ + c;
    const float* seen = data + plane * rows_ * columns_;
    if (!is_in_place_) {
      copy_padded(seen, image);
      seen = image;
    }
    add_sums(gradient + plane * result_rows_ * result_columns_, seen,
             weights + c * static_cast<std::int64_t>(offsets_.size()));
  }

  /// `count` channels from `c` on, which lie side by side.
  void add_block(const float* data, const float* gradient, std::int64_t n, std::int64_t c,
                 std::int64_t count, float* images, float* weights) const {
    float* gradients = images + block_ * image_elements_;
    for (std::int64_t y = 0; y < copied_rows_; ++y) {
      const float* from = data + (n * rows_ + y) * columns_ * channels_ + c;
      float* to = images + (y + pad_rows_) * row_;
      for (std::int64_t x = 0; x < copied_columns_; ++x) {
        spread(from + x * channels_, count, to + place_of(x + pad_columns_), image_elements_);
      }
    }
    const std::int64_t results = result_rows_ * result_columns_;
    const float* from = gradient + n * results * channels_ + c;
    for (std::int64_t i = 0; i < results; ++i) {
      spread(from + i * channels_, count, gradients + i, gradient_elements_);
    }
    const auto taps = static_cast<std::int64_t>(offsets_.size());
    for (std::int64_t k = 0; k < count; ++k) {
      add_sums(gradients + k * gradient_elements_, images + k * image_elements_,
               weights + (c + k) * taps);
    }
  }

  static void spread(const float* from, std::int64_t count, float* to, std::int64_t stride) {
    for (std::int64_t k = 0; k < count; ++k) to[k * stride] = from[k];
  }

  /// Where column `x` of the padded image lies in a row: columns that a stride takes one after the
  /// other are neighbours.
  std::int64_t place_of(std::int64_t x) const { return x % stride_ * phase_ + x / stride_; }

  /// Writes what is not padding.
  void copy_padded(const float* from, float* to) const {
    for (std::int64_t y = 0; y < copied_rows_; ++y) {
      const float* row = from + y * columns_;
      float* padded = to + (y + pad_rows_) * row_;
      if (stride_ == 1) {
        std::copy_n(row, copied_columns_, padded + pad_columns_);
        continue;
      }
      for (std::int64_t x = 0; x < copied_columns_; ++x)
        padded[place_of(x + pad_columns_)] = row[x];
    }
  }

  std::int64_t num_threads_;
  bool channel_last_;
  std::int64_t block_;  // channels at once
  std::int64_t samples_, channels_, rows_, columns_, result_rows_, result_columns_;
  std::int64_t pad_rows_, pad_columns_, stride_;
  std::int64_t seen_rows_, seen_columns_;  // of the padded image
  std::int64_t phase_;                     // columns that are neighbours
  bool is_in_place_;                       // the image needs no padding and is seen as it lies
  std::int64_t row_, image_row_;
  std::int64_t copied_rows_, copied_columns_;        // what is not padding
  std::int64_t image_elements_, gradient_elements_;  // of one channel in scratch; 0: read in place
  std::vector<std::int64_t> offsets_;
};

}  // namespace

bool is_for_depthwise_weights(const KernelRequest& request) {
  ConvProblem p;
  if (!parse_conv(request, ConvPass::Weights, p).empty() || p.spatial_rank() != 2) return false;
  const bool is_depthwise = p.groups > 1 && p.weights[0] == p.groups && p.weights[1] == 1;
  const bool is_empty =
      num_elements(p.data) * num_elements(p.weights) * num_elements(p.result) == 0;
  const bool is_small = p.weights[2] * p.weights[3] < kFewestDepthwiseTaps;
  return is_depthwise && !is_empty && p.dtype == DType::Float32 && !(p.channel_last && is_small) &&
         std::all_of(p.pads.begin(), p.pads.end(), [](std::int64_t pad) { return pad >= 0; });
}

KernelPlan make_depthwise_weights(const KernelRequest& request) {
  ConvProblem problem;
  if (std::string fault = parse_conv(request, ConvPass::Weights, problem); !fault.empty()) {
    return KernelPlan::reject(fault);
  }
  const auto kernel = std::make_shared<DepthwiseWeights>(problem, request.num_threads);
  KernelPlan plan;
  plan.scratch_bytes = kernel->scratch_bytes();
  plan.run = [kernel](std::byte* const* operands, std::byte* scratch) {
    (*kernel)(operand_in<float>(operands, 0), operand_in<float>(operands, 1),
              operand_out<float>(operands, 2), scratch);
  };
  return plan;
}

}  // namespace pando::cpu
