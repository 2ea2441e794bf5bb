// Collectives, and the variables that live in remote buffers.
#include "pando/base/error.hpp"
#include "pando/compile/function_lowering.hpp"

namespace pando {
namespace {

std::optional<CollectiveDesc::Kind> collective_kind(const std::string& kind) {
  using Kind = CollectiveDesc::Kind;
  if (kind == "ReplicatedAllReduce" || kind == "ReplicatedAllReduceInplace") return Kind::AllReduce;
  if (kind == "ReplicatedReduceScatter") return Kind::ReduceScatter;
  if (kind == "ReplicatedAllGather") return Kind::AllGather;
  return std::nullopt;
}

void check_remote(const Tensor& variable, const RemoteBufferDesc& buffer, std::int64_t replicas) {
  const VariableSettings& settings = variable.settings;
  const std::string start =
      str_cat("the variable '", variable.id(), "', ", info_text(variable.info),
              ", cannot live in slot ", settings.slot, " of remote buffer ", buffer.id, ": ");
  if (settings.slot >= buffer.entries) {
    throw Error(str_cat(start, "the buffer has ", buffer.entries, " entries"));
  }
  const std::int64_t part =
      (variable.info.num_elements() + settings.shard_over - 1) / settings.shard_over;
  // A slot that is larger than a part just makes the parts larger, and the last ones emptier.
  const std::int64_t slot = num_elements(buffer.shape);
  const bool fits = settings.shard_over > 1 ? slot >= part : slot == part;
  if (buffer.dtype != variable.dtype() || !fits) {
    throw Error(str_cat(start, "a slot holds ", shape_text(buffer.shape), " ", buffer.dtype,
                        "; each of ", settings.shard_over, " parts has ", part, " elements"));
  }
  const std::int64_t group_size = replicas / settings.num_groups();
  if (group_size % settings.shard_over != 0) {
    throw Error(str_cat(start, settings.shard_over, " parts cannot be spread over groups of ",
                        group_size, " replicas"));
  }
}

}  // namespace

int ProgramLowering::collective_index(const Op& op) {
  CollectiveDesc collective;
  const auto kind = collective_kind(op.kind());
  internal_check(kind.has_value(), "a collective must have a kind");
  if (kind) collective.kind = *kind;
  const bool reduces = collective.kind != CollectiveDesc::Kind::AllGather;
  collective.reduction = Reduction::Local;
  if (reduces) {
    const auto reduction = reduction_of(op.attributes.text("op"));
    internal_check(reduction.has_value(), "a collective must have a known reduction");
    if (reduction) collective.reduction = *reduction;
  }
  collective.dtype = op.input(0)->dtype();
  collective.input_elements = op.input(0)->info.num_elements();
  collective.output_elements = op.output(0)->info.num_elements();
  collective.groups = {op.attributes.integer("stride"), op.attributes.integer("group_size")};
  const std::int64_t replicas = op.graph().ir().replication_factor;
  if (!collective.groups.fits(replicas)) {
    throw Error(str_cat(describe(op), ": ", replicas, " replicas cannot be divided into groups of ",
                        collective.groups.size, " with stride ", collective.groups.stride));
  }
  const SourceInfo source = program_.sources[static_cast<std::size_t>(source_index(op))];
  collective.name = source.location.empty() ? std::string(source.op)
                                            : str_cat(source.op, " (", source.location, ")");
  program_.collectives.push_back(std::move(collective));
  return static_cast<int>(program_.collectives.size()) - 1;
}

void ProgramLowering::add_remote_variables(const Ir& ir) {
  if (ir.remote_buffers().empty()) return;
  for (const Tensor* tensor : ir.main_graph().sources()) {
    const VariableSettings& settings = tensor->settings;
    if (tensor->kind() != TensorKind::Variable || settings.remote_buffer == 0) continue;
    const int index = buffer_index(ir, settings.remote_buffer);
    if (index < 0) {
      throw Error(str_cat("the variable '", tensor->id(), "' lives in remote buffer ",
                          settings.remote_buffer, ", which does not exist"));
    }
    check_remote(*tensor, program_.remote_buffers[static_cast<std::size_t>(index)],
                 ir.replication_factor);
    program_.remote_variables.push_back(
        {tensor->id(), tensor->dtype(), tensor->shape(), index, settings});
  }
}

bool FunctionLowering::lower_collective(const Op& op) {
  if (!collective_kind(op.kind())) return false;
  const Tensor* result = op.output(0);
  const BoundTensor input = bind_contiguous(op.input(0), &op);
  const BoundTensor output = bind(result);
  const bool direct = output.desc.is_contiguous();
  const BoundTensor target = direct ? output : temporary_like(result->info, result->name(), &op);
  StepInstruction collective;
  collective.kind = Instruction::Kind::Collective;
  collective.target = program_.collective_index(op);
  collective.operands = {input.operand.as_read_only(), target.operand};
  emit(std::move(collective), &op);
  if (!direct) emit_copy(target, output, &op);
  return true;
}

}  // namespace pando
