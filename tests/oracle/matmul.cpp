// NumPy's matmul and its gradients.
#include <cmath>

#include "pando/base/error.hpp"
#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

/// Calls visit(lhs position, rhs position, product position) for every product of two elements.
template <class Visit>
void for_each_product(Shape lhs, Shape rhs, Shape product, Visit visit) {
  const bool is_row = lhs.size() == 1, is_column = rhs.size() == 1;
  // A vector on the left is a row, one on the right a column; the result loses that dimension.
  if (is_row) {
    lhs.insert(lhs.begin(), 1);
    product.insert(product.end() - (is_column ? 0 : 1), 1);
  }
  if (is_column) {
    rhs.push_back(1);
    product.push_back(1);
  }
  const std::int64_t inner = lhs.back();
  for_each_element(product, [&](std::int64_t i, const Shape& index) {
    Shape left = index, right = index;
    for (std::int64_t k = 0; k < inner; ++k) {
      left.back() = k;
      right[right.size() - 2] = k;
      visit(broadcast_position(lhs, left), broadcast_position(rhs, right), i);
    }
  });
}

void matmul(const Op&, const Inputs& in, std::vector<Array>& out) {
  const Array &lhs = *in[0], &rhs = *in[1];
  for_each_product(
      lhs.shape, rhs.shape, out[0].shape,
      [&](std::int64_t l, std::int64_t r, std::int64_t o) { out[0][o] += lhs[l] * rhs[r]; });
  const int scale = in.size() > 2 && in[2] != nullptr ? static_cast<int>((*in[2])[0]) : 0;
  for (Number& x : out[0].data) x = std::ldexp(x, scale);
}

void lhs_gradient(const Op&, const Inputs& in, std::vector<Array>& out) {
  const Array &g = *in[0], &rhs = *in[1];
  for_each_product(
      out[0].shape, rhs.shape, g.shape,
      [&](std::int64_t l, std::int64_t r, std::int64_t o) { out[0][l] += g[o] * rhs[r]; });
}

void rhs_gradient(const Op&, const Inputs& in, std::vector<Array>& out) {
  const Array &g = *in[0], &lhs = *in[1];
  for_each_product(
      lhs.shape, out[0].shape, g.shape,
      [&](std::int64_t l, std::int64_t r, std::int64_t o) { out[0][r] += g[o] * lhs[l]; });
}

}  // namespace

void add_matmul_rules(RuleTable& table) {
  table.add("MatMul", matmul);
  table.add("MatMulLhsGrad", lhs_gradient);
  table.add("MatMulRhsGrad", rhs_gradient);
}

}  // namespace pando::oracle
