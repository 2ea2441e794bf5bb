#include "pando/runtime/program_collectives.hpp"

#include "pando/base/error.hpp"

namespace pando {
namespace {

Collective::Kind kind_of(CollectiveDesc::Kind kind) {
  switch (kind) {
    case CollectiveDesc::Kind::AllReduce:
      return Collective::Kind::AllReduce;
    case CollectiveDesc::Kind::ReduceScatter:
      return Collective::Kind::ReduceScatter;
    case CollectiveDesc::Kind::AllGather:
      return Collective::Kind::AllGather;
  }
  throw InternalError("a collective of no known kind");
}

}  // namespace

ProgramCollectives::ProgramCollectives(const Program& program, Communicator& replicas,
                                       RunProfile* profile)
    : profile_(profile) {
  std::vector<ReplicaGroups> known;
  // Two groups have different first members.
  const auto group_for = [&](const ReplicaGroups& groups) {
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (known[i] == groups) return groups_[i].get();
    }
    known.push_back(groups);
    groups_.push_back(replicas.split(groups.member(replicas.rank(), 0), replicas.rank()));
    return groups_.back().get();
  };
  entries_.reserve(program.collectives.size());
  for (std::size_t i = 0; i < program.collectives.size(); ++i) {
    const CollectiveDesc& desc = program.collectives[i];
    entries_.push_back({{kind_of(desc.kind), desc.reduction, desc.dtype, desc.input_elements,
                         desc.output_elements, static_cast<std::int64_t>(i), desc.name},
                        group_for(desc.groups)});
  }
}

void ProgramCollectives::exchange(const Entry& entry, const std::byte* input, std::byte* output,
                                  VirtualDevice& device) {
  const Collective& collective = entry.collective;
  Queue& queue = device.queue();
  if (queue.is_direct()) return entry.group->run(collective, input, output);
  // Replicas meet in the host's memory.
  const std::size_t element = dtype_bytes(collective.dtype);
  const std::size_t input_bytes = static_cast<std::size_t>(collective.input_elements) * element;
  const std::size_t output_bytes = static_cast<std::size_t>(collective.output_elements) * element;
  const std::byte* given = device.to_host().read(queue, input, input_bytes, device.check());
  std::byte* result = device.from_host().room(output_bytes, device.check());
  entry.group->run(collective, given, result);
  device.from_host().copy_to(queue, output, output_bytes);
}

}  // namespace pando
