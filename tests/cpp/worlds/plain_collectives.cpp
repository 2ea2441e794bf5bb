#include "tests/cpp/worlds/plain_collectives.hpp"

#include <algorithm>
#include <cstring>

#include "pando/base/error.hpp"
#include "pando/base/half.hpp"

namespace pando::testing {
namespace {

/// `values` are the k-th elements of all ranks.
double reduced(Reduction reduction, const Numbers& values) {
  double sum = 0, product = 1, squares = 0;
  bool all = true, any = false;
  for (const double value : values) {
    sum += value;
    product *= value;
    squares += value * value;
    all = all && value != 0;
    any = any || value != 0;
  }
  switch (reduction) {
    case Reduction::Add:
      return sum;
    case Reduction::Mean:
      return sum / static_cast<double>(values.size());
    case Reduction::Mul:
      return product;
    case Reduction::Min:
      return *std::min_element(values.begin(), values.end());
    case Reduction::Max:
      return *std::max_element(values.begin(), values.end());
    case Reduction::And:
      return all ? 1 : 0;
    case Reduction::Or:
      return any ? 1 : 0;
    case Reduction::SquareAdd:
      return squares;
    case Reduction::Local:
      break;
  }
  throw InternalError("nothing to reduce");
}

template <class T>
std::vector<std::byte> encode_as(const Numbers& numbers) {
  std::vector<std::byte> bytes(numbers.size() * sizeof(T));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const T value = static_cast<T>(numbers[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

template <class T>
Numbers decode_as(const std::vector<std::byte>& bytes) {
  Numbers numbers(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    numbers[i] = static_cast<double>(value);
  }
  return numbers;
}

}  // namespace

Numbers plain_collective(const Collective& collective, int rank,
                         const std::vector<Numbers>& inputs) {
  Numbers all;  // what an AllReduce or AllGather gives, and a ReduceScatter cuts
  if (collective.kind == Collective::Kind::AllGather) {
    for (const Numbers& input : inputs) all.insert(all.end(), input.begin(), input.end());
  } else if (collective.reduction == Reduction::Local) {
    all = inputs[static_cast<std::size_t>(rank)];
  } else {
    for (std::size_t i = 0; i < inputs.front().size(); ++i) {
      Numbers values;
      for (const Numbers& input : inputs) values.push_back(input[i]);
      all.push_back(reduced(collective.reduction, values));
    }
  }
  const bool scatters = collective.kind == Collective::Kind::ReduceScatter;
  Numbers own;
  for (std::int64_t i = 0; i < collective.output_elements; ++i) {
    const auto at =
        static_cast<std::size_t>(i + (scatters ? rank * collective.output_elements : 0));
    own.push_back(at < all.size() ? all[at] : 0);
  }
  return own;
}

std::vector<std::byte> encode(const Numbers& numbers, DType dtype) {
  switch (dtype) {
    case DType::Float32:
      return encode_as<float>(numbers);
    case DType::Int32:
      return encode_as<std::int32_t>(numbers);
    case DType::UInt32:
      return encode_as<std::uint32_t>(numbers);
    case DType::Float16: {
      std::vector<std::byte> bytes(numbers.size() * sizeof(std::uint16_t));
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const std::uint16_t half = float_to_half(static_cast<float>(numbers[i]));
        std::memcpy(bytes.data() + i * sizeof half, &half, sizeof half);
      }
      return bytes;
    }
    default:
      throw InternalError("collectives do not reduce this dtype");
  }
}

Numbers decode(const std::vector<std::byte>& bytes, DType dtype) {
  switch (dtype) {
    case DType::Float32:
      return decode_as<float>(bytes);
    case DType::Int32:
      return decode_as<std::int32_t>(bytes);
    case DType::UInt32:
      return decode_as<std::uint32_t>(bytes);
    case DType::Float16: {
      Numbers numbers = decode_as<std::uint16_t>(bytes);
      for (double& number : numbers) number = half_to_float(static_cast<std::uint16_t>(number));
      return numbers;
    }
    default:
      throw InternalError("collectives do not reduce this dtype");
  }
}

}  // namespace pando::testing
