// Which numbers a kernel is said to have made.
#include "pando/runtime/finite_checks.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "pando/base/error.hpp"

namespace pando::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

/// Checks write only what was overwritten.
template <class T>
std::byte* bytes_of(const T* data) {
  return reinterpret_cast<std::byte*>(const_cast<T*>(data));
}

/// A program of one kernel with one input and one output.
class OneKernel {
 public:
  OneKernel(const OperandDesc& input, const OperandDesc& output, Attributes attributes = {}) {
    KernelSpec kernel;
    kernel.kind = "Some";
    kernel.attributes = std::move(attributes);
    kernel.inputs = {input};
    kernel.outputs = {output};
    program_.kernels.push_back(kernel);
    const TextTable::Index op = program_.sources.add_text("Some 'layer/some'");
    const TextTable::Index file = program_.sources.add_text("model.py:12");
    program_.sources.add({op, file, op});
    instruction_.source = 0;
  }

  /// What is thrown if the kernel makes `output` of `input`; empty: nothing.
  template <class T>
  std::string fault(const T* input, const T* output) const {
    const FiniteChecks checks(program_);
    std::byte* const operands[] = {bytes_of(input), bytes_of(output)};
    const GivenToKernel given = checks.given_to(instruction_, operands);
    try {
      checks.check(instruction_, operands, given);
    } catch (const ApplicationFault& error) {
      return error.what();
    }
    return "";
  }

 private:
  Program program_;
  Instruction instruction_;
};

/// What a kernel that makes `made` in the memory of its input leaves there.
std::vector<float> left_in_place(const OperandDesc& operand, std::vector<float> data, float made) {
  Program program;
  program.kernels.emplace_back();
  program.kernels[0].inputs = {operand};
  program.kernels[0].outputs = {operand};
  const FiniteChecks checks(program);
  std::byte* const operands[] = {bytes_of(data.data()), bytes_of(data.data())};
  const GivenToKernel given = checks.given_to(Instruction(), operands);
  data[0] = made;
  EXPECT_THROW(checks.check(Instruction(), operands, given), ApplicationFault);
  return data;
}

TEST(FiniteChecks, WhatWasOverwrittenIsPutBack) {
  EXPECT_EQ(left_in_place(OperandDesc::contiguous(DType::Float32, {3}), {1, 2, 3}, kNan),
            (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(left_in_place({DType::Float32, {2, 2}, {1, 3}}, {1, 2, 3, 4, 5, 6}, kInfinity),
            (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

OneKernel on_vectors(DType dtype, std::int64_t size, const Attributes& attributes = {}) {
  const OperandDesc operand = OperandDesc::contiguous(dtype, {size});
  return {operand, operand, attributes};
}

TEST(FiniteChecks, WhatIsMadeOfFiniteNumbersIsNamed) {
  const OneKernel kernel = on_vectors(DType::Float32, 3);
  const float finite[] = {1, -2, std::numeric_limits<float>::max()};
  const float infinite[] = {1, -kInfinity, 2};
  const float nan[] = {1, 2, kNan};
  EXPECT_EQ(kernel.fault(finite, finite), "");
  EXPECT_NE(
      kernel.fault(finite, infinite).find("Some 'layer/some' at model.py:12 gives an infinity"),
      std::string::npos);
  EXPECT_NE(kernel.fault(finite, nan).find("gives NaN"), std::string::npos);
}

TEST(FiniteChecks, WhatWasThereBeforeIsNotMade) {
  const OneKernel kernel = on_vectors(DType::Float32, 2);
  const float infinite[] = {1, kInfinity};
  const float nan[] = {1, kNan};
  EXPECT_EQ(kernel.fault(infinite, infinite), "");
  EXPECT_EQ(kernel.fault(nan, nan), "");
  EXPECT_EQ(kernel.fault(nan, infinite), "");
  EXPECT_NE(kernel.fault(infinite, nan).find("gives NaN"), std::string::npos);
}

TEST(FiniteChecks, ConstantsOfAKernelAreGivenToIt) {
  const float finite[] = {1, 2};
  const float infinite[] = {1, -kInfinity};
  const float nan[] = {1, kNan};
  const OneKernel kernel =
      on_vectors(DType::Float32, 2, {{"value", -std::numeric_limits<double>::infinity()}});
  EXPECT_EQ(kernel.fault(finite, infinite), "");
  EXPECT_NE(kernel.fault(finite, nan), "");
}

TEST(FiniteChecks, EveryFloatTypeIsLookedAt) {
  const double doubles[] = {1, -std::numeric_limits<double>::infinity()};
  const double finite_doubles[] = {1, 1e300};
  EXPECT_NE(on_vectors(DType::Float64, 2).fault(finite_doubles, doubles), "");
  EXPECT_EQ(on_vectors(DType::Float64, 2).fault(finite_doubles, finite_doubles), "");
  const std::uint16_t finite[] = {0x3c00, 0x7bff};
  const std::uint16_t infinite_half[] = {0x3c00, 0xfc00};
  EXPECT_NE(on_vectors(DType::Float16, 2).fault(finite, infinite_half), "");
  EXPECT_EQ(on_vectors(DType::BFloat16, 2).fault(finite, finite), "");
  const std::uint16_t nan_bfloat[] = {0x3c00, 0x7f81};
  EXPECT_NE(on_vectors(DType::BFloat16, 2).fault(finite, nan_bfloat), "");
  const std::int32_t integers[] = {0x7f800000, -1};
  EXPECT_EQ(on_vectors(DType::Int32, 2).fault(integers, integers), "");
}

TEST(FiniteChecks, OnlyElementsOfAnOperandAreLookedAt) {
  // (2, 2) of every other element; what lies between belongs to others.
  const OperandDesc strided{DType::Float32, {2, 2}, {4, 2}};
  const OneKernel kernel(OperandDesc::contiguous(DType::Float32, {2, 2}), strided);
  const float given[] = {1, 2, 3, 4};
  const float between[] = {1, kNan, 2, kNan, 3, kNan, 4, kNan};
  const float inside[] = {1, 0, 2, 0, 3, 0, kNan, 0};
  EXPECT_EQ(kernel.fault(given, between), "");
  EXPECT_NE(kernel.fault(given, inside), "");
  const OneKernel repeated({DType::Float32, {3, 2}, {0, 1}},
                           OperandDesc::contiguous(DType::Float32, {2}));
  EXPECT_EQ(repeated.fault(given, given), "");
  const OneKernel scalar(OperandDesc::contiguous(DType::Float32, {}),
                         OperandDesc::contiguous(DType::Float32, {}));
  EXPECT_NE(scalar.fault(given, &kInfinity), "");
  const OneKernel nothing = on_vectors(DType::Float32, 0);
  EXPECT_EQ(nothing.fault(given, &kInfinity), "");
}

}  // namespace
}  // namespace pando::testing
