#include "pando/session/call_gate.hpp"

#include "pando/base/error.hpp"

namespace pando {

CallGate::Pass::Pass(CallGate& gate, const StopCheck& check) : gate_(gate) {
  const std::thread::id caller = std::this_thread::get_id();
  std::unique_lock lock(gate_.mutex_);
  if (gate_.inside_ == caller) {
    throw Error(
        "a session was called from within a call of its own, as by a signal handler while it runs: "
        "note the wish there, and call the session when the run has ended");
  }
  wait_until_or_stop(lock, gate_.left_, check,
                     [this] { return gate_.inside_ == std::thread::id(); });
  gate_.inside_ = caller;
}

CallGate::Pass::~Pass() {
  {
    const std::lock_guard lock(gate_.mutex_);
    gate_.inside_ = {};
  }
  gate_.left_.notify_one();
}

}  // namespace pando
