// Resize and RoiAlign.
//
// Resize works on one dimension at a time: the result is a weighted sum of gathers whose indices
// and weights are constants, so its gradient is the same sum of scatter-adds.
#include "pando/ops/resample.hpp"

#include <algorithm>
#include <cmath>

#include "pando/ops/nn_rules.hpp"
#include "pando/ops/rules.hpp"

namespace pando {
namespace {

using enum AttributeType;

/// One term of the sum along a dimension: for every output element the input element and, unless
/// all are 1, its weight.
struct Tap {
  std::vector<std::int32_t> indices;
  std::vector<float> weights;
};

/// In the precision of Real.
template <class Real>
Real source_coordinate(const std::string& mode, Real i, Real n, Real scale) {
  const Real one = 1, half = Real(0.5);
  const Real half_pixel = (i + half) / scale - half;
  if (mode == "half_pixel") return half_pixel;
  if (mode == "pytorch_half_pixel") return n * scale > one ? half_pixel : Real(0);
  if (mode == "asymmetric") return i / scale;
  return n * scale == one ? Real(0) : i * (n - one) / (n * scale - one);  // align_corners
}

double nearest(const std::string& mode, double x) {
  if (mode == "round_prefer_floor") return std::ceil(x - 0.5);
  if (mode == "round_prefer_ceil") return std::round(x);
  return mode == "floor" ? std::floor(x) : std::ceil(x);
}

/// R. Keys' cubic convolution kernel with A = -0.75 at distance `d`.
double keys_kernel(double d) {
  constexpr double a = -0.75;
  d = std::abs(d);
  if (d <= 1.0) return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0;
  return d < 2.0 ? ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a : 0.0;
}

std::vector<Tap> resize_taps(const Op& op, std::int64_t input, std::int64_t output, double scale) {
  const std::string& mode = op.attributes.text("mode");
  const std::string& nearest_mode = op.attributes.text("nearest_mode");
  const std::string& coordinates = op.attributes.text("coordinate_transformation_mode");
  const std::size_t count = mode == "nearest" ? 1 : mode == "linear" ? 2 : 4;
  std::vector<Tap> taps(count);
  const auto add = [&](std::size_t tap, double index, double weight) {
    const double clamped = std::clamp(index, 0.0, static_cast<double>(input - 1));
    taps[tap].indices.push_back(static_cast<std::int32_t>(clamped));
    if (count > 1) taps[tap].weights.push_back(static_cast<float>(weight));
  };
  for (std::int64_t i = 0; i < output; ++i) {
    if (mode == "linear") {
      const auto x = source_coordinate(coordinates, static_cast<float>(i),
                                       static_cast<float>(input), static_cast<float>(scale));
      const float inside = std::max(x, 0.0f);
      const float weight = inside - std::floor(inside);
      add(0, std::floor(x), 1.0f - weight);
      add(1, std::ceil(x), weight);
      continue;
    }
    const auto x =
        source_coordinate(coordinates, static_cast<double>(i), static_cast<double>(input), scale);
    if (mode == "nearest") {
      add(0, nearest(nearest_mode, x), 1.0);
    } else {
      const double base = std::floor(x);
      for (std::size_t k = 0; k < 4; ++k) {
        const double at = base + static_cast<double>(k) - 1.0;
        add(k, at, keys_kernel(x - at));
      }
    }
  }
  return taps;
}

void check_one_of(const Op& op, const char* name, std::initializer_list<const char*> known) {
  const std::string& value = op.attributes.text(name);
  if (std::find(known.begin(), known.end(), value) != known.end()) return;
  std::string text;
  for (const char* choice : known) text += str_cat(text.empty() ? "" : ", ", choice);
  throw ValueError(
      str_cat(describe(op), ": unknown ", name, " '", value, "'; wanted one of ", text));
}

Shape resized_shape(const Op& op, const Shape& input) {
  const Floats& scales = op.attributes.floats("scales");
  check_inputs(op, scales.size() == input.size(),
               str_cat("wanted one scale per dimension (", input.size(), "), not ", scales.size()));
  Shape shape = input;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    check_inputs(op, scales[i] > 0.0, "wanted positive scales");
    shape[i] = static_cast<std::int64_t>(std::floor(static_cast<double>(input[i]) * scales[i]));
    check_inputs(op, shape[i] >= 1,
                 str_cat("scale ", scales[i], " leaves nothing of dimension ", i));
  }
  return shape;
}

const std::vector<AttributeSpec> kResizeAttributes = {{"scales", NumberList},
                                                      {"mode", Text},
                                                      {"nearest_mode", Text},
                                                      {"coordinate_transformation_mode", Text}};

/// Dimensions that change, in the order in which the forward op treats them.
std::vector<std::size_t> resized_axes(const Op& op) {
  const Floats& scales = op.attributes.floats("scales");
  std::vector<std::size_t> axes;
  for (std::size_t i = 0; i < scales.size(); ++i) {
    if (scales[i] != 1.0) axes.push_back(i);
  }
  if (op.attributes.text("mode") == "cubic") std::reverse(axes.begin(), axes.end());
  return axes;
}

/// `t` times the weights of `tap` along `axis`.
Tensor* weighted(OpBuilder& builder, Tensor* t, const Tap& tap, std::size_t axis) {
  if (tap.weights.empty()) return t;
  const TensorInfo info{
      DType::Float32,
      axis_shape(static_cast<std::int64_t>(t->shape().size()), static_cast<std::int64_t>(axis),
                 static_cast<std::int64_t>(tap.weights.size())),
      {}};
  Tensor* weights = builder.cast(builder.constant(info, tap.weights.data()), t->dtype());
  return builder.make("Mul", {t, weights});
}

Tensor* index_constant(OpBuilder& builder, const Tap& tap) {
  const TensorInfo info{DType::Int32, {static_cast<std::int64_t>(tap.indices.size())}, {}};
  return builder.constant(info, tap.indices.data());
}

Tensor* sum_of(OpBuilder& builder, Tensor* sum, Tensor* term) {
  return sum == nullptr ? term : builder.make("Add", {sum, term});
}

DType resize_dtype(const Op& op) {
  const bool weights = op.attributes.text("mode") != "nearest";
  const DType dtype = op.input(0)->dtype();
  return weights && is_half_precision(dtype) ? DType::Float32 : dtype;
}

std::vector<Tensor*> expand_resize(OpBuilder& builder, const Op& op) {
  const Floats& scales = op.attributes.floats("scales");
  const Shape& output = op.output(0)->shape();
  Tensor* t = builder.cast(op.input(0), resize_dtype(op));
  for (std::size_t axis : resized_axes(op)) {
    Tensor* sum = nullptr;
    for (const Tap& tap : resize_taps(op, t->shape()[axis], output[axis], scales[axis])) {
      Tensor* part = builder.make("Gather", {t, index_constant(builder, tap)},
                                  {{"axis", static_cast<std::int64_t>(axis)}});
      sum = sum_of(builder, sum, weighted(builder, part, tap, axis));
    }
    t = sum;
  }
  t = builder.cast(t, op.output(0)->dtype());
  return {t == op.input(0) ? builder.make("Identity", {t}) : t};
}

std::vector<Tensor*> expand_resize_grad(OpBuilder& builder, const Op& op) {
  const Floats& scales = op.attributes.floats("scales");
  const Shape& input = op.attributes.ints("input_shape");
  Tensor* g = builder.cast(op.input(0), resize_dtype(op));
  std::vector<std::size_t> axes = resized_axes(op);
  std::reverse(axes.begin(), axes.end());
  for (std::size_t axis : axes) {
    Shape shape = g->shape();
    shape[axis] = input[axis];
    Tensor* sum = nullptr;
    for (const Tap& tap : resize_taps(op, input[axis], g->shape()[axis], scales[axis])) {
      Tensor* part = builder.make(
          "GatherGrad", {weighted(builder, g, tap, axis), index_constant(builder, tap)},
          {{"axis", static_cast<std::int64_t>(axis)}, {"input_shape", Ints(shape)}});
      sum = sum_of(builder, sum, part);
    }
    g = sum;
  }
  g = builder.cast(g, op.output(0)->dtype());
  return {g == op.input(0) ? builder.make("Identity", {g}) : g};
}

OpDef resize() {
  OpDef def;
  def.name = "Resize";
  def.doc =
      "Inputs: 0 t. Attributes: scales (one per dimension), mode (nearest, linear, cubic), "
      "nearest_mode (round_prefer_floor, round_prefer_ceil, floor, ceil), "
      "coordinate_transformation_mode (half_pixel, pytorch_half_pixel, asymmetric, align_corners). "
      "Output dimensions floor(dim * scale); cubic is Keys' kernel with A = -0.75.";
  def.attributes = kResizeAttributes;
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    check_one_of(op, "mode", {"nearest", "linear", "cubic"});
    check_one_of(op, "nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
    check_one_of(
        op, "coordinate_transformation_mode",
        {"half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "tf_crop_and_resize"});
    return std::vector<TensorInfo>{plain_info(t.dtype(), resized_shape(op, t.shape()))};
  };
  def.check_execution = [](const Op& op) {
    needs_floats(op);
    check_inputs(op, op.attributes.text("coordinate_transformation_mode") != "tf_crop_and_resize",
                 "wanted a coordinate_transformation_mode other than tf_crop_and_resize, which is "
                 "not supported");
  };
  def.expand = expand_resize;
  def.differentiable_inputs = {0};
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr || !builder.wants(0)) return;
    if (op.attributes.text("mode") == "linear") {
      throw Error(str_cat(describe(op), ": Resize mode 'linear' is not supported when training."));
    }
    Attributes attributes = op.attributes;
    attributes.set("input_shape", Ints(op.input(0)->shape()));
    builder.set_input_gradient(0, builder.make("ResizeGrad", {g}, attributes));
  };
  return def;
}

OpDef resize_grad() {
  OpDef def;
  def.name = "ResizeGrad";
  def.doc = "Inputs: 0 g. Attributes: those of Resize and input_shape. The transpose of Resize.";
  def.attributes = kResizeAttributes;
  def.attributes.push_back({"input_shape", IntList});
  def.infer = [](const Op& op) {
    const Tensor& g = needed_input(op, 0, "g");
    const Shape& shape = op.attributes.ints("input_shape");
    check_inputs(op, resized_shape(op, shape) == g.shape(),
                 str_cat("wanted g of shape ", shape_text(resized_shape(op, shape))));
    return std::vector<TensorInfo>{plain_info(g.dtype(), shape)};
  };
  def.check_execution = needs_floats;
  def.expand = expand_resize_grad;
  return def;
}

// RoiAlign

const std::vector<AttributeSpec> kRoiAttributes = {
    {"output_size", IntList}, {"spatial_scale", Number}, {"sampling_ratio", Integer}};

void check_rois(const Op& op) {
  const Tensor& rois = needed_input(op, 1, "rois");
  const Tensor& batch_index = needed_input(op, 2, "batch_index");
  check_inputs(op, rois.shape().size() == 2 && rois.shape()[1] == 4, "wanted rois of shape (R, 4)");
  check_inputs(op, batch_index.shape() == Shape{rois.shape()[0]},
               "wanted a batch_index of shape (R,)");
  const Ints& size = op.attributes.ints("output_size");
  check_inputs(op, size.size() == 2 && size[0] >= 1 && size[1] >= 1,
               "wanted two output sizes of at least 1");
}

void needs_float_regions(const Op& op) {
  require_float(op, 0);
  require_float(op, 1);
  require_integer(op, 2);
}

/// Kernels compute in the dtype of input 0, half precision in float32, and read the rois in that.
std::vector<Tensor*> expand_regions(OpBuilder& builder, const Op& op) {
  const DType computed = op.input(0)->dtype();
  DType regions = op.input(1)->dtype();
  if (!is_half_precision(computed)) regions = computed;
  if (is_half_precision(computed) && regions == DType::Float64) regions = DType::Float32;
  if (regions == op.input(1)->dtype()) return {};
  Tensor* rois = builder.cast(op.input(1), regions);
  return {builder.make(op.kind_name(), {op.input(0), rois, op.input(2)}, op.attributes)};
}

Shape roi_output_shape(const Op& op, std::int64_t channels) {
  const Ints& size = op.attributes.ints("output_size");
  return {op.input(1)->shape()[0], channels, size[0], size[1]};
}

OpDef roi_align() {
  OpDef def;
  def.name = "RoiAlign";
  def.doc =
      "Inputs: 0 t (N, C, H, W), 1 rois (R, 4) as x1, y1, x2, y2, 2 batch_index (R,) int32. "
      "Attributes: output_size (2), spatial_scale, sampling_ratio. torchvision's "
      "roi_align(aligned=False): coordinates times spatial_scale, ROI sides at least 1, mean of "
      "sampling_ratio^2 bilinear samples per bin (0 or less: ceil(bin size) per side). Output (R, "
      "C, output_size[0], output_size[1]), dtype of t.";
  def.min_inputs = def.max_inputs = 3;
  def.attributes = kRoiAttributes;
  def.infer = [](const Op& op) {
    const Tensor& t = needed_input(op, 0, "t");
    check_inputs(op, t.shape().size() == 4, "wanted data of shape (N, C, H, W)");
    check_rois(op);
    return std::vector<TensorInfo>{plain_info(t.dtype(), roi_output_shape(op, t.shape()[1]))};
  };
  def.check_execution = needs_float_regions;
  def.expand = expand_regions;
  def.differentiable_inputs = {0};
  def.gradient = [](GradientBuilder& builder, const Op& op) {
    Tensor* g = builder.output_gradient(0);
    if (g == nullptr || !builder.wants(0)) return;
    Attributes attributes = op.attributes;
    attributes.set("input_shape", Ints(op.input(0)->shape()));
    builder.set_input_gradient(
        0,
        builder.make("RoiAlignGrad",
                     {g, builder.forward(op.input(1)), builder.forward(op.input(2))}, attributes));
  };
  return def;
}

OpDef roi_align_grad() {
  OpDef def;
  def.name = "RoiAlignGrad";
  def.doc =
      "Inputs: 0 g, 1 rois, 2 batch_index. Attributes: those of RoiAlign and input_shape. Gradient "
      "of RoiAlign's data.";
  def.min_inputs = def.max_inputs = 3;
  def.attributes = kRoiAttributes;
  def.attributes.push_back({"input_shape", IntList});
  def.infer = [](const Op& op) {
    const Tensor& g = needed_input(op, 0, "g");
    check_rois(op);
    const Shape& shape = op.attributes.ints("input_shape");
    check_inputs(op, shape.size() == 4 && g.shape() == roi_output_shape(op, shape[1]),
                 "wanted g of RoiAlign's output shape");
    return std::vector<TensorInfo>{plain_info(g.dtype(), shape)};
  };
  def.check_execution = needs_float_regions;
  def.expand = expand_regions;
  return def;
}

}  // namespace

void register_resample_ops(Registry& registry) {
  registry.add(resize());
  registry.add(resize_grad());
  registry.add(roi_align());
  registry.add(roi_align_grad());
}

}  // namespace pando
