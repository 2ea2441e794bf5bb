#include "pando/runtime/replica_team.hpp"

#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "pando/base/error.hpp"
#include "pando/base/spin.hpp"

namespace pando {
namespace {

/// Programs number their collectives from 0 on; a split has -1.
constexpr std::int64_t kComparisonId = -2;

/// `message` with the number of the replica, unless it begins with one.
std::string numbered(int replica, const std::string& message) {
  return message.starts_with("replica ") ? message : str_cat("replica ", replica, ": ", message);
}

/// Throws the error again, with the number of the replica in errors of a run.
[[noreturn]] void rethrow_from(int replica, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const RuntimeFault& fault) {
    throw RuntimeFault(numbered(replica, fault.what()));
  } catch (const Error& fault) {
    if (fault.code() != ErrorCode::InvalidProgram) throw;
    throw Error(str_cat("replica ", replica, ": ", fault.what()));
  }
}

}  // namespace

ReplicaTeam::ReplicaTeam(World& world, std::function<bool()> should_stop)
    : world_(world),
      should_stop_(std::move(should_stop)),
      team_(static_cast<int>(world.local_ranks().size()), team_spins(world.size()),
            "the replicas of a session",
            {.should_stop = should_stop_,
             .on_failure =
                 [this](int local, const std::exception_ptr& error) {
                   communicator(local).fail(error);
                 },
             .on_end = [this](int local) { world_.end_run(rank_of(local)); }}) {
  comparisons_.resize(world.local_ranks().size());
  for (int local = 0; local < team_.size(); ++local) {
    communicators_.push_back(
        world_.communicator(rank_of(local), local == 0 ? should_stop_ : std::function<bool()>()));
  }
}

std::function<bool()> ReplicaTeam::should_stop(int local) {
  return [this, local] {
    communicator(local).check();
    return local == 0 && should_stop_ && should_stop_();
  };
}

void ReplicaTeam::check_same_program(int local, std::uint64_t program) {
  if (!has_replicas_elsewhere()) return;
  Comparison& comparison = comparisons_[static_cast<std::size_t>(local)];
  comparison.own = static_cast<std::int64_t>(program);
  comparison.all.resize(static_cast<std::size_t>(world_.size()));
  comparison.gather = {.kind = Collective::Kind::AllGather,
                       .dtype = DType::Int64,
                       .input_elements = 1,
                       .output_elements = world_.size(),
                       .id = kComparisonId,
                       .name = "the comparison of programs"};
  communicator(local).run(comparison.gather, reinterpret_cast<const std::byte*>(&comparison.own),
                          reinterpret_cast<std::byte*>(comparison.all.data()));
  std::string others;
  for (int rank = 1; rank < world_.size(); ++rank) {
    if (comparison.all[static_cast<std::size_t>(rank)] == comparison.all[0]) continue;
    others += str_cat(others.empty() ? "replica " : ", replica ", rank);
  }
  if (others.empty()) return;
  throw RuntimeFault(str_cat("replica 0 has another program than ", others,
                             ": make the session of the same Ir with the same options in every "
                             "process"));
}

void ReplicaTeam::run(const std::function<void(int)>& work) {
  world_.begin_run();
  const std::vector<std::exception_ptr>& errors = team_.run(work);
  std::optional<ReplicaStopped> stopped;
  for (int local = 0; local < team_.size(); ++local) {
    const std::exception_ptr& error = errors[static_cast<std::size_t>(local)];
    if (error == nullptr) continue;
    if (world_.size() == 1) std::rethrow_exception(error);
    try {
      rethrow_from(rank_of(local), error);
    } catch (const ReplicaStopped& in_vain) {
      stopped = in_vain;  // the error of the replica that failed by itself comes later
    }
  }
  if (stopped) throw RuntimeFault(numbered(stopped->replica(), stopped->message()));
}

}  // namespace pando
