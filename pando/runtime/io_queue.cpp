#include "pando/runtime/io_queue.hpp"

#include <cstring>

#include "pando/base/error.hpp"
#include "pando/base/start_thread.hpp"

namespace pando {
namespace {

/// Small rows may not fill the queue with more stores, so that a search through it stays cheap.
/// The program says how many loads there are.
constexpr std::ptrdiff_t kMostStores = 256;

}  // namespace

IoQueue::IoQueue(int threads, std::int64_t staging_bytes, RunProfile* profile)
    : profile_(profile), staging_(staging_bytes) {
  try {
    start_threads(threads_, static_cast<std::size_t>(threads),
                  "the I/O of remote buffers in files (the setting remote_io_threads)",
                  [this](int thread) { serve(thread); });
  } catch (...) {
    close();
    throw;
  }
}

IoQueue::~IoQueue() { close(); }

void IoQueue::close() {
  stopping_ = true;
  {
    Lock lock(mutex_);
    progress_.wait(lock, [&] { return requests_.all_done(); });
    closing_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

template <class Condition>
void IoQueue::wait_until(Lock& lock, const StopCheck& check, Condition condition) {
  if (condition()) return;
  const double start = steady_seconds();
  const auto end = [&] {
    --waiting_calls_;
    report_.waiting_seconds += steady_seconds() - start;
  };
  ++waiting_calls_;
  try {
    wait_until_or_stop(lock, progress_, check, condition);
  } catch (...) {
    end();
    throw;
  }
  end();
}

IoQueue::Ticket IoQueue::start_load(RemoteMemory& memory, std::int64_t slot, std::byte* to,
                                    std::size_t bytes, const TransferTag& tag) {
  auto request = std::make_unique<IoRequest>();
  request->memory = &memory;
  request->slot = slot;
  request->bytes = bytes;
  request->to = to;
  request->tag = tag;
  Ticket ticket = 0;
  {
    const Lock lock(mutex_);
    if (const IoRequest* store = requests_.latest_store(memory, slot)) {
      request->copy = store->copy;
      request->copied_bytes = store->bytes;
    }
    ticket = requests_.add(std::move(request));
  }
  work_.notify_one();
  return ticket;
}

void IoQueue::wait(Ticket ticket, const StopCheck& check) {
  Lock lock(mutex_);
  IoRequest& request = requests_.of_ticket(ticket);
  request.wanted = true;
  if (request.is_copy() && request.state == IoRequest::State::Waiting) {
    const double start = steady_seconds();
    execute(request, lock, -1);
    report_.waiting_seconds += steady_seconds() - start;
    progress_.notify_all();
  }
  wait_until(lock, check, [&] { return request.state == IoRequest::State::Done; });
  const std::exception_ptr error = request.error;
  requests_.forget(request);
  if (error != nullptr) std::rethrow_exception(error);
}

void IoQueue::store(RemoteMemory& memory, std::int64_t slot, const std::byte* from,
                    std::size_t bytes, const TransferTag& tag, const StopCheck& check) {
  Lock lock(mutex_);
  if (static_cast<std::int64_t>(memory.slot_bytes()) > staging_.limit()) {
    return store_here(memory, slot, from, bytes, tag, check, lock);
  }
  auto request = std::make_unique<IoRequest>();
  request->memory = &memory;
  request->slot = slot;
  request->bytes = bytes;
  request->tag = tag;
  request->copy = take_staging(bytes, check, lock);
  lock.unlock();
  std::memcpy(request->copy->memory.get(), from, bytes);
  lock.lock();
  requests_.add(std::move(request));
  lock.unlock();
  work_.notify_one();
}

void IoQueue::store_here(RemoteMemory& memory, std::int64_t slot, const std::byte* from,
                         std::size_t bytes, const TransferTag& tag, const StopCheck& check,
                         Lock& lock) {
  wait_until(lock, check, [&] { return requests_.is_row_at_rest(memory, slot); });
  begin_transfer();
  lock.unlock();
  const double start = steady_seconds();
  try {
    memory.store(slot, from, bytes, check);
  } catch (...) {
    lock.lock();
    end_transfer();
    throw;
  }
  const double end = steady_seconds();
  const double seconds = end - start;
  lock.lock();
  end_transfer();
  if (profile_ != nullptr) profile_->transferred(tag, -1, false, slot, start, end);
  report_.io_seconds += seconds;
  report_.waiting_seconds += seconds;
  report_.bytes_stored += static_cast<std::int64_t>(bytes);
}

void IoQueue::finish(const StopCheck& check) {
  Lock lock(mutex_);
  wait_until(lock, check, [&] { return requests_.all_done(); });
  if (store_error_ != nullptr) std::rethrow_exception(std::exchange(store_error_, nullptr));
}

void IoQueue::abandon() {
  stopping_ = true;
  Lock lock(mutex_);
  progress_.wait(lock, [&] { return requests_.all_done(); });
  requests_.forget_done();
  store_error_ = nullptr;
  stopping_ = false;
}

void IoQueue::retry() {
  {
    const Lock lock(mutex_);
    requests_.retry_failed();
  }
  work_.notify_all();
}

IoReport IoQueue::report() const {
  const Lock lock(mutex_);
  IoReport report = report_;
  if (transfers_ > 0) report.busy_seconds += steady_seconds() - busy_since_;
  return report;
}

int IoQueue::waiting_calls() const {
  const Lock lock(mutex_);
  return waiting_calls_;
}

void IoQueue::begin_transfer() {
  if (transfers_++ == 0) busy_since_ = steady_seconds();
}

void IoQueue::end_transfer() {
  if (--transfers_ == 0) report_.busy_seconds += steady_seconds() - busy_since_;
}

void IoQueue::serve(int thread) {
  Lock lock(mutex_);
  while (true) {
    IoRequest* request = nullptr;
    work_.wait(lock, [&] {
      request = requests_.next(waiting_for_room_ > 0);
      return request != nullptr || closing_;
    });
    if (request == nullptr) return;
    execute(*request, lock, thread);
    // Others may have waited for this row.
    work_.notify_all();
    progress_.notify_all();
  }
}

void IoQueue::execute(IoRequest& request, Lock& lock, int thread) {
  request.state = IoRequest::State::Running;
  begin_transfer();
  lock.unlock();
  std::exception_ptr error;
  const double start = steady_seconds();
  try {
    request.move(stop_);
  } catch (...) {
    error = std::current_exception();
  }
  const double end = steady_seconds();
  lock.lock();
  end_transfer();
  if (profile_ != nullptr) {
    profile_->transferred(request.tag, thread, request.is_load(), request.slot, start, end);
  }
  report_.io_seconds += end - start;
  if (error != nullptr && !request.is_load()) {
    if (store_error_ == nullptr) store_error_ = error;
    request.state = IoRequest::State::Failed;
    return;
  }
  request.error = error;
  const auto bytes = static_cast<std::int64_t>(request.bytes);
  if (error == nullptr) {
    (request.is_copy()   ? report_.bytes_from_stores
     : request.is_load() ? report_.bytes_loaded
                         : report_.bytes_stored) += bytes;
  }
  complete(request);
}

/// A load stays until its ticket is waited for.
void IoQueue::complete(IoRequest& request) {
  request.state = IoRequest::State::Done;
  staging_.give_back(request.copy);
  if (request.is_load()) return;
  requests_.forget_replaced(request, [&](IoRequest& old) { staging_.give_back(old.copy); });
  requests_.forget(request);
}

std::shared_ptr<StagingCopy> IoQueue::take_staging(std::size_t bytes, const StopCheck& check,
                                                   Lock& lock) {
  const auto has_room = [&] {
    return staging_.has_room(bytes) && requests_.num_stores() < kMostStores;
  };
  ++waiting_for_room_;
  try {
    wait_until(lock, check, [&] { return has_room() || requests_.all_done(); });
  } catch (...) {
    --waiting_for_room_;
    throw;
  }
  --waiting_for_room_;
  // Stores that failed fill the room: no more can be kept.
  if (!has_room() && store_error_ != nullptr) std::rethrow_exception(store_error_);
  return staging_.take(bytes, requests_.size() + 1);
}

}  // namespace pando
