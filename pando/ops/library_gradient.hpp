// What the gradient rule of a library's op builds with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pando/custom/pando_op.h"
#include "pando/ir/op_def.hpp"

namespace pando {

/// A GradientBuilder as the functions of pando_builder_v1. No exception leaves them, as C code may
/// be in between: the first one is kept, and everything after it fails.
class LibraryGradient {
 public:
  LibraryGradient(GradientBuilder& builder, const Op& op);
  LibraryGradient(const LibraryGradient&) = delete;
  LibraryGradient& operator=(const LibraryGradient&) = delete;

  const pando_builder_v1* table() const { return &table_; }
  /// Throws what went wrong while the rule ran, in the words of its op.
  void rethrow() const;

 private:
  struct Functions;

  /// What `work` returns, or 0 once something has failed.
  template <class Work>
  std::int32_t guarded(Work work);
  pando_node node_of(Tensor* tensor);
  Tensor* tensor_of(pando_node node) const;
  int checked_output(std::int32_t index) const;
  Tensor* made(const char* kind, const pando_node* inputs, std::int32_t num_inputs,
               const pando_value_v1* attributes, std::int32_t num_attributes);
  void set_gradient(std::int32_t index, Tensor* gradient);

  GradientBuilder& builder_;
  const Op& op_;
  std::vector<Tensor*> nodes_;  // node n is nodes_[n - 1]
  std::string fault_;
  pando_builder_v1 table_;
};

}  // namespace pando
