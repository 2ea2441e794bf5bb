#include "pando/runtime/replica_team.hpp"

#include <exception>
#include <string>
#include <utility>

#include "pando/base/error.hpp"
#include "pando/base/spin.hpp"

namespace pando {
namespace {

/// Throws the error again, with the number of the replica in errors of a run.
[[noreturn]] void rethrow_from(int replica, const std::exception_ptr& error) {
  const std::string start = str_cat("replica ", replica, ": ");
  try {
    std::rethrow_exception(error);
  } catch (const InternalError&) {
    throw;
  } catch (const OutOfMemory&) {
    throw;
  } catch (const RuntimeFault& fault) {
    const std::string what = fault.what();
    throw RuntimeFault(what.starts_with("replica ") ? what : start + what);
  } catch (const Error& fault) {
    throw Error(start + fault.what());
  }
}

}  // namespace

ReplicaTeam::ReplicaTeam(int replicas, double timeout_seconds, std::function<bool()> should_stop)
    : should_stop_(std::move(should_stop)),
      exchange_(replicas, timeout_seconds),
      team_(replicas, team_spins(replicas), "the replicas of a session",
            {.should_stop = should_stop_,
             .on_failure = [this] { exchange_.stop(); },
             .on_end = [this](int replica) { exchange_.end(replica); }}) {
  for (int replica = 0; replica < replicas; ++replica) {
    communicators_.push_back(
        exchange_.communicator(replica, replica == 0 ? should_stop_ : std::function<bool()>()));
  }
}

std::function<bool()> ReplicaTeam::should_stop(int replica) {
  return [this, replica] {
    if (exchange_.stopped()) throw ReplicaStopped();
    return replica == 0 && should_stop_ && should_stop_();
  };
}

void ReplicaTeam::run(const std::function<void(int)>& work) {
  exchange_.begin();
  const std::vector<std::exception_ptr>& errors = team_.run(work);
  for (int replica = 0; replica < size(); ++replica) {
    const std::exception_ptr& error = errors[static_cast<std::size_t>(replica)];
    if (error == nullptr) continue;
    if (size() == 1) std::rethrow_exception(error);
    try {
      rethrow_from(replica, error);
    } catch (const ReplicaStopped&) {
      continue;  // the error of the replica that failed by itself comes later
    }
  }
}

}  // namespace pando
