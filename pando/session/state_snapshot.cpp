#include "pando/session/state_snapshot.hpp"

#include <algorithm>

#include "pando/base/error.hpp"
#include "pando/runtime/row_snapshot.hpp"

namespace pando {

StateSnapshot::StateSnapshot(std::vector<Replica> replicas, std::size_t row_bytes)
    : replicas_(std::move(replicas)), row_bytes_(row_bytes) {}

StateSnapshot::~StateSnapshot() { cancel(); }

const std::vector<std::byte>& StateSnapshot::persistent(std::int64_t replica,
                                                        std::int64_t index) const {
  const auto state = std::find_if(replicas_.begin(), replicas_.end(),
                                  [&](const Replica& of) { return of.rank == replica; });
  if (state == replicas_.end()) {
    throw ValueError(str_cat("the snapshot has no state of replica ", replica));
  }
  const auto it = state->persistent.find(index);
  if (it == state->persistent.end()) throw ValueError(str_cat("there is no state tensor ", index));
  return it->second;
}

std::optional<StateSnapshot::Row> StateSnapshot::next_row(std::byte* to, std::size_t bytes) const {
  if (bytes < row_bytes_) {
    throw ValueError(str_cat("the largest row has ", row_bytes_, " bytes; given ", bytes));
  }
  const auto first = [&](auto condition) -> std::optional<Row> {
    for (const Replica& state : replicas_) {
      for (std::size_t buffer = 0; buffer < state.remote.size(); ++buffer) {
        RowSnapshot& rows = *state.remote[buffer];
        if (!condition(rows)) continue;
        const std::int64_t slot = rows.next(to);
        if (slot < 0) continue;
        return Row{state.rank, static_cast<std::int64_t>(buffer), slot};
      }
    }
    return std::nullopt;
  };
  // What the program waits for, then what takes memory.
  std::optional<Row> row = first([](const RowSnapshot& rows) { return rows.is_wanted(); });
  if (!row) row = first([](const RowSnapshot& rows) { return rows.has_copies(); });
  return row ? row : first([](const RowSnapshot&) { return true; });
}

void StateSnapshot::cancel() const {
  for (const Replica& state : replicas_) {
    for (const auto& rows : state.remote) rows->cancel();
  }
}

}  // namespace pando
