#include "pando/runtime/io_queue.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "pando/base/error.hpp"
#include "pando/base/start_thread.hpp"

namespace pando {
namespace {

constexpr std::size_t kPage = 4096;
/// Small rows may not fill the queue with more stores, so that a search through it stays cheap.
/// The program says how many loads there are.
constexpr std::ptrdiff_t kMostStores = 256;

}  // namespace

void IoQueue::FreeMemory::operator()(std::byte* memory) const { std::free(memory); }

IoQueue::IoQueue(int threads, std::int64_t staging_bytes, RunProfile* profile)
    : staging_limit_(staging_bytes), profile_(profile) {
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
    progress_.wait(lock, [&] { return all_done(); });
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

bool IoQueue::all_done() const {
  return std::all_of(requests_.begin(), requests_.end(), [](const auto& request) {
    return request->state == State::Done || request->state == State::Failed;
  });
}

IoQueue::Ticket IoQueue::start_load(RemoteMemory& memory, std::int64_t slot, std::byte* to,
                                    std::size_t bytes, const TransferTag& tag) {
  auto request = std::make_unique<Request>();
  request->memory = &memory;
  request->slot = slot;
  request->bytes = bytes;
  request->to = to;
  request->tag = tag;
  Ticket ticket = 0;
  {
    const Lock lock(mutex_);
    if (const Request* store = latest_store(memory, slot)) {
      request->copy = store->copy;
      request->copied_bytes = store->bytes;
    }
    ticket = request->ticket = next_ticket_++;
    requests_.push_back(std::move(request));
  }
  work_.notify_one();
  return ticket;
}

void IoQueue::wait(Ticket ticket, const StopCheck& check) {
  Lock lock(mutex_);
  const auto it = std::find_if(requests_.begin(), requests_.end(),
                               [&](const auto& request) { return request->ticket == ticket; });
  internal_check(it != requests_.end(), "a remote load is waited for twice");
  Request& request = **it;
  request.wanted = true;
  if (request.is_copy() && request.state == State::Waiting) {
    const double start = steady_seconds();
    execute(request, lock, -1);
    report_.waiting_seconds += steady_seconds() - start;
    progress_.notify_all();
  }
  wait_until(lock, check, [&] { return request.state == State::Done; });
  const std::exception_ptr error = request.error;
  forget(request);
  if (error != nullptr) std::rethrow_exception(error);
}

void IoQueue::store(RemoteMemory& memory, std::int64_t slot, const std::byte* from,
                    std::size_t bytes, const TransferTag& tag, const StopCheck& check) {
  Lock lock(mutex_);
  if (static_cast<std::int64_t>(memory.slot_bytes()) > staging_limit_) {
    return store_here(memory, slot, from, bytes, tag, check, lock);
  }
  auto request = std::make_unique<Request>();
  request->memory = &memory;
  request->slot = slot;
  request->bytes = bytes;
  request->tag = tag;
  request->copy = take_staging(bytes, check, lock);
  lock.unlock();
  std::memcpy(request->copy->memory.get(), from, bytes);
  lock.lock();
  request->ticket = next_ticket_++;
  requests_.push_back(std::move(request));
  lock.unlock();
  work_.notify_one();
}

void IoQueue::store_here(RemoteMemory& memory, std::int64_t slot, const std::byte* from,
                         std::size_t bytes, const TransferTag& tag, const StopCheck& check,
                         Lock& lock) {
  wait_until(lock, check, [&] {
    return std::none_of(requests_.begin(), requests_.end(), [&](const auto& request) {
      return request->is_of_row(memory, slot) &&
             (request->state == State::Waiting || request->state == State::Running);
    });
  });
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
  wait_until(lock, check, [&] { return all_done(); });
  if (store_error_ != nullptr) std::rethrow_exception(std::exchange(store_error_, nullptr));
}

void IoQueue::abandon() {
  stopping_ = true;
  Lock lock(mutex_);
  progress_.wait(lock, [&] { return all_done(); });
  std::erase_if(requests_, [](const auto& request) { return request->state == State::Done; });
  store_error_ = nullptr;
  stopping_ = false;
}

void IoQueue::retry() {
  {
    const Lock lock(mutex_);
    for (const auto& request : requests_) {
      if (request->state == State::Failed) request->state = State::Waiting;
    }
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
    Request* request = nullptr;
    work_.wait(lock, [&] {
      request = next_request();
      return request != nullptr || closing_;
    });
    if (request == nullptr) return;
    execute(*request, lock, thread);
    // Others may have waited for this row.
    work_.notify_all();
    progress_.notify_all();
  }
}

IoQueue::Request* IoQueue::next_request() {
  Request* request = first_free([](const Request& candidate) { return candidate.wanted; });
  if (request == nullptr) {
    request = first_free([](const Request& candidate) { return candidate.is_copy(); });
  }
  if (request == nullptr && waiting_for_room_ > 0) {
    request = first_free([](const Request& candidate) { return !candidate.is_load(); });
  }
  return request != nullptr ? request : first_free([](const Request&) { return true; });
}

/// The first that waits for nothing but a thread.
template <class Condition>
IoQueue::Request* IoQueue::first_free(Condition condition) {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    Request& candidate = *requests_[i];
    if (candidate.state != State::Waiting || !condition(candidate)) continue;
    const auto blocks = [&](const std::unique_ptr<Request>& earlier) {
      const bool open = earlier->state == State::Waiting || earlier->state == State::Running;
      return open && earlier->conflicts_with(candidate);
    };
    const auto end = requests_.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::none_of(requests_.begin(), end, blocks)) return &candidate;
  }
  return nullptr;
}

const IoQueue::Request* IoQueue::latest_store(const RemoteMemory& memory, std::int64_t slot) const {
  const auto latest = std::find_if(requests_.rbegin(), requests_.rend(), [&](const auto& request) {
    return !request->is_load() && request->is_of_row(memory, slot);
  });
  return latest == requests_.rend() ? nullptr : latest->get();
}

void IoQueue::Request::move(const StopCheck& check) const {
  if (is_copy()) {
    const std::size_t known = std::min(copied_bytes, bytes);
    std::memcpy(to, copy->memory.get(), known);
    std::memset(to + known, 0, bytes - known);
  } else if (is_load()) {
    memory->load(slot, to, bytes);
  } else {
    memory->store(slot, copy->memory.get(), bytes, check);
  }
}

void IoQueue::execute(Request& request, Lock& lock, int thread) {
  request.state = State::Running;
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
    request.state = State::Failed;
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
void IoQueue::complete(Request& request) {
  request.state = State::Done;
  drop_copy(request);
  if (request.is_load()) return;
  // What failed earlier for this row has been replaced.
  std::erase_if(requests_, [&](const std::unique_ptr<Request>& other) {
    if (other->state != State::Failed || !other->conflicts_with(request)) return false;
    drop_copy(*other);
    return true;
  });
  forget(request);
}

void IoQueue::forget(const Request& request) {
  std::erase_if(requests_, [&](const auto& other) { return other.get() == &request; });
}

std::shared_ptr<IoQueue::Copy> IoQueue::take_staging(std::size_t bytes, const StopCheck& check,
                                                     Lock& lock) {
  bytes = std::max(kPage, (bytes + kPage - 1) / kPage * kPage);
  const auto has_room = [&] {
    return staging_used_ + static_cast<std::int64_t>(bytes) <= staging_limit_ &&
           std::count_if(requests_.begin(), requests_.end(),
                         [](const auto& request) { return !request->is_load(); }) < kMostStores;
  };
  ++waiting_for_room_;
  try {
    wait_until(lock, check, [&] { return has_room() || all_done(); });
  } catch (...) {
    --waiting_for_room_;
    throw;
  }
  --waiting_for_room_;
  // Stores that failed fill the room: no more can be kept.
  if (!has_room() && store_error_ != nullptr) std::rethrow_exception(store_error_);
  std::shared_ptr<Copy> copy = take_spare(bytes);
  if (copy == nullptr) {
    make_room(bytes);
    copy = std::make_shared<Copy>();
    copy->memory.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes)));
    copy->bytes = bytes;
  }
  if (copy->memory == nullptr) {
    throw OutOfMemory(str_cat("no memory for ", bytes, " bytes of a remote store under way"), "");
  }
  // An I/O thread that hands a copy back must need no memory.
  spare_.reserve(spare_.size() + requests_.size() + 1);
  staging_used_ += static_cast<std::int64_t>(copy->bytes);
  return copy;
}

std::shared_ptr<IoQueue::Copy> IoQueue::take_spare(std::size_t bytes) {
  const auto fits = std::find_if(spare_.begin(), spare_.end(), [&](const auto& spare) {
    return spare->bytes >= bytes && spare->bytes <= 2 * bytes;
  });
  if (fits == spare_.end()) return nullptr;
  std::shared_ptr<Copy> copy = std::move(*fits);
  spare_.erase(fits);
  spare_bytes_ -= static_cast<std::int64_t>(copy->bytes);
  return copy;
}

void IoQueue::make_room(std::size_t bytes) {
  const std::int64_t wanted = staging_used_ + static_cast<std::int64_t>(bytes);
  auto end = spare_.begin();
  for (; end != spare_.end() && wanted + spare_bytes_ > staging_limit_; ++end) {
    spare_bytes_ -= static_cast<std::int64_t>((*end)->bytes);
  }
  spare_.erase(spare_.begin(), end);
}

void IoQueue::drop_copy(Request& request) {
  if (request.copy == nullptr) return;
  if (request.copy.use_count() > 1) return request.copy.reset();
  const auto bytes = static_cast<std::int64_t>(request.copy->bytes);
  staging_used_ -= bytes;
  spare_bytes_ += bytes;
  spare_.push_back(std::move(request.copy));
}

}  // namespace pando
