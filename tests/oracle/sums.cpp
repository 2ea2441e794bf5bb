#include "tests/oracle/sums.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "pando/ir/op_def.hpp"

namespace pando::oracle {
namespace {

/// Whether the rule applied to absolute values gives the sums of the absolute terms.
bool is_sum(const Op& op) {
  static const std::set<std::string> kKinds = {"MatMul",
                                               "Conv",
                                               "ConvTranspose",
                                               "ConvDataGrad",
                                               "ConvWeightsGrad",
                                               "MatMulLhsGrad",
                                               "MatMulRhsGrad",
                                               "ReduceSum",
                                               "ReduceL1",
                                               "ReduceSumSquare",
                                               "LambSquare",
                                               "AddArg0Grad",
                                               "AddArg1Grad",
                                               "SubArg0Grad",
                                               "SubArg1Grad",
                                               "MulArg0Grad",
                                               "MulArg1Grad",
                                               "DivArg0Grad",
                                               "DivArg1Grad",
                                               "FmodArg0Grad",
                                               "MaxArgGrad",
                                               "WhereXGrad",
                                               "WhereYGrad",
                                               "OneHotGrad",
                                               "GroupNormalizationGrad",
                                               "BatchNormalizationTrainingGrad",
                                               "SoftmaxGrad",
                                               "ScaledDotProductAttention",
                                               "ScaledDotProductAttentionGrad",
                                               "CumSumGrad",
                                               "CumProdGrad",
                                               "Fold",
                                               "PadGrad",
                                               "CumSum",
                                               "ReduceMean",
                                               "AveragePool",
                                               "MaxPoolGrad",
                                               "GatherGrad",
                                               "AveragePoolGrad",
                                               "AdaptiveAveragePool",
                                               "AdaptiveAveragePoolGrad",
                                               "AdaptiveMaxPoolGrad",
                                               "SparseAccumulate"};
  if (op.kind_name() == "ScatterReduce") return op.attributes.text("reduction") == "sum";
  return kKinds.contains(op.kind_name());
}

constexpr std::size_t kFactorInput = 2;                // of SparseAccumulate
constexpr std::size_t kNormalised = 1, kNormMean = 3;  // of gradients of norms

bool is_whole(const Array& array) {
  return std::all_of(array.data.begin(), array.data.end(),
                     [](Number x) { return x == std::floor(x); });
}

}  // namespace

void add_sum_error(const Op& op, const Rule& rule, const Inputs& inputs,
                   std::vector<Array>& outputs) {
  if (!is_sum(op) || !is_floating_point(outputs[0].dtype)) return;
  std::vector<Array> absolute;
  absolute.reserve(inputs.size() + 1);
  Inputs pointers;
  pointers.absolute = true;
  bool exact = is_whole(outputs[0]);
  for (const Array* input : inputs) {
    if (input == nullptr) {
      pointers.push_back(nullptr);
      continue;
    }
    exact = exact && is_whole(*input);
    absolute.push_back(*input);
    // Indices stay what they are.
    if (is_floating_point(input->dtype)) {
      for (Number& x : absolute.back().data) x = std::fabs(x);
    }
    pointers.push_back(&absolute.back());
  }
  if (exact) return;
  // What is compared must stay what it is.
  if (op.kind_name() == "MaxPoolGrad" || op.kind_name() == "AdaptiveMaxPoolGrad") {
    std::copy_n(inputs.begin(), 2, pointers.begin());
  }
  if (op.kind_name() == "MaxArgGrad") std::copy_n(inputs.begin() + 1, 2, pointers.begin() + 1);
  if (op.kind_name() == "GroupNormalizationGrad" ||
      op.kind_name() == "BatchNormalizationTrainingGrad") {
    for (std::size_t k : {kNormalised, kNormMean}) pointers[k] = inputs[k];
  }
  if (op.kind_name() == "SparseAccumulate" && pointers[kFactorInput] == nullptr) {
    absolute.emplace_back(DType::Float32, Shape{});
    absolute.back()[0] = std::fabs(op.attributes.number_or("factor", 1.0));
    pointers[kFactorInput] = &absolute.back();
  }
  std::vector<Array> sums;
  for (const Array& output : outputs) sums.emplace_back(output.dtype, output.shape);
  rule(op, pointers, sums);
  std::minstd_rand signs(static_cast<std::uint32_t>(op.id()) + 1);
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    for (std::int64_t i = 0; i < outputs[k].size(); ++i) {
      // The logarithm of no sum at all is infinite.
      if (!std::isfinite(sums[k][i])) continue;
      outputs[k][i] += (signs() / 2 % 2 == 0 ? 0x1p-23L : -0x1p-23L) * sums[k][i];
    }
  }
}

}  // namespace pando::oracle
