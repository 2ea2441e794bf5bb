// Calls, loops, conditionals, host and remote transfers, prints.
#include <algorithm>
#include <cstring>
#include <set>

#include "pando/base/error.hpp"
#include "pando/compile/function_lowering.hpp"

namespace pando {

bool FunctionLowering::lower_special(const Op& op) {
  const std::string& kind = op.kind();
  if (kind == "Call") {
    lower_call(op);
  } else if (kind == "Loop") {
    lower_loop(op);
  } else if (kind == "If") {
    lower_if(op);
  } else if (kind == "HostLoad" || kind == "HostStore" || kind == "RemoteLoad" ||
             kind == "RemoteLoadInplace" || kind == "RemoteStore") {
    lower_transfer(op);
  } else if (kind == "PrintTensor") {
    lower_print(op);
  } else if (kind == "Init") {
    // Undefined contents: only the storage. (Zeros are a Fill by now.)
    storage(storage_of(placements_.of(op.output(0)).root)).starts_undefined = true;
  } else {
    return lower_collective(op);
  }
  return true;
}

std::vector<bool> ProgramLowering::written_arguments(const Op& op, const Graph& callee,
                                                     int first_op_input, int first_graph_input,
                                                     int count) {
  const std::vector<bool>& written = written_inputs(callee);
  const InputSet modified = op.modified_inputs();
  std::vector<bool> result;
  result.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const std::int64_t graph_input = std::int64_t{first_graph_input} + i;
    result.push_back(written[static_cast<std::size_t>(graph_input)] &&
                     modified.contains(first_op_input + i));
  }
  return result;
}

std::vector<ProgramLowering::FunctionRequest> ProgramLowering::callees_of(const Op& op) {
  const std::string& kind = op.kind();
  if (op.called_graphs.empty()) return {};
  const Graph& callee = *op.called_graphs[0];
  if (kind == "Call") return {{&callee, written_arguments(op, callee, 0, 0, op.num_inputs())}};
  if (kind == "Loop") {
    const int user_inputs = std::max(op.num_inputs() - kLoopControlInputs, 0);
    std::vector<bool> writable =
        written_arguments(op, callee, kLoopControlInputs, kLoopControlInputs, user_inputs);
    // What is carried is always a copy that the body may write.
    std::fill_n(writable.begin(), op.num_outputs(), true);
    writable.insert(writable.begin(), kLoopControlInputs, false);
    return {{&callee, std::move(writable), op.num_outputs()}};
  }
  internal_check(kind == "If", "an op that calls graphs must be a call, a loop or a conditional");
  const int then_count = static_cast<int>(op.attributes.integer("num_then_inputs"));
  const int else_count = op.num_inputs() - 1 - then_count;
  const Graph& otherwise = *op.called_graphs[1];
  return {{&callee, written_arguments(op, callee, 1, 0, then_count)},
          {&otherwise, written_arguments(op, otherwise, 1 + then_count, 0, else_count)}};
}

FunctionLowering::Arguments FunctionLowering::bind_arguments(const Op& op, const Graph& callee,
                                                             int first_op_input,
                                                             int first_graph_input, int count) {
  Arguments arguments;
  arguments.operands.reserve(static_cast<std::size_t>(count));
  arguments.writable =
      program_.written_arguments(op, callee, first_op_input, first_graph_input, count);
  std::set<const Tensor*> written_roots;
  for (int i = 0; i < count; ++i) {
    if (!arguments.writable[static_cast<std::size_t>(i)]) continue;
    written_roots.insert(placements_.of(op.input(first_op_input + i)).root);
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
    const Placement& placement = placements_.of(tensor);
    const bool snapshot = !writable && written_roots.contains(placement.root);
    StepOperand operand = operand_of(tensor);
    if (!placement.view.is_contiguous() || snapshot) {
      const BoundTensor bound = bind(tensor);
      const BoundTensor copy = temporary_like(tensor->info, tensor->name() + " (argument)", &op);
      emit_copy(bound, copy, &op);
      if (writable) arguments.copies_back.emplace_back(copy, bound);
      operand = copy.operand;
    }
    arguments.operands.push_back(writable ? operand : operand.as_read_only());
  }
  return arguments;
}

int FunctionLowering::new_callee_frame(const Op& op) { return new_storage(0, "", &op); }

void FunctionLowering::lower_call(const Op& op) {
  const Graph& callee = *op.called_graphs[0];
  Arguments arguments = bind_arguments(op, callee, 0, 0, op.num_inputs());
  StepInstruction call;
  call.kind = Instruction::Kind::Call;
  call.target = program_.function_of(program_.callees_of(op)[0]);
  call.operands = std::move(arguments.operands);
  call.operands.reserve(call.operands.size() + op.outputs().size());
  for (const Tensor* output : op.outputs()) call.operands.push_back(operand_of(output));
  call.callee_frame = new_callee_frame(op);
  emit(std::move(call), &op);
  for (const auto& [from, to] : arguments.copies_back) emit_copy(from, to, &op);
}

void FunctionLowering::lower_loop(const Op& op) {
  const Graph& wrapper = *op.called_graphs[0];
  const int carried = op.num_outputs();
  const int user_inputs = std::max(op.num_inputs() - kLoopControlInputs, 0);
  const std::int64_t trips = op.attributes.integer("trip_count");
  Arguments arguments =
      bind_arguments(op, wrapper, kLoopControlInputs, kLoopControlInputs, user_inputs);
  const InputSet modified = op.modified_inputs();
  StepInstruction loop;
  loop.kind = Instruction::Kind::Loop;
  loop.count = trips;
  loop.num_carried = carried;
  const BoundTensor iterator = temporary_like({DType::Int32, {}, {}}, "Iterator___", &op);
  const BoundTensor condition = temporary_like({DType::Bool, {}, {}}, "LoopCond___", &op);
  const BoundTensor condition_out = temporary_like({DType::Bool, {}, {}}, "LoopCond___", &op);
  loop.operands = {iterator.operand, condition.operand, condition_out.operand};
  // Iteration i reads buffer P(i) and writes P(i + 1); P(trips) is the op's output.
  std::vector<BoundTensor> outputs, others;
  for (int k = 0; k < carried; ++k) {
    const Tensor* output = op.output(k);
    outputs.push_back(bind(output));
    others.push_back(temporary_like(output->info, output->name() + " (other iteration)", &op));
  }
  for (int k = 0; k < carried; ++k) {
    const auto i = static_cast<std::size_t>(k);
    const Tensor* initial = op.input(kLoopControlInputs + k);
    BoundTensor from = bind(initial);
    from.operand = arguments.operands[i];
    from.desc = OperandDesc::contiguous(initial->dtype(), initial->shape());
    emit_copy(from, trips % 2 == 0 ? outputs[i] : others[i], &op);
  }
  for (const BoundTensor& b : outputs) loop.operands.push_back(b.operand);
  for (const BoundTensor& b : others) loop.operands.push_back(b.operand);
  for (int k = carried; k < user_inputs; ++k) {
    loop.operands.push_back(arguments.operands[static_cast<std::size_t>(k)]);
  }
  loop.target = program_.function_of(program_.callees_of(op)[0]);
  loop.callee_frame = new_callee_frame(op);
  emit(std::move(loop), &op);
  for (int k = 0; k < carried; ++k) {
    // A carried by-reference input ends with what the last iteration made of its own input, even
    // if that is nothing.
    const auto i = static_cast<std::size_t>(k);
    if (!modified.contains(kLoopControlInputs + k) || trips == 0) continue;
    emit_copy(others[i], bind(op.input(kLoopControlInputs + k)), &op);
  }
  for (const auto& [from, to] : arguments.copies_back) emit_copy(from, to, &op);
}

/// Each device looks at the condition by itself, also when another one is in the branch already: a
/// condition that a branch writes is a copy.
StepOperand FunctionLowering::bind_condition(const Op& op, const Arguments& then_arguments,
                                             const Arguments& else_arguments) {
  const BoundTensor condition = bind_contiguous(op.input(0), &op);
  const Tensor* root = placements_.of(op.input(0)).root;
  const auto writes = [&](const Arguments& arguments, int first) {
    for (std::size_t i = 0; i < arguments.writable.size(); ++i) {
      const Tensor* argument = op.input(first + static_cast<int>(i));
      if (arguments.writable[i] && placements_.of(argument).root == root) return true;
    }
    return false;
  };
  const auto then_count = static_cast<int>(then_arguments.writable.size());
  if (!writes(then_arguments, 1) && !writes(else_arguments, 1 + then_count)) {
    return condition.operand;
  }
  const BoundTensor copy =
      temporary_like(op.input(0)->info, op.input(0)->name() + " (condition)", &op);
  emit_copy(condition, copy, &op);
  return copy.operand;
}

void FunctionLowering::lower_if(const Op& op) {
  const int then_count = static_cast<int>(op.attributes.integer("num_then_inputs"));
  const int else_count = op.num_inputs() - 1 - then_count;
  const Graph& then_graph = *op.called_graphs[0];
  const Graph& else_graph = *op.called_graphs[1];
  const Arguments then_arguments = bind_arguments(op, then_graph, 1, 0, then_count);
  const Arguments else_arguments = bind_arguments(op, else_graph, 1 + then_count, 0, else_count);
  StepInstruction branch;
  branch.kind = Instruction::Kind::If;
  branch.count = then_count;
  const auto callees = program_.callees_of(op);
  branch.target = program_.function_of(callees[0]);
  branch.other_target = program_.function_of(callees[1]);
  branch.operands = {bind_condition(op, then_arguments, else_arguments).as_read_only()};
  const auto append = [&](const std::vector<StepOperand>& operands) {
    branch.operands.insert(branch.operands.end(), operands.begin(), operands.end());
  };
  append(then_arguments.operands);
  append(else_arguments.operands);
  for (const Tensor* output : op.outputs()) branch.operands.push_back(bind(output).operand);
  branch.callee_frame = new_callee_frame(op);
  emit(std::move(branch), &op);
}

std::optional<std::int64_t> FunctionLowering::constant_row(const Tensor* offset) const {
  const Tensor* root = placements_.of(offset).root;
  const bool is_number = root->kind() == TensorKind::Constant && root->data != nullptr &&
                         root->data->bytes == sizeof(std::int32_t) &&
                         (root->dtype() == DType::Int32 || root->dtype() == DType::UInt32);
  if (!is_number) return std::nullopt;
  std::int32_t row = 0;
  std::memcpy(&row, root->data->data, sizeof row);
  return row;
}

void FunctionLowering::lower_transfer(const Op& op) {
  StepInstruction transfer;
  const std::string& kind = op.kind();
  using Kind = Instruction::Kind;
  if (kind == "HostLoad" || kind == "HostStore") {
    transfer.kind = kind == "HostLoad" ? Kind::HostLoad : Kind::HostStore;
    transfer.target = program_.stream_index(graph_.ir(), op);
    transfer.operands = {kind == "HostLoad"
                             ? bind(op.output(0)).operand
                             : bind_contiguous(op.input(0), &op).operand.as_read_only()};
    return emit(std::move(transfer), &op);
  }
  const StepOperand offset = bind_contiguous(op.input(1), &op).operand.as_read_only();
  transfer.target = program_.buffer_index(graph_.ir(), op);
  transfer.count = op.input(1)->dtype() == DType::UInt32 ? 1 : 0;
  transfer.constant_row = constant_row(op.input(1));
  if (kind == "RemoteStore") {
    transfer.kind = Kind::RemoteStore;
    transfer.operands = {offset, bind_contiguous(op.input(0), &op).operand.as_read_only()};
    return emit(std::move(transfer), &op);
  }
  transfer.kind = Kind::RemoteLoad;
  const BoundTensor output = bind(op.output(0));
  const bool direct = output.desc.is_contiguous();
  const BoundTensor target =
      direct ? output : temporary_like(op.output(0)->info, op.output(0)->name(), &op);
  transfer.operands = {offset, target.operand};
  emit(std::move(transfer), &op);
  if (!direct) emit_copy(target, output, &op);
}

void FunctionLowering::lower_print(const Op& op) {
  const Tensor* tensor = op.input(0);
  PrintDesc print;
  print.dtype = tensor->dtype();
  print.shape = tensor->shape();
  print.format = op.attributes;
  print.title =
      op.attributes.has("title") ? op.attributes.text("title") : "print_" + tensor->name();
  program_.program_.prints.push_back(std::move(print));
  const BoundTensor value = bind_contiguous(tensor, &op);
  StepInstruction instruction;
  instruction.kind = Instruction::Kind::Print;
  instruction.target = static_cast<std::int32_t>(program_.program_.prints.size()) - 1;
  instruction.operands = {value.operand.as_read_only()};
  emit(std::move(instruction), &op);
  if (op.num_outputs() == 1) emit_copy(value, bind(op.output(0)), &op);
}

}  // namespace pando
