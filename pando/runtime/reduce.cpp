#include "pando/runtime/reduce.hpp"

#include <bit>
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

/// Values that are computed with as they are stored.
template <class T>
struct PlainValues {
  using Value = T;
  static const Value* load(const std::byte* input, std::int64_t, Value*) {
    return reinterpret_cast<const T*>(input);
  }
  static Value* results(std::byte* result, Value*) { return reinterpret_cast<T*>(result); }
  static void store(const Value*, std::int64_t, std::byte*) {}
};

template <DType kFormat>
struct HalfPrecisionValues {
  using Value = float;
  static const Value* load(const std::byte* input, std::int64_t count, Value* buffer) {
    const auto* from = reinterpret_cast<const std::uint16_t*>(input);
    for (std::int64_t i = 0; i < count; ++i) buffer[i] = half_precision_to_float(from[i], kFormat);
    return buffer;
  }
  static Value* results(std::byte*, Value* buffer) { return buffer; }
  static void store(const Value* values, std::int64_t count, std::byte* result) {
    auto* to = reinterpret_cast<std::uint16_t*>(result);
    for (std::int64_t i = 0; i < count; ++i) to[i] = float_to_half_precision(values[i], kFormat);
  }
};

/// Starts every element with `first(x_0)`, goes on with `next(accumulated, x_m)` for the other
/// members, the last two in one pass that ends with `last(accumulated)`.
template <class Values, class First, class Next, class Last>
void accumulate(Inputs inputs, std::int64_t count, typename Values::Value* __restrict total,
                First first, Next next, Last last) {
  using T = typename Values::Value;
  T buffers[2][kReduceBlock];
  const T* __restrict a = Values::load(inputs[0], count, buffers[0]);
  if (inputs.size() == 1) {
    for (std::int64_t i = 0; i < count; ++i) total[i] = last(first(a[i]));
    return;
  }
  const T* __restrict b = Values::load(inputs[1], count, buffers[1]);
  if (inputs.size() == 2) {
    for (std::int64_t i = 0; i < count; ++i) total[i] = last(next(first(a[i]), b[i]));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) total[i] = next(first(a[i]), b[i]);
  for (std::size_t m = 2; m < inputs.size(); ++m) {
    const T* __restrict x = Values::load(inputs[m], count, buffers[0]);
    if (m + 1 < inputs.size()) {
      for (std::int64_t i = 0; i < count; ++i) total[i] = next(total[i], x[i]);
    } else {
      for (std::int64_t i = 0; i < count; ++i) total[i] = last(next(total[i], x[i]));
    }
  }
}

template <class Values>
void reduce(Reduction reduction, Inputs inputs, std::int64_t count, std::byte* result) {
  using T = typename Values::Value;
  T buffer[kReduceBlock];
  T* const total = Values::results(result, buffer);
  const auto same = [](T x) { return x; };
  const auto as_truth = [](T x) { return truth<T>(x != T{0}); };
  const auto run_to_end = [&](auto first, auto next, auto last) {
    accumulate<Values>(inputs, count, total, first, next, last);
  };
  const auto run = [&](auto first, auto next) { run_to_end(first, next, same); };
  switch (reduction) {
    case Reduction::Add:
      run(same, sum<T>);
      break;
    case Reduction::Mean: {
      const auto members = static_cast<T>(inputs.size());
      // By a power of two, multiplying by the inverse is dividing, and several times as fast.
      if (std::is_floating_point_v<T> && std::has_single_bit(inputs.size())) {
        const T share = T{1} / members;
        run_to_end(same, sum<T>, [share](T x) { return x * share; });
      } else {
        run_to_end(same, sum<T>, [members](T x) { return x / members; });
      }
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
      return reduce<PlainValues<float>>(reduction, inputs, count, result);
    case DType::Float16:
      return reduce<HalfPrecisionValues<DType::Float16>>(reduction, inputs, count, result);
    case DType::BFloat16:
      return reduce<HalfPrecisionValues<DType::BFloat16>>(reduction, inputs, count, result);
    case DType::Int32:
      return reduce<PlainValues<std::int32_t>>(reduction, inputs, count, result);
    case DType::UInt32:
      return reduce<PlainValues<std::uint32_t>>(reduction, inputs, count, result);
    default:
      throw InternalError(str_cat("collectives do not exchange ", dtype));
  }
}

}  // namespace pando
