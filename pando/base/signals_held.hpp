// Signals that wait until code has run that cannot be interrupted.
#pragma once

#include <csignal>

namespace pando {

/// While it lives, signals from elsewhere wait for the calling thread, or are taken by another one.
/// Those of faults of its own cannot wait, and do not.
class SignalsHeld {
 public:
  SignalsHeld() { pthread_sigmask(SIG_BLOCK, &from_elsewhere(), &before_); }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  static const sigset_t& from_elsewhere() {
    static const sigset_t signals = [] {
      sigset_t all;
      sigfillset(&all);
      for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
        sigdelset(&all, own);
      }
      return all;
    }();
    return signals;
  }

  sigset_t before_;
};

}  // namespace pando
