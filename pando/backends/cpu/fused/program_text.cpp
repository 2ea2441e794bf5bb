// Text and invariants of fused programs.
#include <algorithm>
#include <string_view>

#include "pando/backends/cpu/fused/fused_program.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

std::string_view kind_name(const FusedOp& op) {
  switch (op.kind) {
    case FusedOp::Kind::Input:
      return "Input";
    case FusedOp::Kind::Generated:
      return "Generated";
    case FusedOp::Kind::Constant:
      return "Constant";
    case FusedOp::Kind::Chain:
      return chain_facts(op.chain).name;
    case FusedOp::Kind::Tile:
      return scalar_op_name(op.op);
    case FusedOp::Kind::StoreRaw:
      return "Store";
    case FusedOp::Kind::StoreHalfPrecision:
      return op.format == DType::Float16 ? "StoreHalf" : "StoreBFloat16";
    case FusedOp::Kind::StoreTile:
      return "StoreNarrow";
  }
  return "";
}

/// How much of the iteration space has one value.
std::string_view extent_name(const FusedOp& op) { return op.uniform ? "uniform" : "element"; }

class Printer {
 public:
  explicit Printer(const FusedProgram& program) : program_(program), printed_(program.ops.size()) {}

  std::string run() {
    for (int id : program_.body) print(id);
    return std::move(text_);
  }

 private:
  void print(int id) {
    if (printed_[static_cast<std::size_t>(id)]) return;
    printed_[static_cast<std::size_t>(id)] = true;
    const FusedOp& op = program_.op(id);
    for (int operand : op.operands) {
      if (operand >= 0) print(operand);
    }
    text_ += op.is_store() ? std::string(kind_name(op)) : str_cat("%", id, " = ", kind_name(op));
    if (op.is_block() || op.is_store()) text_ += str_cat(" [", op.index, "]");
    if (op.kind == FusedOp::Kind::Constant) {
      text_ += str_cat(" bits ", program_.constants[static_cast<std::size_t>(op.index)].first);
    }
    for (int operand : op.operands) {
      if (operand >= 0) text_ += str_cat(" %", operand);
    }
    if (!op.is_store()) text_ += str_cat(" ", extent_name(op));
    text_ += "\n";
  }

  const FusedProgram& program_;
  std::vector<bool> printed_;
  std::string text_;
};

}  // namespace

std::string program_text(const FusedProgram& program) { return Printer(program).run(); }

void verify_program(const FusedProgram& program) {
  std::vector<bool> made(program.ops.size());
  for (int id : program.body) {
    const FusedOp& op = program.op(id);
    internal_check(!op.is_block() && !op.uniform, "the body of a fused program has what runs once");
    internal_check(!made[static_cast<std::size_t>(id)],
                   "the body of a fused program has an op twice");
    for (int operand : op.operands) {
      if (operand < 0) continue;
      const FusedOp& read = program.op(operand);
      internal_check(!read.is_store(), "an op of a fused program reads a store");
      internal_check(read.is_block() || read.uniform || made[static_cast<std::size_t>(operand)],
                     "an op of a fused program reads a value that is made later");
    }
    made[static_cast<std::size_t>(id)] = true;
  }
  for (int store : program.stores) {
    internal_check(made[static_cast<std::size_t>(store)], "a store of a fused program never runs");
  }
}

}  // namespace pando::cpu
