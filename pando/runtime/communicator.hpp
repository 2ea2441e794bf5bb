// How the ranks of a program, one per replica, exchange data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "pando/base/dtype.hpp"
#include "pando/base/reduction.hpp"

namespace pando {

/// What all ranks of a communicator do together. Each rank describes it for itself; descriptions
/// that differ are a RuntimeFault on every rank.
struct Collective {
  enum class Kind : std::uint8_t {
    Barrier,        // no rank leaves before all have come
    AllReduce,      // output: the reduction of all inputs, on every rank
    ReduceScatter,  // output: the rank's part of the reduction, padded with zeros
    AllGather,      // output: the inputs of all ranks in order, the last ones cut
  };
  Kind kind = Kind::Barrier;
  /// Local: nothing is reduced. ReduceScatter then cuts each rank's own input.
  Reduction reduction = Reduction::Local;
  DType dtype = DType::Float32;  // if it reduces: half precision, float32, int32 or uint32
  std::int64_t input_elements = 0;
  std::int64_t output_elements = 0;
  std::int64_t id = 0;                  // the caller's number for it, the same on all ranks
  std::string_view name = "a barrier";  // for errors

  /// What two ranks must agree on.
  bool matches(const Collective& other) const {
    return kind == other.kind && reduction == other.reduction && dtype == other.dtype &&
           input_elements == other.input_elements && output_elements == other.output_elements &&
           id == other.id;
  }
};

/// The ranks that a split puts together with the calling one, in their new order.
struct SplitMembers {
  std::vector<int> ranks;  // of the communicator that is split
  int own = 0;             // index of the calling one
};

/// One rank's side of a group of ranks. Used by one thread at a time, but for `fail` and `check`.
///
/// Whatever waits throws RuntimeFault, naming replicas and what they wait for, when another rank is
/// at something else, or has ended or does not come in time; ReplicaStopped when another rank
/// failed; Interrupted when the user wants it. Replicas in errors are ranks of the world.
class Communicator {
 public:
  using Ticket = std::uint64_t;

  virtual ~Communicator() = default;
  /// 0 to size() - 1.
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Takes part in `collective`. `input` and `output` hold the elements that it says; they lie
  /// apart, but those of an AllReduce may be the same memory. Returns when both may be used again.
  /// Values are reduced in the order of the ranks: all get the same bits in every run.
  void run(const Collective& collective, const std::byte* input, std::byte* output);
  /// The same in two halves: several collectives may be under way, started in the same order on all
  /// ranks and each waited for once, in any order. What is under way goes on while this rank waits
  /// for something, on any communicator. `collective`, its name and the memory must live until the
  /// wait has returned or, when anything failed, until no rank runs.
  Ticket start(const Collective& collective, const std::byte* input, std::byte* output);
  void wait(Ticket ticket) {
    if (ticket != kNothingToWaitFor) wait_for_exchange(ticket);
  }
  void barrier();

  /// Messages from one rank to another with the same tag arrive in order. A send may return before
  /// the message is received, or only then.
  virtual void send(int to, std::int64_t tag, const std::byte* data, std::size_t bytes) = 0;
  /// RuntimeFault when the message has another size than `bytes`.
  virtual void receive(int from, std::int64_t tag, std::byte* data, std::size_t bytes) = 0;

  /// A communicator of the ranks that give the same `color`, in the order of `key`, then of their
  /// ranks here. All ranks of this one take part. It may be used as long as the world exists.
  virtual std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) = 0;

  /// This rank failed with `message`: its own waits (of other threads), and those of all other
  /// ranks, end with ReplicaStopped. Only the first failure of a run counts.
  virtual void fail(const std::string& message) = 0;
  /// The same with the text of an error.
  void fail(const std::exception_ptr& error);
  /// Throws ReplicaStopped when a rank has failed. Does not wait.
  virtual void check() = 0;

 protected:
  static constexpr Ticket kNothingToWaitFor = ~Ticket{0};

  virtual Ticket start_exchange(const Collective& collective, const std::byte* input,
                                std::byte* output) = 0;
  virtual void wait_for_exchange(Ticket ticket) = 0;
  /// Both, for those that can do that faster.
  virtual void run_exchange(const Collective& collective, const std::byte* input,
                            std::byte* output) {
    wait_for_exchange(start_exchange(collective, input, output));
  }

  /// Tells all ranks what each wants of a split.
  SplitMembers gather_split(std::int64_t color, std::int64_t key);

 private:
  using SplitWish = std::array<std::int64_t, 2>;  // color, key

  // What gather_split sends lives here: others may read it after this rank has failed.
  Collective split_gather_;
  SplitWish own_wish_{};
  std::vector<SplitWish> wishes_;
};

// The errors that every communicator words alike. `replica` waits in `what` for `other`.
std::string ended_text(int replica, int other, std::string_view what);
std::string late_text(int replica, int other, std::string_view what, double seconds);
std::string mismatch_text(int replica, const Collective& collective, int other,
                          const Collective& there);
std::string order_text(int replica, std::string_view what, int other, std::string_view there);
std::string message_size_text(int replica, int other, std::int64_t tag, std::size_t wanted,
                              std::size_t given);
/// Names a receive or a send in errors.
std::string message_name(const char* what, int other, std::int64_t tag);

/// Ends a replica whose run is in vain because replica `replica()` failed. Never leaves the
/// runtime.
class ReplicaStopped : public std::runtime_error {
 public:
  ReplicaStopped(int replica, const std::string& message);
  int replica() const { return replica_; }
  /// What that replica failed with.
  const std::string& message() const { return message_; }

 private:
  int replica_;
  std::string message_;
};

}  // namespace pando
