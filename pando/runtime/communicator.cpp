#include "pando/runtime/communicator.hpp"

#include <algorithm>

#include "pando/base/error.hpp"
#include "pando/runtime/collective_elements.hpp"

namespace pando {
namespace {

constexpr std::int64_t kSplitId = -1;

bool is_local(const Collective& collective) {
  return collective.kind == Collective::Kind::ReduceScatter &&
         collective.reduction == Reduction::Local;
}

const char* kind_name(Collective::Kind kind) {
  switch (kind) {
    case Collective::Kind::Barrier:
      return "barrier";
    case Collective::Kind::AllReduce:
      return "all-reduce";
    case Collective::Kind::ReduceScatter:
      return "reduce-scatter";
    case Collective::Kind::AllGather:
      return "all-gather";
  }
  throw InternalError("a collective of no known kind");
}

std::string describe(const Collective& collective) {
  return str_cat(collective.name, " (", kind_name(collective.kind), ", reduction ",
                 reduction_word(collective.reduction), ", ", dtype_name(collective.dtype), ", ",
                 collective.input_elements, " elements to ", collective.output_elements, ")");
}

}  // namespace

void Communicator::run(const Collective& collective, const std::byte* input, std::byte* output) {
  if (!is_local(collective)) return run_exchange(collective, input, output);
  cut_own_part(collective, rank(), input, output);
}

Communicator::Ticket Communicator::start(const Collective& collective, const std::byte* input,
                                         std::byte* output) {
  if (!is_local(collective)) return start_exchange(collective, input, output);
  cut_own_part(collective, rank(), input, output);
  return kNothingToWaitFor;
}

void Communicator::barrier() {
  static const Collective kBarrier;
  run(kBarrier, nullptr, nullptr);
}

void Communicator::fail(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    fail(std::string(known.what()));
  } catch (...) {
    fail(std::string("an unknown error"));
  }
}

SplitMembers Communicator::gather_split(std::int64_t color, std::int64_t key) {
  own_wish_ = {color, key};
  wishes_.resize(static_cast<std::size_t>(size()));
  split_gather_ = {.kind = Collective::Kind::AllGather,
                   .dtype = DType::Int64,
                   .input_elements = 2,
                   .output_elements = 2 * size(),
                   .id = kSplitId,
                   .name = "a split of a communicator"};
  run(split_gather_, reinterpret_cast<const std::byte*>(own_wish_.data()),
      reinterpret_cast<std::byte*>(wishes_.data()));
  SplitMembers members;
  for (int other = 0; other < size(); ++other) {
    if (wishes_[static_cast<std::size_t>(other)][0] == color) members.ranks.push_back(other);
  }
  std::stable_sort(members.ranks.begin(), members.ranks.end(), [&](int a, int b) {
    return wishes_[static_cast<std::size_t>(a)][1] < wishes_[static_cast<std::size_t>(b)][1];
  });
  const auto at = std::find(members.ranks.begin(), members.ranks.end(), rank());
  members.own = static_cast<int>(at - members.ranks.begin());
  return members;
}

std::string ended_text(int replica, int other, std::string_view what) {
  return str_cat("replica ", replica, " waits for replica ", other, " in ", what, ", but replica ",
                 other, " has ended its run: all replicas must execute the same collectives");
}

std::string late_text(int replica, int other, std::string_view what, double seconds) {
  return str_cat("replica ", replica, " waited ", seconds, " seconds for replica ", other, " in ",
                 what, ": it did not arrive");
}

std::string order_text(int replica, std::string_view what, int other, std::string_view there) {
  return str_cat("replica ", replica, " is in ", what, ", but replica ", other, " is in ", there,
                 ": all replicas must execute the same collectives in the same order");
}

std::string mismatch_text(int replica, const Collective& collective, int other,
                          const Collective& there) {
  if (collective.name != there.name) {
    return order_text(replica, collective.name, other, there.name);
  }
  return order_text(replica, describe(collective), other, describe(there));
}

std::string message_size_text(int replica, int other, std::int64_t tag, std::size_t wanted,
                              std::size_t given) {
  return str_cat("replica ", replica, " wanted ", wanted, " bytes from replica ", other,
                 " with tag ", tag, "; replica ", other, " sent ", given);
}

std::string message_name(const char* what, int other, std::int64_t tag) {
  return str_cat("a ", what, " replica ", other, " with tag ", tag);
}

ReplicaStopped::ReplicaStopped(int replica, const std::string& message)
    : std::runtime_error(str_cat("replica ", replica, " failed: ", message)),
      replica_(replica),
      message_(message) {}

}  // namespace pando
