// Transfers of slow remote memory that go on while the program does.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "pando/runtime/remote_memory.hpp"
#include "pando/runtime/remote_settings.hpp"
#include "pando/runtime/run_profile.hpp"
#include "pando/runtime/waiting.hpp"

namespace pando {

/// Runs loads and stores on threads of its own. Transfers of one row that conflict (a store and any
/// other one) happen in the order of the calls; but a load of a row whose latest store has not been
/// written yet copies that store's value, whatever becomes of the store, and conflicts with
/// nothing. A thread takes what the program waits for first, then such copies, then stores if a
/// call waits for their room, then whatever was asked for first. Methods may be called from several
/// threads.
///
/// A store that fails keeps its value here: loads of that row read it, and the store is tried again
/// by retry(). So a full disk costs no value, nor does a store that is stopped while it waits for
/// the reader of a snapshot.
///
/// Calls that wait throw what their `check` does; abandon() must follow.
class IoQueue {
 public:
  using Ticket = std::uint64_t;

  /// `staging_bytes`: the most bytes of stores under way. `profile`, if any, is told of each
  /// transfer. Throws RuntimeFault when the system does not give the threads.
  IoQueue(int threads, std::int64_t staging_bytes, RunProfile* profile = nullptr);
  /// Waits for all transfers but stores that wait for a reader, which are lost.
  ~IoQueue();
  IoQueue(const IoQueue&) = delete;
  IoQueue& operator=(const IoQueue&) = delete;

  /// `to` must stay, untouched, until the ticket has been waited for.
  Ticket start_load(RemoteMemory& memory, std::int64_t slot, std::byte* to, std::size_t bytes,
                    const TransferTag& tag = {});
  /// Throws what the load threw.
  void wait(Ticket ticket, const StopCheck& check = {});
  /// Takes a copy and returns; waits while there is no room for the copy. A row that is larger than
  /// all the room is written on the calling thread.
  void store(RemoteMemory& memory, std::int64_t slot, const std::byte* from, std::size_t bytes,
             const TransferTag& tag = {}, const StopCheck& check = {});
  /// Waits for all transfers; throws the first error of a store since the last call.
  void finish(const StopCheck& check = {});
  /// After a failed run: waits for all transfers, forgets tickets and errors. Stores that wait for
  /// a reader fail instead.
  void abandon();
  /// Starts the stores that failed again; their new errors come with finish().
  void retry();

  IoReport report() const;
  /// Calls that wait for transfers at this moment.
  int waiting_calls() const;

 private:
  enum class State : std::uint8_t { Waiting, Running, Done, Failed };
  struct FreeMemory {
    void operator()(std::byte* memory) const;
  };
  using Staging = std::unique_ptr<std::byte, FreeMemory>;
  struct Copy {
    Staging memory;
    std::size_t bytes = 0;
  };
  struct Request {
    Ticket ticket = 0;
    RemoteMemory* memory = nullptr;
    std::int64_t slot = 0;
    std::size_t bytes = 0;
    std::byte* to = nullptr;  // of a load
    /// The value of a store; of a load, that of the store that it follows, if that is not written.
    std::shared_ptr<Copy> copy;
    std::size_t copied_bytes = 0;  // of the row, in the copy
    State state = State::Waiting;
    bool wanted = false;       // the program waits for it
    std::exception_ptr error;  // of a load
    TransferTag tag;

    bool is_load() const { return to != nullptr; }
    bool is_copy() const { return is_load() && copy != nullptr; }
    bool is_of_row(const RemoteMemory& row_memory, std::int64_t row) const {
      return memory == &row_memory && slot == row;
    }
    bool conflicts_with(const Request& other) const {
      return is_of_row(*other.memory, other.slot) && !(is_load() && other.is_load()) &&
             !is_copy() && !other.is_copy();
    }
    void move(const StopCheck& check) const;
  };
  using Lock = std::unique_lock<std::mutex>;

  void serve(int thread);
  void close();
  Request* next_request();
  template <class Condition>
  Request* first_free(Condition condition);
  /// Around the transfer itself: counts busy_seconds.
  void begin_transfer();
  void end_transfer();
  /// The latest store of the row that is not written, or nullptr.
  const Request* latest_store(const RemoteMemory& memory, std::int64_t slot) const;
  /// `thread`: of the I/O threads, -1: a waiting one.
  void execute(Request& request, Lock& lock, int thread);
  void complete(Request& request);
  void forget(const Request& request);
  bool all_done() const;
  std::shared_ptr<Copy> take_staging(std::size_t bytes, const StopCheck& check, Lock& lock);
  /// A spare that is not much larger, or nullptr.
  std::shared_ptr<Copy> take_spare(std::size_t bytes);
  /// Frees the oldest spares until `bytes` of new memory keep to the limit.
  void make_room(std::size_t bytes);
  /// Gives the memory back when no other request has it.
  void drop_copy(Request& request);
  void store_here(RemoteMemory& memory, std::int64_t slot, const std::byte* from, std::size_t bytes,
                  const TransferTag& tag, const StopCheck& check, Lock& lock);
  template <class Condition>
  void wait_until(Lock& lock, const StopCheck& check, Condition condition);

  /// What the I/O threads ask while they wait.
  const StopCheck stop_ = [this] {
    if (stopping_) throw Interrupted();
  };
  std::int64_t staging_limit_;
  RunProfile* profile_;
  mutable std::mutex mutex_;
  std::condition_variable work_, progress_;
  std::deque<std::unique_ptr<Request>> requests_;  // in the order of the calls
  Ticket next_ticket_ = 1;
  std::int64_t staging_used_ = 0;
  std::vector<std::shared_ptr<Copy>> spare_;  // staging memory to use again, the oldest first
  std::int64_t spare_bytes_ = 0;
  std::exception_ptr store_error_;
  IoReport report_;
  int transfers_ = 0;      // going on
  double busy_since_ = 0;  // while there are transfers
  int waiting_calls_ = 0;
  int waiting_for_room_ = 0;            // of them, calls of store
  std::atomic<bool> stopping_ = false;  // what waits for a reader fails
  bool closing_ = false;
  std::vector<std::thread> threads_;  // last: they use the rest
};

}  // namespace pando
