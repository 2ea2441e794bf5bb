// Triangular systems and the Cholesky factor, element by element.
#include <cmath>

#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

void triangular_solve(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Shape& shape = out[0].shape;
  const std::int64_t n = shape[shape.size() - 2], m = shape.back();
  const bool upper = op.attributes.flag_or("upper", false);
  const bool transpose = op.attributes.flag_or("transpose", false);
  const bool unit = op.attributes.flag_or("unit_diagonal", false);
  for (std::int64_t i = 0; i < out[0].size(); ++i) {
    // Rows in the order in which they are known.
    const std::int64_t b = i / (n * m), step = i / m % n, c = i % m;
    const bool forward = upper == transpose;
    const std::int64_t row = forward ? step : n - 1 - step;
    const auto at = [&](std::int64_t r, std::int64_t k) {
      return (*in[0])[b * n * n + (transpose ? k * n + r : r * n + k)];
    };
    Number sum = (*in[1])[(b * n + row) * m + c];
    for (std::int64_t k = forward ? 0 : row + 1; k < (forward ? row : n); ++k) {
      sum -= at(row, k) * out[0][(b * n + k) * m + c];
    }
    out[0][(b * n + row) * m + c] = unit ? sum : sum / at(row, row);
  }
}

/// Row by row: each element from those before it.
void cholesky(const Op&, const Inputs& in, std::vector<Array>& out) {
  const std::int64_t n = out[0].shape.back();
  for (std::int64_t b = 0; b < out[0].size(); b += n * n) {
    bool is_definite = true;
    for (std::int64_t i = 0; i < n * n; ++i) {
      const std::int64_t row = i / n, column = i % n;
      if (column > row) continue;
      Number sum = 0.5L * ((*in[0])[b + i] + (*in[0])[b + column * n + row]);
      for (std::int64_t k = 0; k < column; ++k) {
        sum -= out[0][b + row * n + k] * out[0][b + column * n + k];
      }
      is_definite = is_definite && (row != column || sum > 0.0L);
      out[0][b + i] = row == column ? std::sqrt(sum) : sum / out[0][b + column * n + column];
    }
    for (std::int64_t i = 0; i < n * n && !is_definite; ++i) {
      out[0][b + i] = std::numeric_limits<Number>::quiet_NaN();
    }
  }
}

}  // namespace

void add_linear_algebra_rules(RuleTable& table) {
  table.add("TriangularSolve", triangular_solve);
  table.add("Cholesky", cholesky);
}

}  // namespace pando::oracle
