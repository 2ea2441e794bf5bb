// Quotients by a uniform divisor beside the division of the processor, bit by bit.
#include <bit>
#include <numeric>
#include <optional>

#include "pando/base/float_state.hpp"
#include "tests/cpp/backends/fused_fixture.hpp"

namespace pando::fused_test {
namespace {

/// Each SIMD target has its way to a quotient.
using UniformDivision = testing::SimdTargetTest;

/// dividends / divisor, the divisor an input of one element.
class Quotients {
 public:
  Quotients() {
    KernelSpec spec = make_spec({kSize}, {DType::Float32, DType::Float32},
                                [](ScalarEmitter& e, const std::vector<ScalarValue>& in) {
                                  return std::vector<std::pair<ScalarValue, DType>>{
                                      {e.emit(ScalarOp::Div, in[0], in[1]), DType::Float32}};
                                });
    spec.inputs[1].strides = {0};
    kernel_ = cpu::make_fused_kernel(spec, 1, MachineCode::Always);
    scratch_.resize(kernel_->scratch_bytes() / sizeof(Line) + 1);
  }

  std::string explain() const { return kernel_->explain(); }

  /// Compares what was added, and forgets it.
  void check(float divisor) {
    while (dividends_.size() % kSize != 0) dividends_.push_back(dividends_.back());
    std::vector<float> found(kSize);
    for (std::size_t first = 0; first < dividends_.size(); first += kSize) {
      std::byte* operands[] = {reinterpret_cast<std::byte*>(dividends_.data() + first),
                               reinterpret_cast<std::byte*>(&divisor),
                               reinterpret_cast<std::byte*>(found.data())};
      kernel_->run(operands, reinterpret_cast<std::byte*>(scratch_.data()));
      for (std::size_t i = 0; i < kSize; ++i) compare(dividends_[first + i], divisor, found[i]);
    }
    dividends_.clear();
  }
  void add(float dividend) { dividends_.push_back(dividend); }
  void add_bits(std::uint32_t bits) { add(std::bit_cast<float>(bits)); }

 private:
  static constexpr std::int64_t kSize = 1024;
  struct alignas(64) Line {
    std::byte bytes[64];
  };

  static void compare(float dividend, float divisor, float found) {
    const volatile float a = dividend, c = divisor;
    const float wanted = a / c;
    const bool same = std::isnan(wanted) ? std::isnan(found)
                                         : std::bit_cast<std::uint32_t>(wanted) ==
                                               std::bit_cast<std::uint32_t>(found);
    if (!same)
      ADD_FAILURE() << dividend << " / " << divisor << " is " << wanted << ", not " << found;
  }

  std::unique_ptr<HostKernel> kernel_;
  std::vector<Line> scratch_;
  std::vector<float> dividends_;
};

float with_exponent(std::uint32_t mantissa, int exponent) {
  return std::ldexp(static_cast<float>(0x800000U | mantissa), exponent - 23);
}

/// Every exponent, with zeros, denormals, infinities and NaN.
void add_every_class(Quotients& quotients, std::mt19937& engine) {
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (std::uint32_t mantissa :
         {0U, 1U, 0x7fffffU, 0x400000U, std::uint32_t(engine() % 0x800000)}) {
      quotients.add_bits(exponent << 23 | mantissa);
      quotients.add_bits(0x80000000U | exponent << 23 | mantissa);
    }
  }
}

TEST_P(UniformDivision, HasTheBitsOfTheDivisionForEveryClassOfNumbers) {
  Quotients quotients;
  std::mt19937 engine(1);
  const FlushDenormals flush;
  for (int exponent = -70; exponent <= 70; ++exponent) {
    for (std::uint32_t mantissa : {0U, 1U, 0x7fffffU, std::uint32_t(engine() % 0x800000)}) {
      add_every_class(quotients, engine);
      quotients.check(with_exponent(mantissa, exponent));
      add_every_class(quotients, engine);
      quotients.check(-with_exponent(mantissa, exponent));
      if (HasFailure()) return;
    }
  }
}

TEST_P(UniformDivision, DividesByWhatHasNoReciprocal) {
  Quotients quotients;
  std::mt19937 engine(2);
  for (bool flushes : {false, true}) {
    std::optional<FlushDenormals> flush;
    if (flushes) flush.emplace();
    for (float divisor : {0.0f, 1e-40f, 1e-38f, 3e38f, HUGE_VALF, NAN}) {
      add_every_class(quotients, engine);
      quotients.check(divisor);
      add_every_class(quotients, engine);
      quotients.check(-divisor);
      if (HasFailure()) return;
    }
  }
}

TEST_P(UniformDivision, KeepsDenormalsWhereTheThreadDoes) {
  Quotients quotients;
  std::mt19937 engine(3);
  for (float divisor : {0.75f, 3.0f, -1e-3f, 1e3f}) {
    add_every_class(quotients, engine);
    quotients.check(divisor);
  }
}

TEST_P(UniformDivision, HasTheBitsOfTheDivisionForRandomNumbers) {
  Quotients quotients;
  std::mt19937 engine(4);
  const FlushDenormals flush;
  for (int i = 0; i < 1000; ++i) {
    for (int k = 0; k < 4096; ++k) quotients.add_bits(std::uint32_t(engine()));
    const float divisor = with_exponent(engine() % 0x800000, static_cast<int>(engine() % 121) - 60);
    quotients.check(engine() % 2 == 0 ? divisor : -divisor);
    if (HasFailure()) return;
  }
}

/// The number whose product with `value` is 1 modulo `modulus`, both odd or coprime.
std::int64_t inverse(std::int64_t value, std::int64_t modulus) {
  std::int64_t previous = 0, current = 1, rest = modulus, divisor = value % modulus;
  while (divisor != 0) {
    const std::int64_t times = rest / divisor;
    previous = std::exchange(current, previous - times * current);
    rest = std::exchange(divisor, rest - times * divisor);
  }
  return previous < 0 ? previous + modulus : previous;
}

/// a / c is next to the middle of two floats where a * 2^s = c * odd + k for a small k, a and c
/// integers of 24 bits, and s 24 for a >= c, else 25: only there a quotient could be rounded wrong.
void add_near_midpoints(Quotients& quotients, std::int64_t c, int s) {
  for (std::int64_t k = -5; k <= 5; k += 2) {
    std::int64_t power = 1;
    for (int i = 0; i < s; ++i) power = power * 2 % c;
    for (std::int64_t a = ((k + c) * inverse(power, c)) % c; a < 1 << 24; a += c) {
      const bool fits = a >= 1 << 23 && (s == 24) == (a >= c);
      if (fits && ((a << s) - k) / c % 2 != 0) quotients.add(static_cast<float>(a));
    }
  }
}

TEST_P(UniformDivision, HasTheBitsOfTheDivisionNextToMidpoints) {
  Quotients quotients;
  const FlushDenormals flush;
  for (std::int64_t c = (1 << 23) + 1; c < 1 << 24; c += 2 * 1777) {
    quotients.add(1.0f);
    add_near_midpoints(quotients, c, 24);
    add_near_midpoints(quotients, c, 25);
    quotients.check(static_cast<float>(c));
    if (HasFailure()) return;
  }
}

TEST_P(UniformDivision, IsSaidInTheListing) {
  const std::string text = Quotients().explain();
  if (text.find("machine code") == std::string::npos) GTEST_SKIP() << "no machine code here";
  EXPECT_NE(text.find("1 divisor with a reciprocal"), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(Targets, UniformDivision, testing::kSimdTargets, testing::target_name);

}  // namespace
}  // namespace pando::fused_test
