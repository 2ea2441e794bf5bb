#include "tests/conformance/fake_queue.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "pando/base/error.hpp"

namespace pando::testing {
namespace {

/// A call that asks for more has to wait, as it does with the queues of real devices.
constexpr std::size_t kMostItems = 1024;
/// One call in so many lets the worker go a part of the way.
constexpr std::uint64_t kCallsPerAdvance = 6;

}  // namespace

FakeQueue::FakeQueue(std::shared_ptr<FakeMachine> machine, int device)
    : Queue(false),
      machine_(std::move(machine)),
      device_(device),
      scalar_(kScalarBytes),
      worker_([this] { serve(); }) {}

FakeQueue::~FakeQueue() {
  FakeQueue::abandon();
  {
    const Lock lock(machine_->mutex);
    is_ending_ = true;
  }
  machine_->changed.notify_all();
  worker_.join();
}

void FakeQueue::allow(Event event) {
  allowed_ = std::max(allowed_, event);
  machine_->changed.notify_all();
}

void FakeQueue::add(Item item) {
  Lock lock(machine_->mutex);
  if (items_.size() >= kMostItems) {
    allow(asked_);
    machine_->changed.wait(lock,
                           [&] { return items_.size() < kMostItems / 2 || error_ != nullptr; });
  }
  if (error_ != nullptr) std::rethrow_exception(error_);
  items_.push_back(std::move(item));
  ++asked_;
  std::mt19937_64& random = machine_->random;
  if (random() % kCallsPerAdvance == 0) allow(done_ + random() % (asked_ - done_ + 1));
}

void FakeQueue::run(const Kernel& kernel, std::span<std::byte* const> operands,
                    std::byte* scratch) {
  const auto& fake = dynamic_cast<const FakeKernel&>(kernel);
  std::vector<std::byte*> pointers(operands.begin(), operands.end());
  add({fake.explain(), [this, &fake, scratch, pointers = std::move(pointers)]() mutable {
         for (std::byte*& pointer : pointers) {
           if (pointer != nullptr) pointer = view_of(pointer, 0);
         }
         std::byte* place = scratch == nullptr ? nullptr : view_of(scratch, fake.scratch_bytes());
         fake.function().run(pointers.data(), place);
       }});
}

void FakeQueue::copy(const std::byte* from, std::byte* to, std::size_t bytes, CopyKind kind) {
  add({str_cat("a copy of ", bytes, " bytes"), [this, from, to, bytes, kind] {
         const FakeAddressSpace& space = *machine_->space;
         const bool to_host = kind == CopyKind::DeviceToHost;
         const bool from_host = kind == CopyKind::HostToDevice;
         if (from_host) space.check_host(from);
         if (to_host) space.check_host(to);
         const bool is_sent = kind == CopyKind::BetweenDevices;
         const std::byte* source = from_host ? from
                                   : is_sent ? space.view_elsewhere(from, device_, bytes)
                                             : view_of(from, bytes);
         std::byte* target = to_host ? to : view_of(to, bytes);
         if (bytes > 0) std::memcpy(target, source, bytes);
       }});
}

void FakeQueue::fill_with_zeros(std::byte* memory, std::size_t bytes) {
  add({str_cat("zeros in ", bytes, " bytes"), [this, memory, bytes] {
         if (bytes > 0) std::memset(view_of(memory, bytes), 0, bytes);
       }});
}

void FakeQueue::read_scalar(const std::byte* memory, void* value, std::size_t bytes,
                            const StopCheck& check) {
  copy(memory, scalar_.data(), bytes, CopyKind::DeviceToHost);
  wait(record(), check);
  std::memcpy(value, scalar_.data(), bytes);
}

void FakeQueue::write_scalar(std::byte* memory, const void* value, std::size_t bytes) {
  std::vector<std::byte> copy(bytes);
  std::memcpy(copy.data(), value, bytes);
  add({"a scalar", [this, memory, copy = std::move(copy)] {
         std::memcpy(view_of(memory, copy.size()), copy.data(), copy.size());
       }});
}

Queue::Event FakeQueue::record() {
  const Lock lock(machine_->mutex);
  return asked_;
}

void FakeQueue::wait_for(Queue& other, Event event) {
  add({"a wait for another queue", {}, &dynamic_cast<FakeQueue&>(other), event});
}

void FakeQueue::wait(Event event, const StopCheck& check) {
  Lock lock(machine_->mutex);
  allow(event);
  wait_until_or_stop(lock, machine_->changed, check,
                     [&] { return done_ >= event || error_ != nullptr; });
  if (done_ < event) std::rethrow_exception(error_);
}

void FakeQueue::abandon() {
  Lock lock(machine_->mutex);
  items_.clear();
  is_abandoning_ = true;
  machine_->changed.notify_all();
  machine_->changed.wait(lock, [&] { return !is_running_; });
  is_abandoning_ = false;
  error_ = nullptr;
  done_ = allowed_ = asked_;
  machine_->changed.notify_all();
}

void FakeQueue::run_item(Item& item, Lock& lock) {
  if (item.awaited != nullptr) {
    FakeQueue& other = *item.awaited;
    other.allow(item.event);
    machine_->changed.wait(lock, [&] {
      return other.done_ >= item.event || other.error_ != nullptr || is_abandoning_;
    });
    if (other.done_ < item.event && other.error_ != nullptr) std::rethrow_exception(other.error_);
    return;
  }
  if (machine_->items_done++ == machine_->fails_at) {
    throw RuntimeFault(str_cat("the fake device failed at item ", machine_->fails_at,
                               " of its work (", item.name, ")"));
  }
  lock.unlock();
  try {
    item.floats.apply();
    item.work();
  } catch (...) {
    lock.lock();
    throw;
  }
  lock.lock();
}

void FakeQueue::serve() {
  Lock lock(machine_->mutex);
  while (true) {
    machine_->changed.wait(lock, [&] {
      return is_ending_ || (error_ == nullptr && !items_.empty() && allowed_ > done_);
    });
    if (is_ending_) return;
    Item item = std::move(items_.front());
    items_.pop_front();
    is_running_ = true;
    try {
      run_item(item, lock);
      ++done_;
    } catch (...) {
      error_ = std::current_exception();
    }
    is_running_ = false;
    machine_->changed.notify_all();
  }
}

}  // namespace pando::testing
