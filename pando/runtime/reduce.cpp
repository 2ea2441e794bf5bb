#include "pando/runtime/reduce.hpp"

#include <cstring>
#include <type_traits>

#include "pando/base/error.hpp"
#include "pando/base/half.hpp"

namespace pando {
namespace {

using Inputs = std::span<const std::byte* const>;

/// Integers are added and multiplied as unsigned: they wrap.
template <class T>
using Arithmetic =
    std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

template <class T>
T sum(T a, T b) {
  return static_cast<T>(static_cast<Arithmetic<T>>(a) + static_cast<Arithmetic<T>>(b));
}

template <class T>
T product(T a, T b) {
  return static_cast<T>(static_cast<Arithmetic<T>>(a) * static_cast<Arithmetic<T>>(b));
}

/// The first value wins a tie; NaN wins over everything.
template <class T>
T smaller(T a, T b) {
  return b < a || b != b ? b : a;
}

template <class T>
T larger(T a, T b) {
  return b > a || b != b ? b : a;
}

template <class T>
T truth(bool value) {
  return value ? T{1} : T{0};
}

struct Float32Values {
  using Value = float;
  static const Value* load(const std::byte* input, std::int64_t, Value*) {
    return reinterpret_cast<const float*>(input);
  }
  static void store(const Value* values, std::int64_t count, std::byte* result) {
    std::memcpy(result, values, static_cast<std::size_t>(count) * sizeof(Value));
  }
};

struct Float16Values {
  using Value = float;
  static const Value* load(const std::byte* input, std::int64_t count, Value* buffer) {
    halves_to_floats(reinterpret_cast<const std::uint16_t*>(input), buffer,
                     static_cast<std::size_t>(count));
    return buffer;
  }
  static void store(const Value* values, std::int64_t count, std::byte* result) {
    floats_to_halves(values, reinterpret_cast<std::uint16_t*>(result),
                     static_cast<std::size_t>(count));
  }
};

template <class T>
struct IntegerValues {
  using Value = T;
  static const Value* load(const std::byte* input, std::int64_t, Value*) {
    return reinterpret_cast<const T*>(input);
  }
  static void store(const Value* values, std::int64_t count, std::byte* result) {
    std::memcpy(result, values, static_cast<std::size_t>(count) * sizeof(Value));
  }
};

/// Starts every element with `first(x_0)`, then `next(accumulated, x_m)` for the other members.
template <class Values, class First, class Next>
void accumulate(Inputs inputs, std::int64_t count, typename Values::Value* total, First first,
                Next next) {
  typename Values::Value buffer[kReduceBlock];
  for (std::size_t m = 0; m < inputs.size(); ++m) {
    const auto* values = Values::load(inputs[m], count, buffer);
    if (m == 0) {
      for (std::int64_t i = 0; i < count; ++i) total[i] = first(values[i]);
    } else {
      for (std::int64_t i = 0; i < count; ++i) total[i] = next(total[i], values[i]);
    }
  }
}

template <class Values>
void reduce(Reduction reduction, Inputs inputs, std::int64_t count, std::byte* result) {
  using T = typename Values::Value;
  T total[kReduceBlock];
  const auto same = [](T x) { return x; };
  const auto as_truth = [](T x) { return truth<T>(x != T{0}); };
  const auto run = [&](auto first, auto next) {
    accumulate<Values>(inputs, count, total, first, next);
  };
  switch (reduction) {
    case Reduction::Add:
      run(same, sum<T>);
      break;
    case Reduction::Mean: {
      run(same, sum<T>);
      const auto members = static_cast<T>(inputs.size());
      for (std::int64_t i = 0; i < count; ++i) total[i] /= members;
      break;
    }
    case Reduction::Mul:
      run(same, product<T>);
      break;
    case Reduction::Min:
      run(same, smaller<T>);
      break;
    case Reduction::Max:
      run(same, larger<T>);
      break;
    case Reduction::And:
      run(as_truth, [](T a, T b) { return truth<T>(a != T{0} && b != T{0}); });
      break;
    case Reduction::Or:
      run(as_truth, [](T a, T b) { return truth<T>(a != T{0} || b != T{0}); });
      break;
    case Reduction::SquareAdd:
      run([](T x) { return product(x, x); }, [](T a, T x) { return sum(a, product(x, x)); });
      break;
    case Reduction::Local:
      throw InternalError("a local collective reduces nothing");
  }
  Values::store(total, count, result);
}

}  // namespace

void reduce_elements(Reduction reduction, DType dtype, Inputs inputs, std::int64_t count,
                     std::byte* result) {
  internal_check(count <= kReduceBlock, "a block of a reduction is too long");
  switch (dtype) {
    case DType::Float32:
      return reduce<Float32Values>(reduction, inputs, count, result);
    case DType::Float16:
      return reduce<Float16Values>(reduction, inputs, count, result);
    case DType::Int32:
      return reduce<IntegerValues<std::int32_t>>(reduction, inputs, count, result);
    case DType::UInt32:
      return reduce<IntegerValues<std::uint32_t>>(reduction, inputs, count, result);
    default:
      throw InternalError(str_cat("collectives do not exchange ", dtype));
  }
}

}  // namespace pando
