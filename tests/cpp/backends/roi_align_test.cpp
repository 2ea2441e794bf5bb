#include "kernel_test_util.hpp"

namespace pando::testing {
namespace {

/// torchvision.ops.roi_align(aligned=False) of a plane x + 10 y is that plane at the bin centres.
TEST(RoiAlign, SamplesALinearImageAtBinCentres) {
  TestTensor t(DType::Float32, {2, 1, 8, 8}), rois(DType::Float32, {2, 4});
  TestTensor batch(DType::Int32, {2}), out(DType::Float32, {2, 1, 2, 2});
  for (int i = 0; i < 128; ++i) {
    const int column = i % 8, row = i / 8 % 8, plane = i / 64;
    t.set(i, column + 10 * row + 100 * plane);
  }
  rois.fill({2, 2, 10, 6, 0, 0, 0.5, 0.5});  // the second is widened to one pixel
  batch.fill({1, 0});
  const Attributes attributes = {
      {"output_size", Ints{2, 2}}, {"spatial_scale", 0.5}, {"sampling_ratio", std::int64_t{2}}};
  run_kernel("RoiAlign", attributes, {&t, &rois, &batch}, {&out});
  // x bins 1..5 halves: centres 2 and 4; y bins 1..3: centres 1.5 and 2.5.
  expect_close(out, {117, 119, 127, 129, 2.75, 3.25, 7.75, 8.25}, 1e-5);
}

TEST(RoiAlignGrad, IsTheTransposeOfRoiAlign) {
  TestTensor t(DType::Float64, {2, 2, 5, 6}), rois(DType::Float64, {3, 4}),
      batch(DType::Int32, {3});
  TestTensor out(DType::Float64, {3, 2, 2, 3}), g(DType::Float64, {3, 2, 2, 3});
  TestTensor dx(DType::Float64, {2, 2, 5, 6});
  t.randomise(46);
  g.randomise(47);
  rois.fill({0, 0, 4, 4, 1, 2, 9, 9, -3, 0, 2, 1});
  batch.fill({0, 1, 0});
  const Attributes attributes = {{"output_size", Ints{2, 3}},
                                 {"spatial_scale", 0.75},
                                 {"sampling_ratio", std::int64_t{0}},
                                 {"input_shape", Ints{2, 2, 5, 6}}};
  run_kernel("RoiAlign", attributes, {&t, &rois, &batch}, {&out});
  run_kernel("RoiAlignGrad", attributes, {&g, &rois, &batch}, {&dx});
  double forward = 0, backward = 0;
  for (std::int64_t i = 0; i < out.size(); ++i) forward += out.get(i) * g.get(i);
  for (std::int64_t i = 0; i < t.size(); ++i) backward += t.get(i) * dx.get(i);
  EXPECT_NEAR(forward, backward, 1e-10);
}

}  // namespace
}  // namespace pando::testing
