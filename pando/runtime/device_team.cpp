#include "pando/runtime/device_team.hpp"

#include <chrono>
#include <utility>

#include "pando/base/error.hpp"
#include "pando/runtime/communicator.hpp"

namespace pando {
namespace {

/// Some tenths of a millisecond: stages of a pipeline end close together.
constexpr int kSpins = 4000;
constexpr std::chrono::milliseconds kPollInterval(20);

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

DeviceTeam::DeviceTeam(int devices, bool spin, std::function<bool()> should_stop,
                       std::function<void()> on_failure)
    : devices_(devices),
      spins_(spin ? kSpins : 0),
      should_stop_(std::move(should_stop)),
      on_failure_(std::move(on_failure)),
      channels_(static_cast<std::size_t>(devices * devices)),
      errors_(static_cast<std::size_t>(devices)) {
  for (int device = 1; device < devices; ++device) {
    threads_.emplace_back([this, device] { serve(device); });
  }
}

DeviceTeam::~DeviceTeam() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void DeviceTeam::run(const std::function<void(int)>& work) {
  {
    const std::lock_guard lock(mutex_);
    for (Channel& channel : channels_) {
      channel.sent.store(0, std::memory_order_relaxed);
      channel.taken = 0;
    }
    for (std::exception_ptr& error : errors_) error = nullptr;
    stopped_.store(false);
    work_ = &work;
    running_ = devices_ - 1;
    ++generation_;
  }
  started_.notify_all();
  run_one(0);
  wait_for_others();
  throw_first_error();
}

void DeviceTeam::serve(int device) {
  std::uint64_t served = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      started_.wait(lock, [&] { return closing_ || generation_ != served; });
      if (closing_) return;
      served = generation_;
    }
    run_one(device);
    {
      const std::lock_guard lock(mutex_);
      --running_;
    }
    finished_.notify_one();
  }
}

void DeviceTeam::run_one(int device) {
  try {
    (*work_)(device);
  } catch (...) {
    fail(device, std::current_exception());
  }
}

void DeviceTeam::fail(int device, std::exception_ptr error) {
  errors_[static_cast<std::size_t>(device)] = std::move(error);
  {
    const std::lock_guard lock(mutex_);
    stopped_.store(true);
  }
  signalled_.notify_all();
  if (on_failure_) on_failure_();
}

void DeviceTeam::signal(int from, int to) {
  // Sequentially consistent, as the sleeper's side: one of the two sees the other.
  channel(from, to).sent.fetch_add(1);
  if (sleepers_.load() == 0) return;
  const std::lock_guard lock(mutex_);
  signalled_.notify_all();
}

void DeviceTeam::wait(int device, int from) {
  Channel& given = channel(from, device);
  const std::uint64_t wanted = ++given.taken;
  for (int spin = 0; given.sent.load(std::memory_order_acquire) < wanted; ++spin) {
    if (stopped()) throw DeviceStopped();
    if (spin >= spins_) return sleep_for(given, wanted, device);
    pause();
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

void DeviceTeam::wait_for_others() {
  std::unique_lock lock(mutex_);
  const auto done = [&] { return running_ == 0; };
  while (!done()) {
    if (!should_stop_ || stopped()) {
      finished_.wait(lock, done);
      break;
    }
    if (finished_.wait_for(lock, kPollInterval, done)) break;
    lock.unlock();
    try {
      if (should_stop_()) throw Interrupted();
    } catch (...) {
      fail(0, std::current_exception());
    }
    lock.lock();
  }
}

void DeviceTeam::throw_first_error() {
  std::exception_ptr stopped_by_replica;
  for (const std::exception_ptr& error : errors_) {
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
