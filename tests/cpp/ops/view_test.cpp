// View rules on contiguous and strided storage against element-by-element indexing.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/cpp/ops/evaluate.hpp"

namespace pando::testing {
namespace {

/// Storage of distinct numbers, seen through a contiguous and a transposed, padded view.
struct Storage {
  Array array;
  std::vector<View> views;

  explicit Storage(const Shape& shape) {
    array = {{1000}, std::vector<double>(1000)};
    std::iota(array.data.begin(), array.data.end(), 0.0);
    views.push_back(View::contiguous(shape));
    View strided{shape, Strides(shape.size()), 3};
    std::int64_t stride = 2;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      strided.strides[d] = stride;
      stride *= shape[d] + 1;
    }
    views.push_back(strided);
  }
};

/// `source(index)` is the input index of an output index.
void check_view(std::string_view kind, const Shape& shape, Attributes attributes,
                const std::function<Shape(const Shape&)>& source) {
  const SingleOp single(kind, {f32(shape)}, std::move(attributes));
  const Storage storage(shape);
  for (const View& input : storage.views) {
    const auto view = single.op->def().view(*single.op, 0, input);
    ASSERT_TRUE(view.has_value()) << kind;
    ASSERT_EQ(view->shape, single.info().shape) << kind;
    for_each_index(view->shape, [&](const Shape& index) {
      EXPECT_EQ(read(storage.array, *view, index), read(storage.array, input, source(index)))
          << kind;
    });
  }
}

TEST(View, Transpose) {
  for (const char* kind : {"Transpose", "TransposeInplace", "TransposeGrad"}) {
    check_view(kind, {2, 3, 4}, {{"permutation", Ints{2, 0, 1}}}, [](const Shape& i) {
      return Shape{i[1], i[2], i[0]};
    });
  }
}

TEST(View, SliceWithNegativeSteps) {
  for (const char* kind : {"Slice", "SliceInplace"}) {
    check_view(kind, {5, 7},
               {{"starts", Ints{1, 6}}, {"steps", Ints{1, -2}}, {"counts", Ints{3, 3}}},
               [](const Shape& i) {
                 return Shape{1 + i[0], 6 - 2 * i[1]};
               });
  }
}

TEST(View, EmptySlice) {
  const SingleOp slice("Slice", {f32({4})},
                       {{"starts", Ints{4}}, {"steps", Ints{1}}, {"counts", Ints{0}}});
  EXPECT_EQ(slice.info().shape, Shape{0});
}

TEST(View, Subsample) {
  check_view("Subsample", {5, 4}, {{"strides", Ints{2, 3}}}, [](const Shape& i) {
    return Shape{2 * i[0], 3 * i[1]};
  });
}

TEST(View, BroadcastTo) {
  check_view("BroadcastTo", {3, 1}, {{"shape", Ints{2, 3, 4}}}, [](const Shape& i) {
    return Shape{i[1], 0};
  });
}

TEST(View, Identities) {
  for (const char* kind : {"Identity", "IdentityGrad", "Detach", "DetachInplace"}) {
    check_view(kind, {2, 3}, {}, [](const Shape& i) { return i; });
  }
}

TEST(View, ReshapeIsAViewOnlyWhereStridesAllow) {
  check_view("Reshape", {4, 1, 3}, {{"shape", Ints{4, 3}}}, [](const Shape& i) {
    return Shape{i[0], 0, i[1]};
  });
  const SingleOp flatten("Reshape", {f32({2, 3})}, {{"shape", Ints{6}}});
  const View transposed{{2, 3}, {1, 2}, 0};
  EXPECT_FALSE(flatten.op->def().view(*flatten.op, 0, transposed).has_value());
}

TEST(View, InPlaceViewsAliasTheirInput) {
  for (const char* kind : {"ReshapeInplace", "TransposeInplace", "SliceInplace", "DetachInplace"}) {
    const OpDef& def = op_registry().get(kind);
    EXPECT_TRUE(def.output_alias) << kind;
    EXPECT_FALSE(def.modified_inputs) << kind;
  }
  for (const char* kind : {"Reshape", "Transpose", "Slice", "Detach", "Identity"}) {
    EXPECT_FALSE(op_registry().get(kind).output_alias) << kind;
  }
}

}  // namespace
}  // namespace pando::testing
