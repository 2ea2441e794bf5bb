#include "pando/runtime/finite_checks.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <variant>

#include "pando/base/error.hpp"

namespace pando {
namespace {

/// Where the parts of a number of some width are.
template <class Word>
struct FloatBits {
  Word magnitude;  // all bits but the sign
  Word infinity;   // of the magnitude; what is larger is NaN
};

NonFinite operator|(NonFinite a, NonFinite b) { return {a.nan || b.nan, a.infinity || b.infinity}; }

NonFinite of_number(double value) { return {std::isnan(value), std::isinf(value)}; }

template <class Word>
NonFinite look_at(FloatBits<Word> bits, const std::byte* data, std::int64_t count,
                  std::int64_t stride) {
  bool nan = false;
  bool infinity = false;
  for (std::int64_t i = 0; i < count; ++i) {
    Word word = 0;
    std::memcpy(&word, data + i * stride * static_cast<std::int64_t>(sizeof word), sizeof word);
    const auto magnitude = static_cast<Word>(word & bits.magnitude);
    nan |= magnitude > bits.infinity;
    infinity |= magnitude == bits.infinity;
  }
  return {nan, infinity};
}

NonFinite look_at(DType dtype, const std::byte* data, std::int64_t count, std::int64_t stride) {
  switch (dtype) {
    case DType::Float64:
      return look_at<std::uint64_t>({0x7fffffffffffffffU, 0x7ff0000000000000U}, data, count,
                                    stride);
    case DType::Float32:
      return look_at<std::uint32_t>({0x7fffffffU, 0x7f800000U}, data, count, stride);
    case DType::Float16:
      return look_at<std::uint16_t>({0x7fff, 0x7c00}, data, count, stride);
    case DType::BFloat16:
      return look_at<std::uint16_t>({0x7fff, 0x7f80}, data, count, stride);
    default:
      return {};
  }
}

bool can_be_checked(DType dtype) {
  return dtype == DType::Float64 || dtype == DType::Float32 || is_half_precision(dtype);
}

/// The elements from dimension `d` on, whose first one is at `data`.
NonFinite look_at(const OperandDesc& operand, std::size_t d, const std::byte* data) {
  const std::size_t rank = operand.shape.size();
  if (rank == 0) return look_at(operand.dtype, data, 1, 1);
  if (d + 1 == rank) return look_at(operand.dtype, data, operand.shape[d], operand.strides[d]);
  NonFinite found;
  const auto bytes = static_cast<std::int64_t>(dtype_bytes(operand.dtype));
  const std::int64_t count = operand.strides[d] == 0 ? 1 : operand.shape[d];
  for (std::int64_t i = 0; i < count; ++i) {
    found = found | look_at(operand, d + 1, data + i * operand.strides[d] * bytes);
  }
  return found;
}

NonFinite look_at(const OperandDesc& operand, const std::byte* data) {
  if (data == nullptr || !can_be_checked(operand.dtype)) return {};
  if (num_elements(operand.shape) == 0) return {};
  if (operand.is_contiguous()) {
    return look_at(operand.dtype, data, num_elements(operand.shape), 1);
  }
  return look_at(operand, 0, data);
}

/// The bytes from the first to the last element, with those between that belong to others.
GivenToKernel::Overwritten copy_of(const OperandDesc& operand, std::byte* data) {
  const auto bytes = static_cast<std::int64_t>(dtype_bytes(operand.dtype));
  std::int64_t low = 0;
  std::int64_t end = bytes;
  for (std::size_t d = 0; d < operand.shape.size(); ++d) {
    const std::int64_t reach = (operand.shape[d] - 1) * operand.strides[d] * bytes;
    (reach < 0 ? low : end) += reach;
  }
  return {data + low, {data + low, data + end}};
}

NonFinite constants_of(const KernelSpec& kernel) {
  NonFinite found;
  for (const auto& [name, value] : kernel.attributes) {
    if (const auto* number = std::get_if<double>(&value)) found = found | of_number(*number);
    if (const auto* numbers = std::get_if<Floats>(&value)) {
      for (const double one : *numbers) found = found | of_number(one);
    }
  }
  for (const ScalarInstruction& one : kernel.scalar.instructions) {
    found = found | of_number(one.immediate);
  }
  return found;
}

}  // namespace

FiniteChecks::FiniteChecks(const Program& program) : program_(program) {
  constants_.reserve(program.kernels.size());
  for (const KernelSpec& kernel : program.kernels) constants_.push_back(constants_of(kernel));
}

GivenToKernel FiniteChecks::given_to(const Instruction& kernel, std::byte* const* operands) const {
  const auto index = static_cast<std::size_t>(kernel.target);
  const KernelSpec& spec = program_.kernels[index];
  GivenToKernel given{constants_[index], {}};
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    given.numbers = given.numbers | look_at(spec.inputs[i], operands[i]);
  }
  for (std::size_t i = 0; i < spec.outputs.size(); ++i) {
    std::byte* place = operands[spec.inputs.size() + i];
    const bool is_input =
        std::find(operands, operands + spec.inputs.size(), place) != operands + spec.inputs.size();
    if (place == nullptr || !is_input || num_elements(spec.outputs[i].shape) == 0) continue;
    given.overwritten.push_back(copy_of(spec.outputs[i], place));
  }
  return given;
}

void FiniteChecks::check(const Instruction& kernel, std::byte* const* operands,
                         const GivenToKernel& given) const {
  const KernelSpec& spec = program_.kernels[static_cast<std::size_t>(kernel.target)];
  operands += spec.inputs.size();
  for (const OperandDesc& output : spec.outputs) {
    const NonFinite made = look_at(output, *operands++);
    const bool made_nan = made.nan && !given.numbers.nan;
    const bool made_infinity = made.infinity && !given.numbers.infinity && !given.numbers.nan;
    if (!made_nan && !made_infinity) continue;
    for (const GivenToKernel::Overwritten& one : given.overwritten) {
      std::copy(one.bytes.begin(), one.bytes.end(), one.place);
    }
    std::string where = spec.kind;
    if (kernel.source >= 0) {
      const SourceInfo source = program_.sources[static_cast<std::size_t>(kernel.source)];
      where = std::string(source.op);
      if (!source.location.empty()) where += str_cat(" at ", source.location);
    }
    throw ApplicationFault(str_cat("floating-point exception: ", where, " gives ",
                                   made_nan ? "NaN" : "an infinity",
                                   ", which its operands do not have"));
  }
}

}  // namespace pando
