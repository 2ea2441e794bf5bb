#include "pando/runtime/io_requests.hpp"

#include <algorithm>
#include <cstring>

#include "pando/base/error.hpp"

namespace pando {

using State = IoRequest::State;

void IoRequest::move(const StopCheck& check) const {
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

IoRequest::Ticket IoRequests::add(std::unique_ptr<IoRequest> request) {
  const IoRequest::Ticket ticket = request->ticket = next_ticket_++;
  requests_.push_back(std::move(request));
  return ticket;
}

IoRequest& IoRequests::of_ticket(IoRequest::Ticket ticket) {
  const auto it = std::find_if(requests_.begin(), requests_.end(),
                               [&](const auto& request) { return request->ticket == ticket; });
  internal_check(it != requests_.end(), "a remote load is waited for twice");
  return **it;
}

IoRequest* IoRequests::next(bool stores_first) {
  IoRequest* request = first_free([](const IoRequest& candidate) { return candidate.wanted; });
  if (request == nullptr) {
    request = first_free([](const IoRequest& candidate) { return candidate.is_copy(); });
  }
  if (request == nullptr && stores_first) {
    request = first_free([](const IoRequest& candidate) { return !candidate.is_load(); });
  }
  return request != nullptr ? request : first_free([](const IoRequest&) { return true; });
}

/// The first that waits for nothing but a thread.
template <class Condition>
IoRequest* IoRequests::first_free(Condition condition) {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    IoRequest& candidate = *requests_[i];
    if (candidate.state != State::Waiting || !condition(candidate)) continue;
    const auto blocks = [&](const std::unique_ptr<IoRequest>& earlier) {
      return earlier->is_open() && earlier->conflicts_with(candidate);
    };
    const auto end = requests_.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::none_of(requests_.begin(), end, blocks)) return &candidate;
  }
  return nullptr;
}

const IoRequest* IoRequests::latest_store(const RemoteMemory& memory, std::int64_t slot) const {
  const auto latest = std::find_if(requests_.rbegin(), requests_.rend(), [&](const auto& request) {
    return !request->is_load() && request->is_of_row(memory, slot);
  });
  return latest == requests_.rend() ? nullptr : latest->get();
}

std::ptrdiff_t IoRequests::num_stores() const {
  return std::count_if(requests_.begin(), requests_.end(),
                       [](const auto& request) { return !request->is_load(); });
}

bool IoRequests::all_done() const {
  return std::none_of(requests_.begin(), requests_.end(),
                      [](const auto& request) { return request->is_open(); });
}

bool IoRequests::is_row_at_rest(const RemoteMemory& memory, std::int64_t slot) const {
  return std::none_of(requests_.begin(), requests_.end(), [&](const auto& request) {
    return request->is_of_row(memory, slot) && request->is_open();
  });
}

void IoRequests::retry_failed() {
  for (const auto& request : requests_) {
    if (request->state == State::Failed) request->state = State::Waiting;
  }
}

void IoRequests::forget(const IoRequest& request) {
  std::erase_if(requests_, [&](const auto& other) { return other.get() == &request; });
}

void IoRequests::forget_done() {
  std::erase_if(requests_, [](const auto& request) { return request->state == State::Done; });
}

}  // namespace pando
