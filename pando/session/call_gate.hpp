// One call at a time.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "pando/runtime/waiting.hpp"

namespace pando {

/// Unlike a mutex it can be waited for with a StopCheck, and knows a thread that calls again from
/// within a call, as a signal handler may.
class CallGate {
 public:
  /// Inside while it lives.
  class Pass {
   public:
    /// Waits for the call that is inside. Throws what `check` does meanwhile, and Error when the
    /// calling thread is inside already.
    Pass(CallGate& gate, const StopCheck& check);
    ~Pass();
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    CallGate& gate_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable left_;
  std::thread::id inside_;  // no thread: nobody
};

}  // namespace pando
