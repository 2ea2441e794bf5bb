// Exchanges between replicas.
#include "pando/base/error.hpp"
#include "pando/compile/lower_ops.hpp"

namespace pando {
namespace {

CollectiveDesc::Kind collective_kind(const Op& op) {
  using CollectiveKind = CollectiveDesc::Kind;
  switch (op.kind()) {
    case OpKind::ReplicatedAllReduce:
    case OpKind::ReplicatedAllReduceInplace:
      return CollectiveKind::AllReduce;
    case OpKind::ReplicatedReduceScatter:
      return CollectiveKind::ReduceScatter;
    case OpKind::ReplicatedAllGather:
      return CollectiveKind::AllGather;
    default:
      throw InternalError(str_cat(describe(op), " has no kind of collective"));
  }
}

CollectiveDesc collective_of(const Op& op) {
  CollectiveDesc collective;
  collective.kind = collective_kind(op);
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
  return collective;
}

}  // namespace

bool lower_collective(const Op& op, FrameBuilder& frame) {
  if (!op.def().is_collective) return false;
  const Tensor* result = op.output(0);
  const BoundTensor input = frame.bind_contiguous(op.input(0), op);
  const BoundTensor output = frame.bind(result);
  const bool direct = output.desc.is_contiguous();
  const BoundTensor target = direct ? output : frame.new_tensor(result->info, result->name(), op);
  StepInstruction collective;
  collective.kind = Instruction::Kind::Collective;
  collective.target = frame.tables().collective(collective_of(op), op);
  collective.operands = {input.operand.as_read_only(), target.operand};
  frame.emit(std::move(collective), &op);
  if (!direct) frame.emit_copy(target, output, &op);
  return true;
}

}  // namespace pando
