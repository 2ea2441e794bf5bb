// Copies and fills.
#include "tests/cpp/backends/fused_fixture.hpp"

namespace pando::fused_test {
namespace {

KernelSpec copy_spec(DType dtype, const Shape& shape, const Strides& from, const Strides& to) {
  KernelSpec spec;
  spec.kind = "Copy";
  spec.inputs = {{dtype, shape, from}};
  spec.outputs = {{dtype, shape, to}};
  return spec;
}

TEST(Copy, MovesEveryElementWhateverTheStrides) {
  struct Case {
    Shape shape;
    Strides from, to;
  };
  const std::vector<Case> cases = {
      {{}, {}, {}},
      {{0, 3}, {3, 1}, {3, 1}},
      {{1000}, {1}, {1}},
      {{1000}, {-1}, {2}},
      {{70, 90}, {1, 70}, {90, 1}},
      {{70, 90}, {90, 1}, {1, 70}},
      {{64, 64}, {1, 64}, {64, 1}},
      {{67, 130}, {1, 1024}, {130, 1}},
      {{128, 64}, {1, 256}, {100, 1}},
      {{2, 3}, {1, 2}, {3, 1}},
      {{5, 33, 65}, {33 * 65, 1, 33}, {33 * 65, 65, 1}},
      {{3, 4, 5, 6}, {1, 3, 12, 60}, {120, 30, 6, 1}},
      {{8, 100}, {0, 1}, {100, 1}},
      {{100, 8}, {1, 0}, {8, 1}},
      {{300, 301}, {602, 2}, {301, 1}},
  };
  for (DType dtype : {DType::Int8, DType::Float16, DType::BFloat16, DType::Float32, DType::Float64,
                      DType::Complex128}) {
    for (const Case& c : cases) {
      for (int threads : {1, 2}) {
        const KernelSpec spec = copy_spec(dtype, c.shape, c.from, c.to);
        Operand from(spec.inputs[0]), to(spec.outputs[0]);
        const auto bytes = dtype_bytes(dtype);
        std::mt19937 engine(1);
        for (std::int64_t i = 0; i < from.size(); ++i) {
          for (std::size_t k = 0; k < bytes; ++k) from.at(i)[k] = std::byte(engine() % 256);
        }
        run(spec, threads, {&from, &to});
        for (std::int64_t i = 0; i < from.size(); ++i) {
          ASSERT_EQ(std::memcmp(from.at(i), to.at(i), bytes), 0)
              << dtype << " " << shape_text(c.shape) << " element " << i;
        }
      }
    }
  }
}

TEST(Fill, WritesTheValueInTheOutputsDType) {
  for (DType dtype : kStorage) {
    for (const Strides& strides : {Strides{40, 1}, Strides{1, 50}, Strides{80, 2}}) {
      KernelSpec spec;
      spec.kind = "Fill";
      spec.attributes.set("value", 3.0);
      spec.outputs = {{dtype, {50, 40}, strides}};
      Operand out(spec.outputs[0]), expected(spec.outputs[0]);
      run(spec, 2, {&out});
      testing::Lane lane = testing::Lane::of(std::int64_t{dtype == DType::Bool ? 1 : 3});
      if (lane_of(dtype) == LaneType::F32) lane = testing::Lane::of(3.0f);
      if (lane_of(dtype) == LaneType::F64) lane = testing::Lane::of(3.0);
      for (std::int64_t i = 0; i < out.size(); ++i) {
        testing::store_element(lane, dtype, expected.at(i));
      }
      EXPECT_EQ(out.memory(), expected.memory()) << dtype;
    }
  }
}

}  // namespace
}  // namespace pando::fused_test
