// Scatters and gathers of whole rows: indices that are the same for all elements of a row.
#include <algorithm>

#include "kernel_test_util.hpp"

namespace pando::testing {
namespace {

/// Rows of a tensor (blocks, rows, columns), which go to one of `size` results of their block.
struct Rows {
  std::int64_t blocks, rows, columns, size;
  bool share_indices;  // among blocks

  Shape shape() const { return {blocks, rows, columns}; }
  Shape results() const { return {blocks, size, columns}; }
  OperandDesc indices(DType dtype) const {
    return strided(dtype, shape(), {share_indices ? 0 : rows, 1, 0});
  }
};

// Short and long rows, rows with a partial vector, and one result that gets nearly all.
const std::vector<Rows> kScatteredRows = {{1, 500, 100, 40, true}, {1, 900, 128, 3, true},
                                          {3, 70, 261, 200, true}, {5, 60, 33, 9, false},
                                          {2, 50, 3, 8, true},     {1, 0, 16, 5, true}};
const Attributes kAxis = {{"axis", std::int64_t{1}}};

/// Indices some of which are out of range; for `uneven`, most are 1.
void fill_indices(TestTensor& indices, const Rows& rows, bool uneven, unsigned seed) {
  indices.randomise(seed, -1, static_cast<double>(rows.size) + 1);
  if (!uneven) return;
  for (std::int64_t i = 0; i < indices.size(); i += rows.columns) {
    if (i / rows.columns % 8 != 0) indices.set(i, 1);
  }
}

/// The element of the results that element i of the rows goes to; -1: none.
std::int64_t target(const Rows& rows, const TestTensor& indices, std::int64_t i) {
  const auto at = static_cast<std::int64_t>(indices.get(i));
  if (at < 0 || at >= rows.size) return -1;
  return (i / rows.columns / rows.rows * rows.size + at) * rows.columns + i % rows.columns;
}

std::vector<double> reduced(const std::string& reduction, const Rows& rows, const TestTensor& data,
                            const TestTensor& indices, const TestTensor* initial) {
  const auto count = static_cast<std::size_t>(num_elements(rows.results()));
  std::vector<double> result = initial != nullptr ? initial->values() : std::vector<double>(count);
  std::vector<bool> touched(count, initial != nullptr);
  for (std::int64_t i = 0; i < data.size(); ++i) {
    const std::int64_t at = target(rows, indices, i);
    if (at < 0) continue;
    const double value = data.get(i);
    double& current = result[static_cast<std::size_t>(at)];
    if (!touched[static_cast<std::size_t>(at)] || reduction == "none") {
      current = value;
      touched[static_cast<std::size_t>(at)] = true;
    } else if (reduction == "sum") {
      current += value;
    } else if (reduction == "prod") {
      current *= value;
    } else {
      current = reduction == "min" ? std::min(current, value) : std::max(current, value);
    }
  }
  return result;
}

TEST(ScatterReduceRows, EqualsElementsForAnyThreadCount) {
  for (const Rows& rows : kScatteredRows) {
    for (const DType dtype : {DType::Float32, DType::Float64, DType::BFloat16, DType::Int32}) {
      for (const std::string reduction : {"sum", "prod", "min", "max", "none"}) {
        for (const int variant : {0, 1, 2, 3}) {
          TestTensor data(dtype, rows.shape()), indices(rows.indices(DType::Int64));
          TestTensor whole(DType::Int32, rows.shape()), initial(dtype, rows.results());
          // Factors near 1, so that products of many stay in range.
          const bool is_product = reduction == "prod";
          data.randomise(70, is_product ? 0.9 : -5, is_product ? 1.1 : 5);
          initial.randomise(71, -5, 5);
          fill_indices(indices, rows, variant % 2 == 1, 72);
          whole.fill(indices.values());
          TestTensor* first = variant / 2 == 1 ? &initial : nullptr;
          const auto wanted = reduced(reduction, rows, data, indices, first);
          Attributes attributes = kAxis;
          attributes.set("reduction", reduction);
          TestTensor elements(dtype, rows.results());
          run_kernel("ScatterReduce", attributes, {&data, &whole, first}, {&elements});
          for (const int threads : {1, is_product ? 2 : 3}) {
            TestTensor out(dtype, rows.results());
            const std::string how =
                run_kernel("ScatterReduce", attributes, {&data, &indices, first}, {&out}, threads);
            EXPECT_EQ(how.find("ScatterReduce: rows") == 0, rows.columns >= 4) << how;
            expect_close(out, wanted, 50 * epsilon_of(dtype), reduction);
            expect_close(out, elements.values(), 0, reduction);
          }
        }
      }
    }
  }
}

TEST(ScatterReduceRows, AddsToInitialValuesInPlace) {
  const Rows rows = kScatteredRows[0];
  TestTensor data(DType::Float32, rows.shape()), indices(rows.indices(DType::UInt16));
  TestTensor sums(DType::Float32, rows.results());
  data.randomise(73);
  indices.randomise(74, 0, 60);
  sums.randomise(75);
  const auto wanted = reduced("sum", rows, data, indices, &sums);
  Attributes attributes = kAxis;
  attributes.set("reduction", "sum");
  run_kernel("ScatterReduce", attributes, {&data, &indices, &sums}, {&sums});
  expect_close(sums, wanted, 50 * epsilon_of(DType::Float32));
}

TEST(GatherElementsRows, TakesWholeRows) {
  for (const Rows& rows : kScatteredRows) {
    for (const DType dtype : {DType::Float16, DType::Float32, DType::Int64}) {
      TestTensor t(dtype, rows.results()), indices(rows.indices(DType::Int32));
      TestTensor out(dtype, rows.shape());
      t.randomise(76, 0, 9);
      fill_indices(indices, rows, false, 77);
      std::vector<double> wanted;
      for (std::int64_t i = 0; i < out.size(); ++i) {
        const std::int64_t from = target(rows, indices, i);
        wanted.push_back(from < 0 ? 0 : t.get(from));
      }
      const std::string how = run_kernel("GatherElements", kAxis, {&t, &indices}, {&out});
      EXPECT_EQ(how.find("GatherElements: rows") == 0, rows.columns >= 4) << how;
      expect_close(out, wanted, 0);
    }
  }
}

TEST(GatherGradRows, AddsTheRowsOfOneIndexWhereverMostAre) {
  for (const Rows& rows : kScatteredRows) {
    for (const bool uneven : {false, true}) {
      for (const int threads : {1, 2, 3}) {
        TestTensor g(DType::Float32, rows.shape()), indices(rows.indices(DType::Int32));
        // The indices of Gather: without columns, and in groups where blocks have their own.
        TestTensor given(DType::Int32,
                         rows.share_indices ? Shape{rows.rows} : Shape{rows.blocks, rows.rows});
        TestTensor out(DType::Float32, rows.results());
        g.randomise(78);
        fill_indices(indices, rows, uneven, 79);
        for (std::int64_t i = 0; i < given.size(); ++i) {
          given.set(i, indices.get(i * rows.columns));
        }
        Attributes attributes = kAxis;
        attributes.set("input_shape", Ints(rows.results()));
        attributes.set("group_size", rows.share_indices ? 1 : rows.blocks);
        run_kernel("GatherGrad", attributes, {&g, &given}, {&out}, threads);
        expect_close(out, reduced("sum", rows, g, indices, nullptr),
                     50 * epsilon_of(DType::Float32));
      }
    }
  }
}

}  // namespace
}  // namespace pando::testing
