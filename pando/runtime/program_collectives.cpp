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

ProgramCollectives::ProgramCollectives(const Program& program, Communicator& replicas) {
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

}  // namespace pando
