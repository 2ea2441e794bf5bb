// The program behind a product, and what of it the product can do.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "pando/program/program.hpp"

namespace pando::cpu {

struct ProductProgram {
  /// Kind `Fused` without products; input 0 is the product.
  KernelSpec rest;
  /// By operand of `rest`, that of the kernel: the product is where it is made.
  std::vector<std::size_t> operands;
  /// The input of the kernel, a row vector, with which the sums begin.
  std::optional<std::size_t> bias;

  bool is_empty() const { return rest.outputs.empty(); }
  /// Its only output is where the product is made.
  bool is_in_place() const {
    return rest.outputs.size() == 1 && operands.front() == operands.back();
  }
};

/// `spec`: one product, with a place.
ProductProgram split_product_program(const KernelSpec& spec);

/// Whether values depend on the number of an element.
bool numbers_elements(const ScalarProgram& program);

}  // namespace pando::cpu
