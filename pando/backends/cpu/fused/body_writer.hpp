// Writes the body of a program again, with other ops in the place of some.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "pando/backends/cpu/fused/fused_program.hpp"

namespace pando::cpu {

/// The constant whose lanes of four bytes have these bits.
int constant_of_bits(FusedProgram& program, std::uint32_t bits);

class BodyWriter {
 public:
  explicit BodyWriter(FusedProgram& program) : program_(program) {}

  void keep(int id) { body_.push_back(id); }
  int add(ChainOp op, int a, int b = -1, int c = -1);
  /// The op of a value; those that read it stay as they are.
  void replace(int id, ChainOp op, int a, int b);
  int constant(float value);
  int bits(std::uint32_t bits) { return constant_of_bits(program_, bits); }
  std::vector<int> take() { return std::move(body_); }

 private:
  FusedProgram& program_;
  std::vector<int> body_;
};

}  // namespace pando::cpu
