#include "pando/ops/scalar_math.hpp"

#include <utility>

namespace pando {

ScalarBody pointwise(ScalarFormula formula) {
  return [formula = std::move(formula)](ScalarEmitter& emitter, const Op& op,
                                        std::span<const ScalarValue> inputs) {
    std::vector<Scalar> values;
    values.reserve(inputs.size());
    for (ScalarValue input : inputs) values.emplace_back(emitter, input);
    return std::vector<ScalarValue>{formula(op, values).value()};
  };
}

ScalarBody pointwise_unary(std::function<Scalar(Scalar)> formula) {
  return pointwise([formula = std::move(formula)](const Op&, std::span<const Scalar> inputs) {
    return formula(inputs[0]);
  });
}

ScalarBody pointwise_binary(std::function<Scalar(Scalar, Scalar)> formula) {
  return pointwise([formula = std::move(formula)](const Op&, std::span<const Scalar> inputs) {
    return formula(inputs[0], inputs[1]);
  });
}

}  // namespace pando
