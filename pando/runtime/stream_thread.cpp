#include "pando/runtime/stream_thread.hpp"

#include <utility>

#include "pando/base/error.hpp"
#include "pando/base/start_thread.hpp"

namespace pando {

std::unique_ptr<StreamThread> StreamThread::pulling(std::shared_ptr<TransferQueue> queue,
                                                    Pull pull) {
  return std::unique_ptr<StreamThread>(
      new StreamThread(std::move(queue), true, std::move(pull), {}));
}

std::unique_ptr<StreamThread> StreamThread::pushing(std::shared_ptr<TransferQueue> queue,
                                                    Push push) {
  return std::unique_ptr<StreamThread>(
      new StreamThread(std::move(queue), false, {}, std::move(push)));
}

StreamThread::StreamThread(std::shared_ptr<TransferQueue> queue, bool host_to_device, Pull pull,
                           Push push)
    : queue_(std::move(queue)), pull_(std::move(pull)), push_(std::move(push)) {
  if (queue_->is_host_to_device() != host_to_device) {
    throw ValueError(host_to_device ? "a function that fills transfers needs a queue to the device"
                                    : "a function that takes transfers needs a queue to the host");
  }
  start_threads(threads_, 1, "the function of a stream", [this](int) { work(); });
}

StreamThread::~StreamThread() {
  queue_->close();
  for (std::thread& thread : threads_) thread.join();
}

void StreamThread::work() noexcept {
  try {
    pull_ ? pull_all() : push_all();
  } catch (...) {
    queue_->fail(std::current_exception());
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;
  pushed_.notify_all();
}

void StreamThread::pull_all() {
  std::vector<std::byte> transfer(static_cast<std::size_t>(queue_->transfer_bytes()));
  while (pull_(transfer.data())) {
    if (!queue_->put(transfer.data(), {})) return;
  }
  queue_->close();
}

void StreamThread::push_all() {
  std::vector<std::byte> transfer(static_cast<std::size_t>(queue_->transfer_bytes()));
  while (queue_->take(transfer.data(), {})) {
    push_(transfer.data());
    const std::lock_guard lock(mutex_);
    ++num_pushed_;
    pushed_.notify_all();
  }
}

void StreamThread::flush(const StopCheck& check) {
  const std::int64_t wanted = queue_->transfers();
  std::unique_lock lock(mutex_);
  wait_until_or_stop(lock, pushed_, check, [&] { return ended_ || num_pushed_ >= wanted; });
}

}  // namespace pando
