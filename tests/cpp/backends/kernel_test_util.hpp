// Tensors of any dtype read and written as doubles, and a runner for single kernels.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "pando/backends/cpu/cpu_target.hpp"
#include "pando/base/half.hpp"
#include "pando/program/target.hpp"
#include "tests/cpp/error_of.hpp"

namespace pando::testing {

class TestTensor {
 public:
  TestTensor(DType dtype, const Shape& shape) : TestTensor(OperandDesc::contiguous(dtype, shape)) {}
  explicit TestTensor(OperandDesc desc) : desc_(std::move(desc)) {
    std::int64_t last = 0;
    for (std::size_t d = 0; d < desc_.shape.size(); ++d) {
      last += std::max<std::int64_t>(0, desc_.shape[d] - 1) * desc_.strides[d];
    }
    // One spare word, so that empty tensors have an address.
    words_.resize((static_cast<std::size_t>(last) + 1) * dtype_bytes(desc_.dtype) / 8 + 1);
  }

  const OperandDesc& desc() const { return desc_; }
  DType dtype() const { return desc_.dtype; }
  const Shape& shape() const { return desc_.shape; }
  std::int64_t size() const { return num_elements(desc_.shape); }
  std::byte* data() { return reinterpret_cast<std::byte*>(words_.data()); }
  const std::byte* data() const { return reinterpret_cast<const std::byte*>(words_.data()); }

  /// Element `index` in C order.
  double get(std::int64_t index) const {
    const std::byte* at = data() + address(index);
    switch (desc_.dtype) {
      case DType::Bool:
      case DType::UInt8:
        return read<std::uint8_t>(at);
      case DType::Int8:
        return read<std::int8_t>(at);
      case DType::Int16:
        return read<std::int16_t>(at);
      case DType::UInt16:
        return read<std::uint16_t>(at);
      case DType::Int32:
        return read<std::int32_t>(at);
      case DType::UInt32:
        return read<std::uint32_t>(at);
      case DType::Int64:
        return static_cast<double>(read<std::int64_t>(at));
      case DType::UInt64:
        return static_cast<double>(read<std::uint64_t>(at));
      case DType::Float16:
      case DType::BFloat16:
        return half_precision_to_float(read<std::uint16_t>(at), desc_.dtype);
      case DType::Float32:
        return read<float>(at);
      default:
        return read<double>(at);
    }
  }

  void set(std::int64_t index, double value) {
    std::byte* at = data() + address(index);
    switch (desc_.dtype) {
      case DType::Bool:
      case DType::UInt8:
        return write(at, static_cast<std::uint8_t>(value));
      case DType::Int8:
        return write(at, static_cast<std::int8_t>(value));
      case DType::Int16:
        return write(at, static_cast<std::int16_t>(value));
      case DType::UInt16:
        return write(at, static_cast<std::uint16_t>(value));
      case DType::Int32:
        return write(at, static_cast<std::int32_t>(value));
      case DType::UInt32:
        return write(at, static_cast<std::uint32_t>(value));
      case DType::Int64:
        return write(at, static_cast<std::int64_t>(value));
      case DType::UInt64:
        return write(at, static_cast<std::uint64_t>(value));
      case DType::Float16:
      case DType::BFloat16:
        return write(at, float_to_half_precision(static_cast<float>(value), desc_.dtype));
      case DType::Float32:
        return write(at, static_cast<float>(value));
      default:
        return write(at, value);
    }
  }

  TestTensor& fill(const std::vector<double>& values) {
    for (std::int64_t i = 0; i < size(); ++i) set(i, values[static_cast<std::size_t>(i)]);
    return *this;
  }

  /// Uniform in [low, high); whole numbers for integer dtypes.
  TestTensor& randomise(unsigned seed, double low = -2, double high = 2) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<double> uniform(low, high);
    for (std::int64_t i = 0; i < size(); ++i) {
      const double value = uniform(engine);
      set(i, is_integer(dtype()) ? std::floor(value) : value);
    }
    return *this;
  }

  std::vector<double> values() const {
    std::vector<double> result;
    for (std::int64_t i = 0; i < size(); ++i) result.push_back(get(i));
    return result;
  }

 private:
  template <class T>
  static T read(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  template <class T>
  static void write(std::byte* at, T value) {
    std::memcpy(at, &value, sizeof value);
  }
  std::int64_t address(std::int64_t index) const {
    std::int64_t offset = 0;
    for (std::size_t d = desc_.shape.size(); d-- > 0;) {
      offset += index % desc_.shape[d] * desc_.strides[d];
      index /= desc_.shape[d];
    }
    return offset * static_cast<std::int64_t>(dtype_bytes(desc_.dtype));
  }

  OperandDesc desc_;
  std::vector<std::uint64_t> words_;
};

inline OperandDesc strided(DType dtype, Shape shape, Strides strides) {
  return {dtype, std::move(shape), std::move(strides)};
}

inline KernelSpec make_spec(std::string kind, Attributes attributes,
                            const std::vector<TestTensor*>& inputs,
                            const std::vector<TestTensor*>& outputs) {
  KernelSpec spec{std::move(kind), std::move(attributes), {}, {}, {}};
  const auto describe = [&](const std::vector<TestTensor*>& tensors, const char* absent_name,
                            std::vector<OperandDesc>& descs) {
    Ints absent;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i] == nullptr) absent.push_back(static_cast<std::int64_t>(i));
      descs.push_back(tensors[i] == nullptr ? OperandDesc{} : tensors[i]->desc());
    }
    if (!absent.empty()) spec.attributes.set(absent_name, absent);
  };
  describe(inputs, "absent_inputs", spec.inputs);
  describe(outputs, "absent_outputs", spec.outputs);
  return spec;
}

/// Runs one kernel, and checks that it stays in its scratch.
inline void run_once(const KernelSpec& spec, const Kernel& kernel,
                     const std::vector<TestTensor*>& inputs,
                     const std::vector<TestTensor*>& outputs) {
  std::vector<std::byte*> operands;
  for (const auto* tensors : {&inputs, &outputs}) {
    for (TestTensor* tensor : *tensors)
      operands.push_back(tensor == nullptr ? nullptr : tensor->data());
  }
  constexpr std::size_t kGuard = 64;
  std::vector<std::byte> memory(kernel.scratch_bytes() + 2 * kGuard, std::byte{0x5a});
  auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  std::byte* scratch = memory.data() + (kGuard - address % kGuard) % kGuard;
  dynamic_cast<const HostKernel&>(kernel).run(operands.data(), scratch);
  for (std::byte* p = scratch + kernel.scratch_bytes(); p != memory.data() + memory.size(); ++p) {
    EXPECT_EQ(*p, std::byte{0x5a}) << spec.kind << " writes beyond its scratch";
  }
}

/// Copies, and the addresses of the copies (none for absent tensors).
struct CopiedTensors {
  explicit CopiedTensors(const std::vector<TestTensor*>& of) {
    tensors.reserve(of.size());
    for (const TestTensor* tensor : of) {
      tensors.push_back(tensor == nullptr ? TestTensor(DType::Bool, {}) : *tensor);
      addresses.push_back(tensor == nullptr ? nullptr : &tensors.back());
    }
  }
  CopiedTensors(const CopiedTensors&) = delete;
  std::vector<TestTensor> tensors;
  std::vector<TestTensor*> addresses;
};

/// The same bits with an output over each input that the target allows.
inline void expect_same_in_place(const KernelSpec& spec, const Target& target, const Kernel& kernel,
                                 const CopiedTensors& inputs, const CopiedTensors& outputs,
                                 const std::vector<TestTensor*>& wanted) {
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    const int over = target.output_over(spec, static_cast<int>(i));
    if (over < 0 || inputs.addresses[i] == nullptr) continue;
    CopiedTensors in(inputs.addresses), out(outputs.addresses);
    out.addresses[static_cast<std::size_t>(over)] = in.addresses[i];
    run_once(spec, kernel, in.addresses, out.addresses);
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      if (wanted[k] == nullptr) continue;
      const auto bytes =
          static_cast<std::size_t>(wanted[k]->size()) * dtype_bytes(wanted[k]->dtype());
      EXPECT_EQ(std::memcmp(out.addresses[k]->data(), wanted[k]->data(), bytes), 0)
          << spec.kind << ": output " << k << " with output " << over << " over input " << i;
    }
  }
}

/// Runs one kernel, apart and in place; returns its explanation.
inline std::string run_spec(const KernelSpec& spec, const std::vector<TestTensor*>& inputs,
                            const std::vector<TestTensor*>& outputs, int num_threads) {
  const auto target = make_cpu_target(num_threads);
  const auto kernel = target->prepare(spec);
  const CopiedTensors inputs_before(inputs), outputs_before(outputs);
  run_once(spec, *kernel, inputs, outputs);
  const bool is_apart = std::none_of(outputs.begin(), outputs.end(), [&](const TestTensor* output) {
    return output != nullptr && std::find(inputs.begin(), inputs.end(), output) != inputs.end();
  });
  if (is_apart) {
    expect_same_in_place(spec, *target, *kernel, inputs_before, outputs_before, outputs);
  }
  return kernel->explain();
}
inline std::string run_kernel(const std::string& kind, const Attributes& attributes,
                              const std::vector<TestTensor*>& inputs,
                              const std::vector<TestTensor*>& outputs, int num_threads = 2) {
  return run_spec(make_spec(kind, attributes, inputs, outputs), inputs, outputs, num_threads);
}

inline void expect_same_values(const TestTensor& got, const TestTensor& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::int64_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(got.get(i), wanted.get(i)) << "element " << i;
  }
}

/// Runs a kernel with the input prepared that it wants so, and returns its explanation; "" if it
/// wants none.
inline std::string run_prepared_spec(const KernelSpec& spec, const std::vector<TestTensor*>& given,
                                     const std::vector<TestTensor*>& outputs, int num_threads) {
  const auto prepared = make_cpu_target(num_threads)->prepared_input(spec);
  if (!prepared) {
    run_spec(spec, given, outputs, num_threads);
    return "";
  }
  std::vector<TestTensor*> inputs = given;
  TestTensor*& input = inputs[static_cast<std::size_t>(prepared->input)];
  TestTensor made(prepared->maker.outputs.front());
  run_spec(prepared->maker, {input}, {&made}, num_threads);
  if (prepared->restorer) {
    TestTensor restored(prepared->restorer->outputs.front());
    run_spec(*prepared->restorer, {&made}, {&restored}, num_threads);
    expect_same_values(restored, *input);
  }
  input = &made;
  // It is prepared once.
  EXPECT_FALSE(make_cpu_target(num_threads)->prepared_input(prepared->user).has_value());
  return run_spec(prepared->user, inputs, outputs, num_threads);
}
inline std::string run_prepared_kernel(const std::string& kind, const Attributes& attributes,
                                       const std::vector<TestTensor*>& inputs,
                                       const std::vector<TestTensor*>& outputs, int num_threads) {
  return run_prepared_spec(make_spec(kind, attributes, inputs, outputs), inputs, outputs,
                           num_threads);
}

/// Relative to the larger of 1 and |wanted|.
inline void expect_close(const TestTensor& got, const std::vector<double>& wanted, double tolerance,
                         const std::string& what = "") {
  ASSERT_EQ(static_cast<std::size_t>(got.size()), wanted.size()) << what;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double value = got.get(static_cast<std::int64_t>(i));
    if (std::isnan(wanted[i])) {
      EXPECT_TRUE(std::isnan(value)) << what << " element " << i << " is " << value;
      continue;
    }
    if (value == wanted[i]) continue;
    ASSERT_NEAR(value, wanted[i], tolerance * std::max(1.0, std::abs(wanted[i])))
        << what << " element " << i;
  }
}

/// Rounding error of one stored value.
inline double epsilon_of(DType dtype) {
  if (dtype == DType::Float16) return 1e-3;
  if (dtype == DType::BFloat16) return 8e-3;
  if (dtype == DType::Float32) return 2e-6;
  return dtype == DType::Float64 ? 1e-12 : 0.0;
}

}  // namespace pando::testing
