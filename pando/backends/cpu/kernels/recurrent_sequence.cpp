#include "pando/backends/cpu/kernels/recurrent_sequence.hpp"

#include <optional>

#include "pando/backends/cpu/kernels/matmul.hpp"
#include "pando/base/error.hpp"

namespace pando::cpu {
namespace {

std::optional<Cell> cell_of(const std::string& name) {
  if (name == "lstm") return Cell::Lstm;
  if (name == "gru") return Cell::Gru;
  if (name == "tanh") return Cell::Tanh;
  if (name == "relu") return Cell::Relu;
  return std::nullopt;
}

}  // namespace

std::string parse_sequence(const KernelRequest& request, const OperandDesc& states,
                           const OperandDesc& weights, Sequence& p) {
  const auto cell = cell_of(request.attributes().text("cell"));
  if (!cell) return "unknown cell";
  if (states.dtype != DType::Float32) return "only float32";
  if (states.shape.size() != 3 || weights.shape.size() != 2 ||
      weights.shape[1] != states.shape[2]) {
    return str_cat("the weights ", operand_text(weights), " do not fit ", operand_text(states));
  }
  p.cell = *cell;
  p.steps = states.shape[0];
  p.batch = states.shape[1];
  p.hidden = states.shape[2];
  p.gates = *cell == Cell::Lstm ? 4 : *cell == Cell::Gru ? 3 : 1;
  p.reverse = request.attributes().flag_or("reverse", false);
  p.threads = request.num_threads;
  return "";
}

KernelPlan plan_step_product(const Sequence& p, std::int64_t k, std::int64_t n,
                             std::int64_t rhs_row, std::int64_t rhs_column, bool has_bias) {
  MatMulProblem problem;
  problem.m = p.batch;
  problem.n = n;
  problem.k = k;
  problem.lhs_row = k;
  problem.lhs_column = 1;
  problem.rhs_row = rhs_row;
  problem.rhs_column = rhs_column;
  problem.out_row = n;
  problem.out_product = p.batch * n;
  problem.has_bias = has_bias;
  return plan_float32_matmul(problem, p.threads);
}

}  // namespace pando::cpu
