// Functions of the host that feed a stream, or take what comes from it, while a program runs.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "pando/runtime/transfer_queue.hpp"

namespace pando {

/// Calls a function on a thread of its own, one transfer of the queue after the other. A function
/// that throws ends its thread, and runs that need the stream then throw what it threw.
class StreamThread {
 public:
  /// Fills the transfer; false: there is none, and there will be none. It is called ahead of the
  /// program, as far as the queue has room.
  using Pull = std::function<bool(std::byte* transfer)>;
  /// Gets the transfers in their order.
  using Push = std::function<void(const std::byte* transfer)>;

  /// Throw ValueError for a queue of the other direction, RuntimeFault when there is no thread.
  static std::unique_ptr<StreamThread> pulling(std::shared_ptr<TransferQueue> queue, Pull pull);
  static std::unique_ptr<StreamThread> pushing(std::shared_ptr<TransferQueue> queue, Push push);
  /// Closes the queue, and waits for the function to return; what was stored is pushed before.
  ~StreamThread();
  StreamThread(const StreamThread&) = delete;
  StreamThread& operator=(const StreamThread&) = delete;

  /// Of a thread that pushes: returns when the function has had all that runs have stored so far,
  /// or when it has failed, which later runs throw. Throws what `check` does meanwhile.
  void flush(const StopCheck& check);

 private:
  StreamThread(std::shared_ptr<TransferQueue> queue, bool host_to_device, Pull pull, Push push);
  void work() noexcept;
  void pull_all();
  void push_all();

  const std::shared_ptr<TransferQueue> queue_;
  const Pull pull_;
  const Push push_;
  std::mutex mutex_;
  std::condition_variable pushed_;
  std::int64_t num_pushed_ = 0;  // guarded by mutex_
  bool ended_ = false;           // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace pando
