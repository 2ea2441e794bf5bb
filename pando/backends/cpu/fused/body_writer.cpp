#include "pando/backends/cpu/fused/body_writer.hpp"

#include <algorithm>
#include <bit>

namespace pando::cpu {

int constant_of_bits(FusedProgram& program, std::uint32_t bits) {
  const std::pair<std::uint64_t, std::size_t> entry{bits, sizeof bits};
  const auto it = std::find(program.constants.begin(), program.constants.end(), entry);
  FusedOp constant;
  constant.index = static_cast<int>(it - program.constants.begin());
  constant.uniform = true;
  if (it == program.constants.end()) program.constants.push_back(entry);
  program.ops.push_back(constant);
  return static_cast<int>(program.ops.size()) - 1;
}

int BodyWriter::add(ChainOp op, int a, int b, int c) {
  FusedOp added;
  added.kind = FusedOp::Kind::Chain;
  added.chain = op;
  added.operands = {a, b, c};
  added.uses = 1;
  program_.ops.push_back(added);
  body_.push_back(static_cast<int>(program_.ops.size()) - 1);
  return body_.back();
}

void BodyWriter::replace(int id, ChainOp op, int a, int b) {
  FusedOp& replaced = program_.op(id);
  replaced.kind = FusedOp::Kind::Chain;
  replaced.chain = op;
  replaced.operands = {a, b, -1};
  body_.push_back(id);
}

int BodyWriter::constant(float value) { return bits(std::bit_cast<std::uint32_t>(value)); }

}  // namespace pando::cpu
