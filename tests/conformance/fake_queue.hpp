// The queues of the fake device: late, and out of step with each other.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "pando/base/float_state.hpp"
#include "tests/conformance/fake_memory.hpp"

namespace pando::testing {

/// What the queues of one device share.
struct FakeMachine {
  FakeMachine(std::uint64_t seed, std::int64_t failing_item)
      : random(seed), fails_at(failing_item) {}

  const std::shared_ptr<FakeAddressSpace> space = std::make_shared<FakeAddressSpace>();
  std::mutex mutex;  // of the rest, and of all queues
  std::condition_variable changed;
  std::mt19937_64 random;
  const std::int64_t fails_at;
  std::int64_t items_done = 0;
};

/// A kernel of the CPU that only this device's workers can run.
class FakeKernel : public Kernel {
 public:
  explicit FakeKernel(std::shared_ptr<const Kernel> kernel)
      : kernel_(std::move(kernel)), function_(dynamic_cast<const HostKernel&>(*kernel_)) {}
  std::size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
  std::string explain() const override { return kernel_->explain(); }
  const HostKernel& function() const { return function_; }

 private:
  std::shared_ptr<const Kernel> kernel_;
  const HostKernel& function_;
};

class FakeQueue : public Queue {
 public:
  FakeQueue(std::shared_ptr<FakeMachine> machine, int device);
  /// Drops what has not begun.
  ~FakeQueue() override;

  void run(const Kernel& kernel, std::span<std::byte* const> operands, std::byte* scratch) override;
  void copy(const std::byte* from, std::byte* to, std::size_t bytes, CopyKind kind) override;
  void fill_with_zeros(std::byte* memory, std::size_t bytes) override;
  Event record() override;
  void wait_for(Queue& other, Event event) override;
  void wait(Event event, const StopCheck& check) override;
  void abandon() override;

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Item {
    std::string name;
    std::function<void()> work;
    FakeQueue* awaited = nullptr;  // work waits for `event` of it
    Event event = 0;
    FloatState floats = FloatState::current();  // of who asked for the work
  };

  void read_scalar(const std::byte* memory, void* value, std::size_t bytes,
                   const StopCheck& check) override;
  void write_scalar(std::byte* memory, const void* value, std::size_t bytes) override;

  void add(Item item);
  void serve();
  void run_item(Item& item, Lock& lock);
  void allow(Event event);
  /// Where the worker sees memory of its virtual device.
  std::byte* view_of(const std::byte* address, std::size_t bytes) const {
    return machine_->space->view_of(address, device_, bytes);
  }

  std::shared_ptr<FakeMachine> machine_;
  const int device_;
  std::deque<Item> items_;
  Event asked_ = 0, allowed_ = 0, done_ = 0;
  bool is_running_ = false, is_abandoning_ = false, is_ending_ = false;
  std::exception_ptr error_;
  std::vector<std::byte> scalar_;  // where read_scalar's copies go
  std::thread worker_;             // last: it uses the rest
};

}  // namespace pando::testing
