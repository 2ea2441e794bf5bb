// Functions of the host that programs call while they run.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "pando/program/program.hpp"
#include "pando/runtime/waiting.hpp"

namespace pando {

/// What a function is called with and what it gives, in memory of the call's own, in C order.
class HostCall {
 public:
  explicit HostCall(const HostCallDesc& desc);
  HostCall(const HostCall&) = delete;
  HostCall& operator=(const HostCall&) = delete;

  const HostCallDesc& desc() const { return desc_; }
  std::vector<std::byte>& input(std::size_t index) { return inputs_.at(index); }
  std::vector<std::byte>& output(std::size_t index) { return outputs_.at(index); }

 private:
  friend class HostFunctionQueue;

  const HostCallDesc desc_;
  std::vector<std::vector<std::byte>> inputs_, outputs_;
  // Guarded by the mutex of the queue.
  bool is_done_ = false;
  std::exception_ptr error_;
};

/// The calls of one function, of all replicas and devices, in the order in which they come to it.
/// A thread of the host takes one after the other; programs wait for theirs. It outlives runs.
class HostFunctionQueue {
 public:
  explicit HostFunctionQueue(std::string name) : name_(std::move(name)) {}
  HostFunctionQueue(const HostFunctionQueue&) = delete;
  HostFunctionQueue& operator=(const HostFunctionQueue&) = delete;

  const std::string& name() const { return name_; }

  /// The program's side: returns when the outputs are there. Throws what the call failed with,
  /// RuntimeFault when the queue is closed, and what `check` does. If it throws, the host may still
  /// have the call, which must not be used again.
  void call(const std::shared_ptr<HostCall>& call, const StopCheck& check);

  // The host's side.

  /// The oldest call; nullptr: the queue is closed. Throws what `check` does while it waits.
  std::shared_ptr<HostCall> take(const StopCheck& check);
  /// Ends a call that was taken: its outputs are there, or `error` says why not.
  void finish(HostCall& call, std::exception_ptr error = nullptr);
  /// Later calls, and those that wait, fail.
  void close();

 private:
  const std::string name_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<HostCall>> waiting_;  // guarded by mutex_
  bool closed_ = false;                            // guarded by mutex_
};

/// Calls a function on a thread of its own for each call that its queue gets. What it throws is
/// thrown by the run that called it; it is called again after that.
class HostFunctionThread {
 public:
  using Function = std::function<void(HostCall&)>;

  /// Throws RuntimeFault when there is no thread.
  HostFunctionThread(std::shared_ptr<HostFunctionQueue> queue, Function function);
  /// Closes the queue, and waits for the function to return.
  ~HostFunctionThread();
  HostFunctionThread(const HostFunctionThread&) = delete;
  HostFunctionThread& operator=(const HostFunctionThread&) = delete;

 private:
  void work() noexcept;

  const std::shared_ptr<HostFunctionQueue> queue_;
  const Function function_;
  std::vector<std::thread> threads_;
};

}  // namespace pando
