// Random ops. The words come from the generator itself, which has known-answer tests of its own.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "pando/base/philox.hpp"
#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

struct Generator {
  std::uint32_t key0, key1;
  explicit Generator(const Array& seed)
      : key0(static_cast<std::uint32_t>(seed[0])), key1(static_cast<std::uint32_t>(seed[1])) {}

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
  const Generator generator(*in[1]);
  const double p = op.attributes.number("p");
  for (std::int64_t i = 0; i < out[0].size(); ++i) {
    const bool kept = p == 0.0 || generator.keeps(i, p, PhiloxStream::Dropout);
    out[0][i] = kept ? (*in[0])[i] * kept_scale(p) : 0.0L;
  }
}

void shaped_dropout(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Generator generator(*in[1]);
  const double ratio = op.attributes.number("ratio");
  const Shape& mask = op.attributes.ints("shape");
  for_each_element(out[0].shape, [&](std::int64_t i, const Shape& index) {
    const std::int64_t at = broadcast_position(mask, index);
    const bool kept = generator.keeps(at, ratio, PhiloxStream::ShapedDropout);
    out[0][i] = kept ? (*in[0])[i] * kept_scale(ratio) : 0.0L;
  });
}

/// The upper 24 bits of a word as a fraction.
Number fraction(std::uint32_t word) { return static_cast<Number>(word >> 8) * 0x1p-24L; }

void uniform(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Generator generator(*in[0]);
  const Number low = static_cast<float>(op.attributes.number("low"));
  const Number range =
      static_cast<float>(op.attributes.number("high") - op.attributes.number("low"));
  for (std::int64_t i = 0; i < out[0].size(); ++i) {
    out[0][i] = low + range * fraction(generator.word(i, PhiloxStream::Uniform));
  }
}

void normal(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Generator generator(*in[0]);
  for (std::int64_t i = 0; i < out[0].size(); ++i) {
    const Number u1 = fraction(generator.word(i, PhiloxStream::NormalRadius)) + 0x1p-24L;
    const Number u2 = fraction(generator.word(i, PhiloxStream::NormalAngle));
    const Number z =
        std::sqrt(-2.0L * std::log(u1)) * std::cos(2.0L * std::numbers::pi_v<Number> * u2);
    out[0][i] = op.attributes.number("mean") + op.attributes.number("std") * z;
  }
}

void modify_seed(const Op&, const Inputs& in, std::vector<Array>& out) {
  Generator generator(*in[0]);
  generator.key1 += static_cast<std::uint32_t>((*in[1])[0]);
  out[0][0] = (*in[0])[0];
  out[0][1] = generator.word(0, PhiloxStream::ModifySeed);
}

}  // namespace

void add_random_rules(RuleTable& table) {
  table.add("Dropout", dropout);
  table.add("ShapedDropout", shaped_dropout);
  table.add("RandomUniform", uniform);
  table.add("RandomNormal", normal);
  table.add("ModifyRandomSeed", modify_seed);
}

}  // namespace pando::oracle
