// Kernels for rows of tables against loops.
#include <map>

#include "kernel_test_util.hpp"

namespace pando::testing {
namespace {

/// The sums of rows by index, for X of (outer, count, inner).
using Sums = std::map<std::int64_t, std::vector<double>>;

Sums sums_of(const TestTensor& x, const TestTensor& indices, std::int64_t size) {
  const std::int64_t outer = x.shape()[0], count = x.shape()[1], inner = x.shape()[2];
  Sums sums;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::int64_t>(indices.get(i));
    if (at < 0 || at >= size) continue;
    std::vector<double>& sum = sums[at];
    sum.resize(static_cast<std::size_t>(outer * inner));
    for (std::int64_t j = 0; j < outer * inner; ++j) {
      sum[static_cast<std::size_t>(j)] += x.get((j / inner * count + i) * inner + j % inner);
    }
  }
  return sums;
}

/// Compares the outputs of CoalesceRows with the sums, which are in order of the indices.
void expect_rows(const TestTensor& out, const TestTensor& rows, const Sums& sums, DType dtype) {
  const std::int64_t outer = out.shape()[0], count = out.shape()[1], inner = out.shape()[2];
  std::vector<double> wanted(static_cast<std::size_t>(out.size()));
  std::vector<double> wanted_rows(static_cast<std::size_t>(count), -1.0);
  std::int64_t k = 0;
  for (const auto& [row, sum] : sums) {
    wanted_rows[static_cast<std::size_t>(k)] = static_cast<double>(row);
    for (std::int64_t j = 0; j < outer * inner; ++j) {
      wanted[static_cast<std::size_t>((j / inner * count + k) * inner + j % inner)] =
          sum[static_cast<std::size_t>(j)];
    }
    ++k;
  }
  expect_close(rows, wanted_rows, 0);
  expect_close(out, wanted, 20 * epsilon_of(dtype));
}

TEST(CoalesceRows, AddsRowsOfOneIndexAlikeForAnyThreadCount) {
  for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64}) {
    for (const DType index : {DType::Int32, DType::UInt16, DType::Int64}) {
      for (const int threads : {1, 2, 3}) {
        TestTensor x(dtype, {2, 300, 70}), indices(index, {300});
        TestTensor out(dtype, x.shape()), rows(DType::Int64, {300});
        x.randomise(60);
        indices.randomise(61, 0, 90);
        run_kernel("CoalesceRows", {{"axis", std::int64_t{1}}, {"size", std::int64_t{80}}},
                   {&x, &indices}, {&out, &rows}, threads);
        expect_rows(out, rows, sums_of(x, indices, 80), dtype);
      }
    }
  }
}

TEST(CoalesceRows, KnowsRowsOfLargeTablesAndNoRowAtAll) {
  TestTensor x(DType::Float32, {1, 5, 2}), indices(DType::Int64, {5});
  TestTensor out(DType::Float32, x.shape()), rows(DType::Int64, {5});
  x.randomise(62);
  const std::int64_t size = std::int64_t{1} << 32;
  for (const double far : {static_cast<double>(size - 1), static_cast<double>(size), -1.0}) {
    indices.fill({far, 70000, far, 3, 70000});
    run_kernel("CoalesceRows", {{"axis", std::int64_t{1}}, {"size", size}}, {&x, &indices},
               {&out, &rows});
    expect_rows(out, rows, sums_of(x, indices, size), DType::Float32);
  }
  indices.fill({-1, -1, -1, -1, -1});
  run_kernel("CoalesceRows", {{"axis", std::int64_t{1}}, {"size", size}}, {&x, &indices},
             {&out, &rows});
  expect_rows(out, rows, {}, DType::Float32);
}

TEST(CoalesceRows, LeavesOutRowsThatAreZeroInAllBlocks) {
  TestTensor x(DType::Float32, {2, 4, 1}), indices(DType::Int32, {4});
  TestTensor out(DType::Float32, x.shape()), rows(DType::Int64, {4});
  x.fill({1, 0, -1, 0, 0, 0, 0, 2});
  indices.fill({5, 1, 5, 7});
  run_kernel("CoalesceRows",
             {{"axis", std::int64_t{1}}, {"size", std::int64_t{8}}, {"skip_zero_rows", true}},
             {&x, &indices}, {&out, &rows});
  expect_close(rows, {-1, -1, 7, -1}, 0);
}

TEST(UpdateRows, OverwritesRowsInACopyOrInPlace) {
  for (const DType dtype : {DType::BFloat16, DType::Float32, DType::Float64, DType::UInt8}) {
    TestTensor t(dtype, {2, 5, 3}), x(dtype, {2, 4, 3}), indices(DType::Int64, {4});
    TestTensor out(dtype, t.shape());
    t.randomise(63, 0, 9);
    x.randomise(64, 0, 9);
    indices.fill({4, -1, 0, 5});
    std::vector<double> wanted = t.values();
    for (std::int64_t i : {0, 2}) {
      const auto row = static_cast<std::int64_t>(indices.get(i));
      for (std::int64_t j = 0; j < 6; ++j) {
        wanted[static_cast<std::size_t>((j / 3 * 5 + row) * 3 + j % 3)] =
            x.get((j / 3 * 4 + i) * 3 + j % 3);
      }
    }
    for (TestTensor* result : {&out, &t}) {
      run_kernel("UpdateRows", {{"axis", std::int64_t{1}}}, {&t, &x, &indices}, {result}, 2);
      expect_close(*result, wanted, 0);
    }
  }
}

TEST(ScatterArgReduce, NamesTheFirstOfEqualElements) {
  for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float64, DType::Int32}) {
    TestTensor data(dtype, {5, 2}), indices(DType::Int32, {5, 2}), initial(dtype, {3, 2});
    TestTensor out(dtype, {3, 2}), positions(DType::Int32, {3, 2});
    data.fill({3, 1, 3, 2, -1, 2, 7, 2, 0, 0});
    indices.fill({0, 0, 0, 1, 1, 1, 4, 0, -1, 0});
    run_kernel("ScatterArgReduce", {{"axis", std::int64_t{0}}, {"reduction", std::string("max")}},
               {&data, &indices}, {&out, &positions});
    expect_close(out, {3, 2, -1, 2, 0, 0}, 0);
    expect_close(positions, {0, 3, 2, 1, 5, 5}, 0);
    initial.fill({3, 1, 0, 2, -2, 0});
    run_kernel("ScatterArgReduce", {{"axis", std::int64_t{0}}, {"reduction", std::string("min")}},
               {&data, &indices, &initial}, {&out, &positions});
    expect_close(out, {3, 0, -1, 2, -2, 0}, 0);
    expect_close(positions, {5, 4, 2, 5, 5, 5}, 0);
  }
}

}  // namespace
}  // namespace pando::testing
