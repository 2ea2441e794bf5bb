// Reductions over members against plain sums in double.
#include "pando/runtime/reduce.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <vector>

#include "pando/base/half.hpp"

namespace pando {
namespace {

using Formula = std::function<double(const std::vector<double>&)>;

double fold(const std::vector<double>& xs, const std::function<double(double, double)>& next) {
  double total = xs[0];
  for (std::size_t i = 1; i < xs.size(); ++i) total = next(total, xs[i]);
  return total;
}

double sum_of(const std::vector<double>& xs) { return fold(xs, std::plus<>()); }

const std::map<Reduction, Formula>& formulas() {
  static const std::map<Reduction, Formula> all = {
      {Reduction::Add, sum_of},
      {Reduction::Mean, [](const auto& xs) { return sum_of(xs) / static_cast<double>(xs.size()); }},
      {Reduction::Mul, [](const auto& xs) { return fold(xs, std::multiplies<>()); }},
      {Reduction::Min, [](const auto& xs) { return *std::min_element(xs.begin(), xs.end()); }},
      {Reduction::Max, [](const auto& xs) { return *std::max_element(xs.begin(), xs.end()); }},
      {Reduction::And,
       [](const auto& xs) {
         return std::all_of(xs.begin(), xs.end(), [](double x) { return x != 0; }) ? 1.0 : 0.0;
       }},
      {Reduction::Or,
       [](const auto& xs) {
         return std::any_of(xs.begin(), xs.end(), [](double x) { return x != 0; }) ? 1.0 : 0.0;
       }},
      {Reduction::SquareAdd,
       [](std::vector<double> xs) {
         for (double& x : xs) x *= x;
         return sum_of(xs);
       }},
  };
  return all;
}

template <class T>
std::vector<T> run(Reduction reduction, DType dtype, const std::vector<std::vector<T>>& inputs) {
  std::vector<const std::byte*> pointers;
  for (const auto& input : inputs) {
    pointers.push_back(reinterpret_cast<const std::byte*>(input.data()));
  }
  std::vector<T> result(inputs[0].size());
  reduce_elements(reduction, dtype, pointers, static_cast<std::int64_t>(result.size()),
                  reinterpret_cast<std::byte*>(result.data()));
  return result;
}

template <class T>
T stored(double value) {
  return static_cast<T>(value);
}
/// The sums in these tests are exact in both formats; products and means may be rounded.
template <DType kFormat>
struct Half {
  std::uint16_t bits;
  bool operator==(const Half&) const = default;
};
template <>
Half<DType::Float16> stored(double value) {
  return {float_to_half(static_cast<float>(value))};
}
template <>
Half<DType::BFloat16> stored(double value) {
  return {float_to_bfloat16(static_cast<float>(value))};
}

template <class T>
void check_all(DType dtype, double low) {
  constexpr int kCount = 37;
  for (const auto& [reduction, formula] : formulas()) {
    for (int members : {1, 2, 3, 4}) {
      std::vector<std::vector<T>> inputs(static_cast<std::size_t>(members));
      std::vector<T> wanted;
      for (int i = 0; i < kCount; ++i) {
        std::vector<double> xs;
        for (int m = 0; m < members; ++m) {
          xs.push_back(low + static_cast<double>((i * 5 + m * 3) % 7));
          inputs[static_cast<std::size_t>(m)].push_back(stored<T>(xs.back()));
        }
        double value = formula(xs);
        if (std::is_integral_v<T>) value = std::trunc(value);
        if (dtype == DType::Float32) value = static_cast<float>(value);
        wanted.push_back(stored<T>(value));
      }
      EXPECT_TRUE(run(reduction, dtype, inputs) == wanted)
          << reduction_word(reduction) << " of " << members << " " << dtype;
    }
  }
}

TEST(Reduce, EqualsItsFormula) {
  check_all<float>(DType::Float32, -3.0);
  check_all<Half<DType::Float16>>(DType::Float16, -3.0);
  check_all<Half<DType::BFloat16>>(DType::BFloat16, -3.0);
  check_all<std::int32_t>(DType::Int32, -3.0);
  check_all<std::uint32_t>(DType::UInt32, 0.0);
}

TEST(Reduce, IntegersWrap) {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(run<std::int32_t>(Reduction::Add, DType::Int32, {{kMost}, {1}})[0],
            std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(run<std::uint32_t>(Reduction::SquareAdd, DType::UInt32, {{1u << 16}, {3}})[0], 9u);
}

TEST(Reduce, AddsInTheOrderOfTheMembers) {
  const std::vector<std::vector<float>> inputs = {{1e8f}, {-1e8f}, {1.0f}, {0x1p-20f}};
  EXPECT_EQ(run(Reduction::Add, DType::Float32, inputs)[0], 1.0f + 0x1p-20f);
}

TEST(Reduce, NanWins) {
  const float nan = std::nanf("");
  for (Reduction reduction : {Reduction::Min, Reduction::Max, Reduction::Add}) {
    EXPECT_TRUE(std::isnan(run<float>(reduction, DType::Float32, {{1.0f}, {nan}, {2.0f}})[0]));
    EXPECT_TRUE(std::isnan(run<float>(reduction, DType::Float32, {{nan}, {1.0f}})[0]));
  }
}

}  // namespace
}  // namespace pando
