// Transfers of slow remote memory that go on while the program does.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "pando/runtime/io_requests.hpp"
#include "pando/runtime/remote_memory.hpp"
#include "pando/runtime/remote_settings.hpp"
#include "pando/runtime/run_profile.hpp"
#include "pando/runtime/staging_pool.hpp"
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
  using Ticket = IoRequest::Ticket;

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
  using Lock = std::unique_lock<std::mutex>;

  void serve(int thread);
  void close();
  /// Around the transfer itself: counts busy_seconds.
  void begin_transfer();
  void end_transfer();
  /// `thread`: of the I/O threads, -1: a waiting one.
  void execute(IoRequest& request, Lock& lock, int thread);
  void complete(IoRequest& request);
  std::shared_ptr<StagingCopy> take_staging(std::size_t bytes, const StopCheck& check, Lock& lock);
  void store_here(RemoteMemory& memory, std::int64_t slot, const std::byte* from, std::size_t bytes,
                  const TransferTag& tag, const StopCheck& check, Lock& lock);
  template <class Condition>
  void wait_until(Lock& lock, const StopCheck& check, Condition condition);

  /// What the I/O threads ask while they wait.
  const StopCheck stop_ = [this] {
    if (stopping_) throw Interrupted();
  };
  RunProfile* profile_;
  mutable std::mutex mutex_;
  std::condition_variable work_, progress_;
  IoRequests requests_;
  StagingPool staging_;
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
