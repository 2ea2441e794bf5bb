// Random ops. The words come from the generator itself, which has known-answer tests of its own.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "pando/base/philox.hpp"
#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

struct Generator {
  std::uint32_t key0, key1;
  /// From input `first`, a seed of two words, or from it and the next, one word each: the kinds
  /// <name>Core that the expansions make take those.
  Generator(const Inputs& in, std::size_t first) {
    const bool is_seed = in[first]->size() == 2;
    key0 = static_cast<std::uint32_t>((*in[first])[0]);
    key1 = static_cast<std::uint32_t>(is_seed ? (*in[first])[1] : (*in[first + 1])[0]);
  }

  std::uint32_t word(std::int64_t element, PhiloxStream stream) const {
    return philox_word(key0, key1, static_cast<std::uint32_t>(element),
                       static_cast<std::uint32_t>(stream));
  }
  bool keeps(std::int64_t element, double p, PhiloxStream stream) const {
    return static_cast<double>(word(element, stream)) >= std::round(p * 0x1p32);
  }
};

Number kept_scale(double p) { return 1.0f / (1.0f - static_cast<float>(p)); }

void dropout(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Generator generator(in, 1);
  const double p = op.attributes.number("p");
  for (std::int64_t i = 0; i < out[0].size(); ++i) {
    const bool kept = p == 0.0 || generator.keeps(i, p, PhiloxStream::Dropout);
    out[0][i] = kept ? (*in[0])[i] * kept_scale(p) : 0.0L;
  }
}

void shaped_dropout(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Generator generator(in, 1);
  const double ratio = op.attributes.number("ratio");
  const Shape& mask = op.attributes.ints("shape");
  for_each_element(out[0].shape, [&](std::int64_t i, const Shape& index) {
    const std::int64_t at = broadcast_position(mask, index);
    const bool kept = generator.keeps(at, ratio, PhiloxStream::ShapedDropout);
    out[0][i] = kept ? (*in[0])[i] * kept_scale(ratio) : 0.0L;
  });
}

void dropout_mask(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Generator generator(in, 0);
  const double ratio = op.attributes.number("ratio");
  for (std::int64_t i = 0; i < out[0].size(); ++i) {
    out[0][i] = generator.keeps(i, ratio, PhiloxStream::ShapedDropout) ? 1.0L : 0.0L;
  }
}

/// The upper 24 bits of a word as a fraction.
Number fraction(std::uint32_t word) { return static_cast<Number>(word >> 8) * 0x1p-24L; }

/// The largest number of float16, bfloat16 or float32 below `limit`.
Number largest_below(Number limit, DType dtype) {
  const bool is_half = dtype == DType::Float16;
  const Number below = std::nextafter(limit, -std::numeric_limits<Number>::infinity());
  const int exponent = std::max(std::ilogb(below), is_half ? -14 : -126);
  const int fraction_bits = is_half ? 10 : dtype == DType::BFloat16 ? 7 : 23;
  const Number step = std::ldexp(1.0L, exponent - fraction_bits);
  return std::floor(below / step) * step;
}

void uniform(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Generator generator(in, 0);
  const Number low = static_cast<float>(op.attributes.number("low"));
  const Number high = op.attributes.number("high");
  const Number range =
      static_cast<float>(op.attributes.number("high") - op.attributes.number("low"));
  for (std::int64_t i = 0; i < out[0].size(); ++i) {
    const Number x = low + range * fraction(generator.word(i, PhiloxStream::Uniform));
    out[0][i] = x;
    // Rounded to the open end of the interval, it becomes the value below that.
    const bool is_outside = range > 0.0L && in.step(x, out[0].dtype) >= high;
    if (is_outside) out[0][i] = std::max(low, largest_below(high, out[0].dtype));
  }
}

void normal(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Generator generator(in, 0);
  for (std::int64_t i = 0; i < out[0].size(); ++i) {
    const Number u1 = fraction(generator.word(i, PhiloxStream::NormalRadius)) + 0x1p-24L;
    const Number u2 = fraction(generator.word(i, PhiloxStream::NormalAngle));
    const Number z =
        std::sqrt(-2.0L * std::log(u1)) * std::cos(2.0L * std::numbers::pi_v<Number> * u2);
    out[0][i] = op.attributes.number("mean") + op.attributes.number("std") * z;
  }
}

void modify_seed(const Op&, const Inputs& in, std::vector<Array>& out) {
  Generator generator(in, 0);
  generator.key1 += static_cast<std::uint32_t>((*in.back())[0]);
  out[0][0] = static_cast<Number>(generator.key0);
  out[0][1] = generator.word(0, PhiloxStream::ModifySeed);
}

}  // namespace

void add_random_rules(RuleTable& table) {
  table.add("Dropout", dropout);
  table.add("DropoutCore", dropout);
  table.add("ShapedDropout", shaped_dropout);
  table.add("DropoutMask", dropout_mask);
  table.add("RandomUniform", uniform);
  table.add("RandomUniformCore", uniform);
  table.add("RandomNormal", normal);
  table.add("RandomNormalCore", normal);
  table.add("ModifyRandomSeed", modify_seed);
  table.add("ModifyRandomSeedCore", modify_seed);
}

}  // namespace pando::oracle
