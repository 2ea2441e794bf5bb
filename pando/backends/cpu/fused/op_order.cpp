#include "pando/backends/cpu/fused/op_order.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace pando::cpu {
namespace {

/// Puts nodes in an order that lets chains pass their blocks on.
class Scheduler {
 public:
  Scheduler(const FusedProgram& program, bool uniform) : program_(program), uniform_(uniform) {
    done_.resize(program.ops.size());
    sizes_.resize(program.ops.size());
    slow_.resize(program.ops.size());
    stores_of_.resize(program.ops.size());
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      sizes_[i] = 1;
      slow_[i] = uses_divider(program.ops[i]);
      for (int operand : program.ops[i].operands) {
        if (operand >= 0) {
          slow_[i] = slow_[i] || slow_[static_cast<std::size_t>(operand)];
          sizes_[i] = std::min(sizes_[i] + sizes_[static_cast<std::size_t>(operand)], 1 << 20);
        }
      }
    }
    if (uniform) return;
    for (int store : program.stores) {
      stores_of_[static_cast<std::size_t>(node(store).operands[0])].push_back(store);
    }
  }

  void visit(int id) {
    const FusedOp& n = node(id);
    if (done_[static_cast<std::size_t>(id)] || n.is_block() || n.uniform != uniform_) return;
    std::array<int, 3> order = {0, 1, 2};
    // The operand computed last is passed on. Combined ops take it as operand 0 only. For others
    // the one that waits for a division or a root comes first, so that the rest runs meanwhile;
    // then the largest, so that fewer blocks wait.
    const bool first_only = n.kind == FusedOp::Kind::Chain && n.chain >= ChainOp::AddThenAdd;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      if (first_only) return a > b;
      return weight(n.operands[static_cast<std::size_t>(a)]) >
             weight(n.operands[static_cast<std::size_t>(b)]);
    });
    for (int k : order) {
      const int operand = n.operands[static_cast<std::size_t>(k)];
      if (operand >= 0) visit(operand);
    }
    append(id);
    for (int store : stores_of_[static_cast<std::size_t>(id)]) append(store);
  }

  void append(int id) {
    if (done_[static_cast<std::size_t>(id)]) return;
    done_[static_cast<std::size_t>(id)] = true;
    order_.push_back(id);
  }
  std::vector<int> take() { return std::move(order_); }

 private:
  const FusedOp& node(int id) const { return program_.ops[static_cast<std::size_t>(id)]; }
  std::pair<bool, int> weight(int id) const {
    if (id < 0) return {false, 0};
    const auto i = static_cast<std::size_t>(id);
    return {slow_[i] && !done_[i], sizes_[i]};
  }

  /// Results of the divider come much later than those of other units.
  static bool uses_divider(const FusedOp& n) {
    if (n.kind != FusedOp::Kind::Chain) return false;
    switch (n.chain) {
      case ChainOp::DivF:
      case ChainOp::SqrtF:
      case ChainOp::SqrtThenFma:
        return true;
      default:
        return n.chain >= ChainOp::AddThenDiv && n.chain <= ChainOp::MulThenRdiv;
    }
  }

  const FusedProgram& program_;
  bool uniform_;
  std::vector<bool> done_;
  std::vector<int> sizes_;
  std::vector<bool> slow_;
  std::vector<std::vector<int>> stores_of_;
  std::vector<int> order_;
};

}  // namespace

std::vector<int> body_order(const FusedProgram& program) {
  Scheduler body(program, false);
  for (int store : program.stores) {
    body.visit(program.ops[static_cast<std::size_t>(store)].operands[0]);
    body.append(store);
  }
  return body.take();
}

std::vector<int> prologue_order(const FusedProgram& program, const std::vector<bool>& kept) {
  Scheduler uniform(program, true);
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    if (kept[i]) uniform.visit(static_cast<int>(i));
  }
  return uniform.take();
}

}  // namespace pando::cpu
