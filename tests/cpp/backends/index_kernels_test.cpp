#include <algorithm>
#include <limits>

#include "kernel_test_util.hpp"

namespace pando::testing {
namespace {

const std::vector<DType> kDTypes = {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64,
                                    DType::Int8,    DType::Int32,    DType::UInt64};

Attributes axis_is(std::int64_t axis) { return {{"axis", axis}}; }

double low_of(DType dtype) { return dtype_name(dtype)[0] == 'u' ? 0 : -3; }

TEST(Gather, TakesRowsAndGivesZerosOutOfRange) {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t axis : {0, 1, 2, -1}) {
      const std::int64_t d = axis < 0 ? 2 : axis;
      TestTensor t(dtype, {3, 4, 5}), indices(DType::Int32, {2, 3});
      t.randomise(50, low_of(dtype), 3);
      indices.fill({2, 0, 1, 2, -1, 7});
      Shape shape = {3, 4, 5};
      shape.erase(shape.begin() + d);
      shape.insert(shape.begin() + d, {2, 3});
      TestTensor out(dtype, shape);
      run_kernel("Gather", axis_is(axis), {&t, &indices}, {&out});
      const std::int64_t inner = d == 0 ? 20 : d == 1 ? 5 : 1, size = t.shape()[d];
      std::vector<double> wanted;
      for (std::int64_t i = 0; i < out.size(); ++i) {
        const auto at = static_cast<std::int64_t>(indices.get(i / inner % 6));
        const bool inside = at >= 0 && at < size;
        wanted.push_back(inside ? t.get((i / inner / 6 * size + at) * inner + i % inner) : 0);
      }
      expect_close(out, wanted, 0);
    }
  }
}

TEST(Gather, GroupsSelectInTheirOwnPart) {
  TestTensor t(DType::Float32, {2, 3, 2}), indices(DType::UInt32, {2, 2});
  TestTensor out(DType::Float32, {2, 2, 2});
  t.fill({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  indices.fill({2, 0, 1, 1});
  run_kernel("Gather", {{"axis", std::int64_t{1}}, {"group_size", std::int64_t{2}}}, {&t, &indices},
             {&out});
  expect_close(out, {4, 5, 0, 1, 8, 9, 8, 9}, 0);
}

/// Sums of rows of (400, 100) into `size` ones; few of many are not sorted.
void check_row_sums(DType dtype, std::int64_t size, int threads) {
  TestTensor g(dtype, {400, 100}), indices(DType::Int32, {400}), out(dtype, {size, 100});
  g.randomise(51);
  indices.randomise(52, -1, static_cast<double>(size) + 2);
  const std::string how =
      run_kernel("GatherGrad", {{"axis", std::int64_t{0}}, {"input_shape", Ints{size, 100}}},
                 {&g, &indices}, {&out}, threads);
  EXPECT_EQ(how.find("GatherGrad: rows") == 0, size < 1600 || is_half_precision(dtype)) << how;
  std::vector<double> wanted(static_cast<std::size_t>(size * 100));
  for (std::int64_t i = 0; i < 400; ++i) {
    const auto at = static_cast<std::int64_t>(indices.get(i));
    for (std::int64_t j = 0; at >= 0 && at < size && j < 100; ++j) {
      wanted[static_cast<std::size_t>(at * 100 + j)] += g.get(i * 100 + j);
    }
  }
  expect_close(out, wanted, 5 * epsilon_of(dtype));
}

TEST(GatherGrad, AddsRepeatedRowsAlikeForAnyThreadCount) {
  for (const DType dtype :
       {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64, DType::Int32}) {
    for (const std::int64_t size : {7, 1601}) {
      for (const int threads : {1, 2, 3}) check_row_sums(dtype, size, threads);
    }
  }
}

/// Element of a (3, 4) tensor for position i of (2, 4) indices along axis 0.
std::int64_t target(const TestTensor& indices, std::int64_t i) {
  const auto at = static_cast<std::int64_t>(indices.get(i));
  return at < 0 || at >= 3 ? -1 : at * 4 + i % 4;
}

TEST(GatherElements, PicksOneElementPerPosition) {
  for (const DType dtype : kDTypes) {
    TestTensor t(dtype, {3, 4}), indices(DType::Int64, {2, 4}), out(dtype, {2, 4});
    t.randomise(53, low_of(dtype), 3);
    indices.fill({0, 1, 2, 3, 2, 2, -1, 0});
    run_kernel("GatherElements", axis_is(0), {&t, &indices}, {&out});
    std::vector<double> wanted;
    for (std::int64_t i = 0; i < 8; ++i) {
      const std::int64_t at = target(indices, i);
      wanted.push_back(at < 0 ? 0 : t.get(at));
    }
    expect_close(out, wanted, 0);
  }
}

TEST(Scatter, SetsElementsInACopyOrInPlace) {
  for (const DType dtype : kDTypes) {
    TestTensor t(dtype, {3, 4}), indices(DType::Int32, {2, 4}), values(dtype, {2, 4});
    TestTensor out(dtype, {3, 4});
    t.randomise(54, low_of(dtype), 3);
    values.randomise(55, low_of(dtype), 3);
    indices.fill({0, 1, 2, 3, 2, 2, 0, 0});
    std::vector<double> wanted = t.values();
    for (std::int64_t i = 0; i < 8; ++i) {
      if (target(indices, i) >= 0) wanted[target(indices, i)] = values.get(i);
    }
    run_kernel("Scatter", axis_is(0), {&t, &indices, &values}, {&out});
    expect_close(out, wanted, 0);
    run_kernel("Scatter", axis_is(0), {&t, &indices, &values}, {&t});
    expect_close(t, wanted, 0);
  }
}

TEST(ScatterReduce, ReducesWithAndWithoutInitialValues) {
  for (const DType dtype :
       {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64, DType::Int32}) {
    for (const std::string reduction : {"sum", "min", "max", "none"}) {
      for (const bool has_initial : {false, true}) {
        TestTensor data(dtype, {2, 4}), indices(DType::UInt8, {2, 4}), initial(dtype, {3, 4});
        TestTensor out(dtype, {3, 4});
        data.randomise(56, -5, 5);
        initial.randomise(57, -5, 5);
        indices.fill({0, 1, 2, 3, 0, 2, 2, 0});
        std::vector<double> wanted = has_initial ? initial.values() : std::vector<double>(12);
        std::vector<bool> touched(12, has_initial);
        for (std::int64_t i = 0; i < 8; ++i) {
          const std::int64_t at = target(indices, i);
          if (at < 0) continue;
          const double v = data.get(i), old = wanted[at];
          const bool replace = reduction == "none" || (!touched[at] && reduction != "sum");
          wanted[at] = replace              ? v
                       : reduction == "sum" ? old + v
                       : reduction == "min" ? std::min(old, v)
                                            : std::max(old, v);
          touched[at] = true;
        }
        run_kernel("ScatterReduce", {{"axis", std::int64_t{0}}, {"reduction", reduction}},
                   {&data, &indices, has_initial ? &initial : nullptr}, {&out});
        expect_close(out, wanted, epsilon_of(dtype), reduction);
      }
    }
  }
}

TEST(DynamicSlice, CopiesTheWindowAndClampsItsStart) {
  for (const DType dtype : kDTypes) {
    TestTensor t(dtype, {4, 3, 5}), index(DType::UInt32, {2}), out(dtype, {2, 3, 3});
    t.randomise(58, low_of(dtype), 3);
    const Attributes attributes = {{"axes", Ints{2, 0}}, {"sizes", Ints{3, 2}}};
    for (const auto& [x, y] : std::vector<std::pair<int, int>>{{0, 0}, {1, 2}, {2, 1}, {9, 9}}) {
      index.fill({double(x), double(y)});
      const int x0 = std::min(x, 2), y0 = std::min(y, 2);
      std::vector<double> wanted;
      for (int i = 0; i < 18; ++i) {
        wanted.push_back(t.get(((i / 9 + y0) * 3 + i / 3 % 3) * 5 + i % 3 + x0));
      }
      run_kernel("DynamicSlice", attributes, {&t, &index}, {&out});
      expect_close(out, wanted, 0);
    }
  }
}

TEST(DynamicUpdate, WritesTheWindowInACopyOrInPlace) {
  TestTensor t(DType::Float32, {4, 5}), index(DType::Int32, {1}), update(DType::Float32, {2, 5});
  TestTensor out(DType::Float32, {4, 5});
  t.randomise(59);
  update.randomise(60);
  index.fill({1});
  std::vector<double> wanted = t.values();
  for (int i = 0; i < 10; ++i) wanted[5 + i] = update.get(i);
  const Attributes attributes = {{"axes", Ints{0}}, {"sizes", Ints{2}}};
  run_kernel("DynamicUpdate", attributes, {&t, &index, &update}, {&out});
  expect_close(out, wanted, 0);
  run_kernel("DynamicUpdateInplace", attributes, {&t, &index, &update}, {&t});
  expect_close(t, wanted, 0);
}

TEST(Concat, JoinsAlongAnyAxis) {
  for (const DType dtype : {DType::Bool, DType::Float16, DType::BFloat16, DType::Float32,
                            DType::Int64, DType::Float8_143, DType::Complex128}) {
    for (const std::int64_t axis : {0, 1, 2}) {
      Shape first = {2, 3, 4}, second = {2, 3, 4}, joined = {2, 3, 4};
      second[axis] = 2;
      joined[axis] += 2;
      TestTensor a(dtype, first), b(dtype, second), out(dtype, joined);
      const auto bytes = static_cast<std::int64_t>(dtype_bytes(dtype));
      for (std::int64_t i = 0; i < a.size() * bytes; ++i) a.data()[i] = std::byte(i % 251);
      for (std::int64_t i = 0; i < b.size() * bytes; ++i) b.data()[i] = std::byte(100 + i % 97);
      run_kernel("Concat", axis_is(axis), {&a, &b}, {&out});
      std::int64_t inner = bytes;
      for (std::size_t d = axis + 1; d < 3; ++d) inner *= first[d];
      for (std::int64_t i = 0; i < out.size() * bytes; ++i) {
        const std::int64_t row = i / inner % joined[axis], outer = i / inner / joined[axis];
        const bool from_a = row < first[axis];
        const std::int64_t at = from_a ? (outer * first[axis] + row) * inner
                                       : (outer * second[axis] + row - first[axis]) * inner;
        ASSERT_EQ(out.data()[i], (from_a ? a : b).data()[at + i % inner]);
      }
    }
  }
}

TEST(PadInto, PlacesElementsAtStartsAndSteps) {
  for (const DType dtype : kDTypes) {
    TestTensor in(dtype, {2, 3}), out(dtype, {4, 7});
    in.fill({1, 2, 3, 4, 5, 6});
    out.randomise(61, 1, 3);
    run_kernel("PadInto", {{"shape", Ints{4, 7}}, {"starts", Ints{3, 1}}, {"steps", Ints{-2, 2}}},
               {&in}, {&out});
    std::vector<double> wanted(28);
    for (int i = 0; i < 6; ++i) wanted[(3 - i / 3 * 2) * 7 + 1 + i % 3 * 2] = i + 1;
    expect_close(out, wanted, 0);
  }
  TestTensor in(DType::Float32, {3}), out(DType::Float32, {3});
  const std::string error = error_of([&] {
    run_kernel("PadInto", {{"shape", Ints{3}}, {"starts", Ints{1}}, {"steps", Ints{1}}}, {&in},
               {&out});
  });
  EXPECT_NE(error.find("leave dimension 0"), std::string::npos) << error;
}

/// Elements of column r of a tensor seen as outer x size x inner.
std::vector<double> column(const TestTensor& t, std::int64_t size, std::int64_t inner,
                           std::int64_t r) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < size; ++i) {
    values.push_back(t.get((r / inner * size + i) * inner + r % inner));
  }
  return values;
}

TEST(ArgExtreme, TakesTheLowestIndexOfEquals) {
  for (const DType dtype : kDTypes) {
    TestTensor t(dtype, {3, 6, 4}), out(DType::Int32, {3, 4});
    for (std::int64_t i = 0; i < t.size(); ++i) t.set(i, double(i * 5 % 7));
    run_kernel("ArgMax", axis_is(1), {&t}, {&out});
    for (std::int64_t r = 0; r < 12; ++r) {
      const auto values = column(t, 6, 4, r);
      EXPECT_EQ(out.get(r), std::max_element(values.begin(), values.end()) - values.begin());
    }
    run_kernel("ArgMin", axis_is(1), {&t}, {&out});
    for (std::int64_t r = 0; r < 12; ++r) {
      const auto values = column(t, 6, 4, r);
      EXPECT_EQ(out.get(r), std::min_element(values.begin(), values.end()) - values.begin());
    }
  }
  TestTensor t(DType::Float32, {4}), out(DType::Int32, {});
  t.fill({1, NAN, 5, NAN});
  run_kernel("ArgMax", axis_is(0), {&t}, {&out});
  EXPECT_EQ(out.get(0), 1);
}

TEST(TopK, SortsAndBreaksTiesByIndex) {
  for (const DType dtype : kDTypes) {
    for (const bool largest : {true, false}) {
      TestTensor t(dtype, {2, 9, 3}), values(dtype, {2, 4, 3}), indices(DType::Int32, {2, 4, 3});
      for (std::int64_t i = 0; i < t.size(); ++i) t.set(i, double(i * 5 % 6));
      run_kernel("TopK",
                 {{"axis", std::int64_t{1}},
                  {"k", std::int64_t{4}},
                  {"largest", largest},
                  {"sorted", true}},
                 {&t}, {&values, &indices});
      for (std::int64_t r = 0; r < 6; ++r) {
        const auto list = column(t, 9, 3, r);
        std::vector<int> order = {0, 1, 2, 3, 4, 5, 6, 7, 8};
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
          return largest ? list[a] > list[b] : list[a] < list[b];
        });
        for (int i = 0; i < 4; ++i) {
          EXPECT_EQ(column(indices, 4, 3, r)[i], order[i]);
          EXPECT_EQ(column(values, 4, 3, r)[i], list[order[i]]);
        }
      }
    }
  }
}

TEST(CumSum, RunsBothWays) {
  for (const DType dtype : kDTypes) {
    for (const bool reverse : {false, true}) {
      TestTensor t(dtype, {2, 7, 3}), out(dtype, {2, 7, 3});
      t.randomise(62, low_of(dtype), 3);
      run_kernel("CumSum", {{"axis", std::int64_t{1}}, {"reverse", reverse}}, {&t}, {&out});
      for (std::int64_t r = 0; r < 6; ++r) {
        const auto in = column(t, 7, 3, r), sums = column(out, 7, 3, r);
        double sum = 0;
        for (int i = 0; i < 7; ++i) {
          const int at = reverse ? 6 - i : i;
          EXPECT_NEAR(sums[at], sum += in[at], 5 * epsilon_of(dtype));
        }
      }
    }
  }
}

TEST(Histogram, CountsHalfOpenBins) {
  for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float32}) {
    for (const bool absolute : {false, true}) {
      TestTensor t(dtype, {30000}), out(DType::UInt32, {4});
      t.randomise(63, -3, 3);
      t.set(0, 1);
      t.set(1, -1);
      const Floats levels = {-1.0, 0.5, 1.0};
      run_kernel("Histogram", {{"levels", levels}, {"absolute_of_input", absolute}}, {&t}, {&out});
      std::vector<double> wanted(4);
      for (std::int64_t i = 0; i < t.size(); ++i) {
        const double v = absolute ? std::abs(t.get(i)) : t.get(i);
        ++wanted[v < -1 ? 0 : v < 0.5 ? 1 : v < 1 ? 2 : 3];
      }
      expect_close(out, wanted, 0);
    }
  }
}

}  // namespace
}  // namespace pando::testing
