#include "pando/runtime/device_team.hpp"

#include <utility>

#include "pando/base/error.hpp"
#include "pando/base/spin.hpp"
#include "pando/runtime/communicator.hpp"
#include "pando/runtime/waiting.hpp"

namespace pando {

DeviceTeam::DeviceTeam(int devices, int spins, std::function<bool()> should_stop,
                       std::function<void(const std::exception_ptr&)> on_failure)
    : devices_(devices),
      spins_(spins),
      should_stop_(std::move(should_stop)),
      on_failure_(std::move(on_failure)),
      channels_(static_cast<std::size_t>(devices * devices)),
      decision_channels_(channels_.size()),
      decisions_(channels_.size()),
      team_(devices, spins, "the virtual devices of a replica",
            {.should_stop = should_stop_,
             .on_failure = [this](int, const std::exception_ptr& error) { stop(error); },
             .on_end = {}}) {}

void DeviceTeam::stop(const std::exception_ptr& error) {
  // First of all, so that it hears of the cause and not of a device that stopped because of it.
  if (on_failure_) on_failure_(error);
  {
    const std::lock_guard lock(mutex_);
    stopped_.store(true);
  }
  signalled_.notify_all();
}

void DeviceTeam::signal(int from, int to) { send(channels_[pair(from, to)]); }

void DeviceTeam::wait(int device, int from) { take(channels_[pair(from, device)], device); }

void DeviceTeam::decide(int from, int to, bool yes) {
  {
    const std::lock_guard lock(mutex_);
    decisions_[pair(from, to)].push_back(yes);
  }
  send(decision_channels_[pair(from, to)]);
}

bool DeviceTeam::decision(int device, int from) {
  take(decision_channels_[pair(from, device)], device);
  const std::lock_guard lock(mutex_);
  std::deque<bool>& pending = decisions_[pair(from, device)];
  const bool yes = pending.front();
  pending.pop_front();
  return yes;
}

void DeviceTeam::send(Channel& channel) {
  // Sequentially consistent, as the sleeper's side: one of the two sees the other.
  channel.sent.fetch_add(1);
  if (sleepers_.load() == 0) return;
  const std::lock_guard lock(mutex_);
  signalled_.notify_all();
}

void DeviceTeam::take(Channel& given, int device) {
  const std::uint64_t wanted = ++given.taken;
  for (int spin = 0; given.sent.load(std::memory_order_acquire) < wanted; ++spin) {
    if (stopped()) throw DeviceStopped();
    if (spin >= spins_) return sleep_for(given, wanted, device);
    spin_pause();
  }
}

void DeviceTeam::sleep_for(const Channel& given, std::uint64_t wanted, int device) {
  std::unique_lock lock(mutex_);
  ++sleepers_;
  const auto ready = [&] { return stopped() || given.sent.load() >= wanted; };
  while (!ready()) {
    if (device != 0 || !should_stop_) {
      signalled_.wait(lock);
      continue;
    }
    if (signalled_.wait_for(lock, kPollInterval, ready)) break;
    lock.unlock();
    bool stop = false;
    try {
      stop = should_stop_();
    } catch (...) {
      --sleepers_;
      throw;
    }
    lock.lock();
    if (stop) {
      --sleepers_;
      throw Interrupted();
    }
  }
  --sleepers_;
  if (given.sent.load() < wanted) throw DeviceStopped();
}

void DeviceTeam::run(const std::function<void(int)>& work) {
  for (std::vector<Channel>* channels : {&channels_, &decision_channels_}) {
    for (Channel& channel : *channels) {
      channel.sent.store(0, std::memory_order_relaxed);
      channel.taken = 0;
    }
  }
  for (std::deque<bool>& pending : decisions_) pending.clear();
  stopped_.store(false);
  std::exception_ptr stopped_by_replica;
  for (const std::exception_ptr& error : team_.run(work)) {
    if (error == nullptr) continue;
    try {
      std::rethrow_exception(error);
    } catch (const DeviceStopped&) {
      continue;  // the error of the device that failed by itself is another one
    } catch (const ReplicaStopped&) {
      stopped_by_replica = error;  // perhaps because a device of this replica failed
    }
  }
  if (stopped_by_replica != nullptr) std::rethrow_exception(stopped_by_replica);
}

}  // namespace pando
