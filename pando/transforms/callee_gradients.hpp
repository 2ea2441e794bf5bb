// How the gradient of an op that runs graphs uses the gradient graphs of these.
#pragma once

#include <unordered_map>
#include <vector>

#include "pando/transforms/autodiff.hpp"

namespace pando {

/// The position of `tensor` in `tensors`; -1 if it is not there.
int index_in(const std::vector<Tensor*>& tensors, const Tensor* tensor);

/// The same for many tensors.
class TensorIndices {
 public:
  explicit TensorIndices(const std::vector<Tensor*>& tensors) {
    int next = 0;
    for (const Tensor* tensor : tensors) first_.emplace(tensor, next++);
  }
  int of(const Tensor* tensor) const {
    const auto it = first_.find(tensor);
    return it == first_.end() ? -1 : it->second;
  }

 private:
  std::unordered_map<const Tensor*, int> first_;
};

Tensor* zeros(OpBuilder& builder, const TensorInfo& info);

/// By expected input of a gradient graph: the outputs of its forward graph whose gradients it takes
/// the sum of (a FwdGrad), else none. One tensor may be several outputs, and wanted as often, less
/// often or more often: the last one takes the rest.
std::vector<std::vector<int>> outputs_of_gradients(const GradGraphInfo& info);

/// A graph with the inputs of the gradient graph of `info` (none if there is none), which gives
/// the gradient of each tensor of `targets`: the branch has them as inputs `first_input`.. of `op`.
/// A tensor that the branch does not use gets zeros, one that it uses twice the sum.
Graph& branch_gradients(const Op& op, const GradGraphInfo& info, int first_input,
                        const std::vector<Tensor*>& targets, Ir& ir);

}  // namespace pando
