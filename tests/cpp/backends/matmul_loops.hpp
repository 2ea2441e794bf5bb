// Matrix products by plain loops.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/cpp/backends/kernel_test_util.hpp"

namespace pando::testing {

struct MatMulCase {
  std::int64_t m, n, k;
  bool lhs_transposed = false, rhs_transposed = false;
  DType dtype = DType::Float32;
  bool bias = false;
  std::string epilogue = "";
  int threads = 2;
};

/// `batches` products of lhs (m, k) and rhs (k, n), each sum in float64 from `first` of its column.
inline std::vector<double> product_by_loops(
    const TestTensor& lhs, const TestTensor& rhs, const MatMulCase& c, std::int64_t batches = 1,
    const std::function<double(std::int64_t)>& first = [](std::int64_t) { return 0.0; }) {
  const std::vector<double> left = lhs.values(), right = rhs.values();
  std::vector<double> product(static_cast<std::size_t>(batches * c.m * c.n));
  for (std::int64_t row = 0; row < batches * c.m; ++row) {
    double* const to = product.data() + row * c.n;
    for (std::int64_t j = 0; j < c.n; ++j) to[j] = first(j);
    for (std::int64_t k = 0; k < c.k; ++k) {
      const double factor = left[static_cast<std::size_t>(row * c.k + k)];
      const double* const from = right.data() + (row / c.m * c.k + k) * c.n;
      for (std::int64_t j = 0; j < c.n; ++j) to[j] += factor * from[j];
    }
  }
  return product;
}

}  // namespace pando::testing
