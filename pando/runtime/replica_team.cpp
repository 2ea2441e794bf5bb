#include "pando/runtime/replica_team.hpp"

#include <chrono>
#include <string>

#include "pando/base/error.hpp"

namespace pando {
namespace {

constexpr std::chrono::milliseconds kPollInterval(20);

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
    : replicas_(replicas),
      should_stop_(std::move(should_stop)),
      exchange_(replicas, timeout_seconds),
      errors_(static_cast<std::size_t>(replicas)) {
  for (int replica = 0; replica < replicas; ++replica) {
    communicators_.push_back(
        exchange_.communicator(replica, replica == 0 ? should_stop_ : std::function<bool()>()));
  }
  for (int replica = 1; replica < replicas; ++replica) {
    threads_.emplace_back([this, replica] { serve(replica); });
  }
}

ReplicaTeam::~ReplicaTeam() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::function<bool()> ReplicaTeam::should_stop(int replica) {
  return [this, replica] {
    if (exchange_.stopped()) throw ReplicaStopped();
    return replica == 0 && should_stop_ && should_stop_();
  };
}

void ReplicaTeam::run(const std::function<void(int)>& work) {
  exchange_.begin();
  {
    const std::lock_guard lock(mutex_);
    for (std::exception_ptr& error : errors_) error = nullptr;
    work_ = &work;
    running_ = replicas_ - 1;
    ++generation_;
  }
  started_.notify_all();
  run_one(0);
  wait_for_others();
  throw_first_error();
}

void ReplicaTeam::serve(int replica) {
  std::uint64_t served = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      started_.wait(lock, [&] { return closing_ || generation_ != served; });
      if (closing_) return;
      served = generation_;
    }
    run_one(replica);
    {
      const std::lock_guard lock(mutex_);
      --running_;
    }
    finished_.notify_one();
  }
}

void ReplicaTeam::run_one(int replica) {
  try {
    (*work_)(replica);
  } catch (...) {
    errors_[static_cast<std::size_t>(replica)] = std::current_exception();
    exchange_.stop();
  }
  exchange_.end(replica);
}

void ReplicaTeam::wait_for_others() {
  std::unique_lock lock(mutex_);
  while (running_ > 0) {
    finished_.wait_for(lock, kPollInterval);
    if (running_ == 0 || !should_stop_ || errors_[0] != nullptr) continue;
    lock.unlock();
    try {
      if (should_stop_()) throw Interrupted();
    } catch (...) {
      errors_[0] = std::current_exception();
      exchange_.stop();
    }
    lock.lock();
  }
}

void ReplicaTeam::throw_first_error() {
  for (int replica = 0; replica < replicas_; ++replica) {
    const std::exception_ptr& error = errors_[static_cast<std::size_t>(replica)];
    if (error == nullptr) continue;
    if (replicas_ == 1) std::rethrow_exception(error);
    try {
      rethrow_from(replica, error);
    } catch (const ReplicaStopped&) {
      continue;  // the error of the replica that failed by itself comes later
    }
  }
}

}  // namespace pando
