// Calls, loops and conditionals.
#include <algorithm>
#include <unordered_set>

#include "pando/base/error.hpp"
#include "pando/compile/lower_ops.hpp"
#include "pando/ir/loop_arguments.hpp"

namespace pando {
namespace {

/// More than any program lives to see.
constexpr std::int64_t kUnboundedTrips = std::int64_t{1} << 60;

std::int64_t most_iterations(const Op& loop) {
  const bool is_bounded = loop.attributes.has("max_iterations");
  return is_bounded ? loop.attributes.integer("max_iterations") : kUnboundedTrips;
}

class CallLowering {
 public:
  CallLowering(FrameBuilder& frame, CalledFunctions& functions)
      : frame_(frame), functions_(functions) {}

  void call(const Op& op) {
    const Graph& callee = *op.called_graphs[0];
    const std::vector<FunctionRequest> callees = functions_.callees_of(op);
    Arguments arguments = bind_arguments(op, callee, 0, 0, callees[0].writable);
    StepInstruction in;
    in.kind = Instruction::Kind::Call;
    in.target = functions_.index_of(callees[0]);
    in.operands = std::move(arguments.operands);
    for (const Tensor* output : op.outputs()) in.operands.push_back(frame_.operand_of(output));
    in.callee_frames = {new_callee_frame(op)};
    frame_.emit(std::move(in), &op);
    for (const auto& [from, to] : arguments.copies_back) frame_.emit_copy(from, to, &op);
  }

  void loop(const Op& op) {
    const Graph& wrapper = *op.called_graphs[0];
    const int carried = op.num_outputs();
    const int user_inputs = std::max(op.num_inputs() - kLoopControlInputs, 0);
    const bool ends_early = op.kind() == OpKind::While;
    const std::int64_t trips =
        ends_early ? most_iterations(op) : op.attributes.integer("trip_count");
    Arguments arguments =
        bind_arguments(op, wrapper, kLoopControlInputs, kLoopControlInputs,
                       functions_.written_arguments(op, wrapper, kLoopControlInputs,
                                                    kLoopControlInputs, user_inputs));
    const InputSet modified = op.modified_inputs();
    StepInstruction in;
    in.kind = Instruction::Kind::Loop;
    in.count = trips;
    in.num_carried = carried;
    in.ends_early = ends_early;
    const BoundTensor iterator = frame_.new_tensor({DType::Int32, {}, {}}, "Iterator___", op);
    const BoundTensor condition = frame_.new_tensor({DType::Bool, {}, {}}, "LoopCond___", op);
    const BoundTensor condition_out = frame_.new_tensor({DType::Bool, {}, {}}, "LoopCond___", op);
    in.operands = {iterator.operand, condition.operand, condition_out.operand};
    if (ends_early) frame_.emit_copy(frame_.bind_contiguous(op.input(1), op), condition_out, &op);
    // Iteration i reads buffer P(i) and writes P(i + 1); P(trips) is the op's output. Where trips
    // are not known, P(0) is, and the runtime copies what ends in the other one.
    std::vector<BoundTensor> outputs, others;
    for (int k = 0; k < carried; ++k) {
      const Tensor* output = op.output(k);
      outputs.push_back(frame_.bind(output));
      others.push_back(
          frame_.new_tensor(output->info, str_cat(output->name(), " (other iteration)"), op));
    }
    for (int k = 0; k < carried; ++k) {
      const auto i = static_cast<std::size_t>(k);
      const Tensor* initial = op.input(kLoopControlInputs + k);
      BoundTensor from = frame_.bind(initial);
      from.operand = arguments.operands[i];
      from.desc = OperandDesc::contiguous(initial->dtype(), initial->shape());
      frame_.emit_copy(from, ends_early || trips % 2 == 0 ? outputs[i] : others[i], &op);
    }
    for (const BoundTensor& b : outputs) in.operands.push_back(b.operand);
    for (const BoundTensor& b : others) in.operands.push_back(b.operand);
    for (int k = carried; k < user_inputs; ++k) {
      in.operands.push_back(arguments.operands[static_cast<std::size_t>(k)]);
    }
    in.target = functions_.index_of(functions_.callees_of(op)[0]);
    in.callee_frames = {new_callee_frame(op)};
    frame_.emit(std::move(in), &op);
    for (int k = 0; k < carried; ++k) {
      // A carried by-reference input ends with what the last iteration made of its own input, even
      // if that is nothing.
      const auto i = static_cast<std::size_t>(k);
      if (!modified.contains(kLoopControlInputs + k) || trips == 0) continue;
      frame_.emit_copy(others[i], frame_.bind(op.input(kLoopControlInputs + k)), &op);
    }
    for (const auto& [from, to] : arguments.copies_back) frame_.emit_copy(from, to, &op);
  }

  void branch(const Op& op) {
    const int then_count = static_cast<int>(op.attributes.integer("num_then_inputs"));
    const Graph& then_graph = *op.called_graphs[0];
    const Graph& else_graph = *op.called_graphs[1];
    const std::vector<FunctionRequest> callees = functions_.callees_of(op);
    const Arguments then_arguments = bind_arguments(op, then_graph, 1, 0, callees[0].writable);
    const Arguments else_arguments =
        bind_arguments(op, else_graph, 1 + then_count, 0, callees[1].writable);
    StepInstruction in;
    in.kind = Instruction::Kind::If;
    in.count = then_count;
    in.target = functions_.index_of(callees[0]);
    in.other_target = functions_.index_of(callees[1]);
    in.operands = {bind_condition(op, then_arguments, else_arguments).as_read_only()};
    const auto append = [&](const std::vector<StepOperand>& operands) {
      in.operands.insert(in.operands.end(), operands.begin(), operands.end());
    };
    append(then_arguments.operands);
    append(else_arguments.operands);
    for (const Tensor* output : op.outputs()) in.operands.push_back(frame_.bind(output).operand);
    in.callee_frames = {new_callee_frame(op)};
    frame_.emit(std::move(in), &op);
  }

 private:
  struct Arguments {
    std::vector<StepOperand> operands;
    std::vector<bool> writable;
    std::vector<std::pair<BoundTensor, BoundTensor>> copies_back;
  };

  /// `writable_arguments`: of the arguments, which the callee writes.
  Arguments bind_arguments(const Op& op, const Graph& callee, int first_op_input,
                           int first_graph_input, std::vector<bool> writable_arguments) {
    Arguments arguments;
    arguments.writable = std::move(writable_arguments);
    arguments.operands.reserve(arguments.writable.size() + op.outputs().size());
    const int count = static_cast<int>(arguments.writable.size());
    std::unordered_set<const Tensor*> written_roots;
    for (int i = 0; i < count; ++i) {
      if (!arguments.writable[static_cast<std::size_t>(i)]) continue;
      written_roots.insert(frame_.placements().of(op.input(first_op_input + i)).root);
    }
    for (int i = 0; i < count; ++i) {
      const Tensor* tensor = op.input(first_op_input + i);
      if (tensor == nullptr) {
        throw Error(str_cat(
            describe(op), ": input ", first_op_input + i, " ('",
            callee
                .inputs()[static_cast<std::size_t>(first_graph_input) + static_cast<std::size_t>(i)]
                ->name(),
            "' of the called graph) is not connected"));
      }
      const bool writable = arguments.writable[static_cast<std::size_t>(i)];
      const Placement& placement = frame_.placements().of(tensor);
      const bool snapshot = !writable && written_roots.contains(placement.root);
      StepOperand operand = frame_.operand_of(tensor);
      if (!placement.view->is_contiguous() || snapshot) {
        const BoundTensor bound = frame_.bind(tensor);
        const BoundTensor copy =
            frame_.new_tensor(tensor->info, str_cat(tensor->name(), " (argument)"), op);
        frame_.emit_copy(bound, copy, &op);
        if (writable) arguments.copies_back.emplace_back(copy, bound);
        operand = copy.operand;
      }
      arguments.operands.push_back(writable ? operand : operand.as_read_only());
    }
    return arguments;
  }

  /// Each device looks at the condition by itself, also when another one is in the branch already:
  /// a condition that a branch writes is a copy.
  StepOperand bind_condition(const Op& op, const Arguments& then_arguments,
                             const Arguments& else_arguments) {
    const BoundTensor condition = frame_.bind_contiguous(op.input(0), op);
    const Tensor* root = frame_.placements().of(op.input(0)).root;
    const auto writes = [&](const Arguments& arguments, int first) {
      for (std::size_t i = 0; i < arguments.writable.size(); ++i) {
        const Tensor* argument = op.input(first + static_cast<int>(i));
        if (arguments.writable[i] && frame_.placements().of(argument).root == root) return true;
      }
      return false;
    };
    const auto then_count = static_cast<int>(then_arguments.writable.size());
    if (!writes(then_arguments, 1) && !writes(else_arguments, 1 + then_count)) {
      return condition.operand;
    }
    const BoundTensor copy =
        frame_.new_tensor(op.input(0)->info, str_cat(op.input(0)->name(), " (condition)"), op);
    frame_.emit_copy(condition, copy, &op);
    return copy.operand;
  }

  /// The storage of the frame of what `op` calls: its size, and whether each device wants one, is
  /// known once frames are planned.
  std::int32_t new_callee_frame(const Op& op) { return frame_.new_storage(0, "", &op); }

  FrameBuilder& frame_;
  CalledFunctions& functions_;
};

}  // namespace

void lower_call(const Op& op, FrameBuilder& frame, CalledFunctions& functions) {
  CallLowering lowering(frame, functions);
  if (op.def().is_call) return lowering.call(op);
  if (op.def().is_loop) return lowering.loop(op);
  internal_check(op.kind() == OpKind::If,
                 "an op that calls graphs must be a call, a loop or an if");
  lowering.branch(op);
}

}  // namespace pando
