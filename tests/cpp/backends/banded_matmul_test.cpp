// Products of matrices that are zero outside of bands.
#include "pando/backends/cpu/kernels/matmul.hpp"
#include "tests/cpp/backends/matmul_loops.hpp"
#include "tests/cpp/backends/simd_targets.hpp"

namespace pando::testing {
namespace {

using cpu::MatMulBands;

struct BandedCase {
  std::int64_t m, n, k;
  MatMulBands bands;
  int threads = 2;
};

bool in_band(const std::optional<Band>& band, std::int64_t row, std::int64_t column) {
  return !band || (-band->lower <= column - row && column - row <= band->upper);
}

/// Two heads of one matrix, in every order of the operands. Says how the kernel does it.
std::string check_banded(const BandedCase& c, DType dtype, int order, std::int64_t batch) {
  const bool lhs_transposed = (order & 1) != 0, rhs_transposed = (order & 2) != 0;
  const auto heads = [&](std::int64_t rows, std::int64_t columns, bool transposed) {
    Strides strides = {2 * rows * columns, rows * columns, columns, 1};
    if (transposed) strides = {2 * rows * columns, rows * columns, 1, rows};
    return strided(dtype, {batch, 2, rows, columns}, strides);
  };
  TestTensor lhs(heads(c.m, c.k, lhs_transposed)), rhs(heads(c.k, c.n, rhs_transposed));
  TestTensor out(dtype, {batch, 2, c.m, c.n});
  lhs.randomise(21, -1, 1);
  rhs.randomise(22, -1, 1);
  const auto clear = [](TestTensor& matrix, const std::optional<Band>& band) {
    const std::int64_t rows = matrix.shape()[2], columns = matrix.shape()[3];
    for (std::int64_t i = 0; i < matrix.size(); ++i) {
      if (!in_band(band, i / columns % rows, i % columns)) matrix.set(i, 0);
    }
  };
  clear(lhs, c.bands.lhs);
  clear(rhs, c.bands.rhs);
  Attributes attributes;
  if (c.bands.lhs) attributes.set("lhs_band", c.bands.lhs->attribute());
  if (c.bands.rhs) attributes.set("rhs_band", c.bands.rhs->attribute());
  if (c.bands.out) attributes.set("out_band", c.bands.out->attribute());
  const std::string how = run_kernel("MatMul", attributes, {&lhs, &rhs}, {&out}, c.threads);
  std::vector<double> wanted = product_by_loops(lhs, rhs, {c.m, c.n, c.k}, 2 * batch);
  for (std::int64_t i = 0; i < out.size(); ++i) {
    if (in_band(c.bands.out, i / c.n % c.m, i % c.n)) continue;
    out.set(i, 0);
    wanted[static_cast<std::size_t>(i)] = 0;
  }
  expect_close(out, wanted, is_half_precision(dtype) ? 2 * epsilon_of(dtype) : 4e-5, how);
  return how;
}

TEST(BandedMatMul, BandsMatchLoopsInEveryOrder) {
  const Band causal{600, 0}, upper{0, 600}, window{40, 0}, shifted{190, 60}, all{600, 600};
  const std::vector<BandedCase> cases = {
      {150, 150, 20, {{}, {}, causal}},      {150, 20, 150, {causal, {}, {}}},
      {150, 20, 150, {upper, {}, {}}},       {20, 150, 150, {{}, causal, {}}},
      {20, 150, 150, {{}, window, {}}},      {150, 200, 13, {{}, {}, shifted}},
      {200, 17, 150, {window, {}, {}}},      {150, 150, 150, {causal, upper, {}}},
      {150, 150, 150, {causal, {}, causal}}, {150, 150, 20, {{}, {}, all}},
      {530, 530, 3, {{}, {}, window}},       {30, 30, 30, {causal, causal, causal}},
  };
  for (const BandedCase& c : cases) {
    for (int order = 0; order < 4; ++order) {
      BandedCase each = c;
      each.threads = 1 + order % 3;
      check_banded(each, DType::Float32, order, order < 2 ? 1 : 2);
    }
    for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float64})
      check_banded(c, dtype, 2, 1);
  }
}

TEST(BandedMatMul, BandsSkipBlocks) {
  const auto how = [](const BandedCase& c) { return check_banded(c, DType::Float32, 0, 1); };
  const Band causal{1024, 0};
  EXPECT_NE(how({512, 512, 4, {{}, {}, causal}}).find("8 blocks, 56 %"), std::string::npos);
  EXPECT_NE(how({512, 4, 512, {causal, {}, {}}}).find("8 blocks, 56 %"), std::string::npos);
  EXPECT_NE(how({4, 512, 512, {{}, causal, {}}}).find("8 blocks, 56 %"), std::string::npos);
  EXPECT_NE(how({512, 512, 4, {{}, {}, Band{63, 0}}}).find("8 blocks, 23 %"), std::string::npos);
  EXPECT_EQ(how({512, 512, 4, {{}, {}, Band{500, 500}}}).find("blocks"), std::string::npos);
}

class BandedMatMulOnTarget : public SimdTargetTest {};

TEST_P(BandedMatMulOnTarget, BandsMatchLoops) {
  for (int order = 0; order < 4; ++order) {
    check_banded({200, 200, 70, {{}, {}, Band{400, 0}}}, DType::Float32, order, 1);
    check_banded({200, 40, 200, {Band{400, 0}, {}, {}}}, DType::Float32, order, 1);
    check_banded({40, 200, 200, {{}, Band{0, 400}, {}}}, DType::Float32, order, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, BandedMatMulOnTarget, kSimdTargets, target_name);

}  // namespace
}  // namespace pando::testing
