// NumPy's matmul.
#include <cmath>

#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

void matmul(const Op&, const Inputs& in, std::vector<Array>& out) {
  Array lhs = *in[0], rhs = *in[1];
  Shape shape = out[0].shape;
  // A vector on the left is a row, one on the right a column; the result loses that dimension.
  if (lhs.shape.size() == 1) {
    lhs.shape.insert(lhs.shape.begin(), 1);
    shape.insert(shape.end() - (in[1]->shape.size() == 1 ? 0 : 1), 1);
  }
  if (rhs.shape.size() == 1) {
    rhs.shape.push_back(1);
    shape.push_back(1);
  }
  const std::int64_t inner = lhs.shape.back();
  const int scale = in.size() > 2 && in[2] != nullptr ? static_cast<int>((*in[2])[0]) : 0;
  for_each_element(shape, [&](std::int64_t i, const Shape& index) {
    Shape left = index, right = index;
    Number sum = 0.0L;
    for (std::int64_t k = 0; k < inner; ++k) {
      left.back() = k;
      right[right.size() - 2] = k;
      sum += lhs[broadcast_position(lhs.shape, left)] * rhs[broadcast_position(rhs.shape, right)];
    }
    out[0][i] = std::ldexp(sum, scale);
  });
}

}  // namespace

void add_matmul_rules(RuleTable& table) { table.add("MatMul", matmul); }

}  // namespace pando::oracle
