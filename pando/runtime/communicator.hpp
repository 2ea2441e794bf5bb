// How one replica exchanges data with the others.
#pragma once

#include <cstddef>
#include <stdexcept>

#include "pando/program/program.hpp"

namespace pando {

class Communicator {
 public:
  virtual ~Communicator() = default;
  /// 0 to the number of replicas - 1.
  virtual int rank() const = 0;
  /// Takes part in `collective`, with the members of this replica's group, which call it with the
  /// same description (one object for all). `input` and `output` hold the elements that the
  /// description says; they are the same memory or apart. Blocks until both may be used again.
  ///
  /// Members reduce in the order of their ranks, so all get the same bits in every run. Throws
  /// RuntimeFault, naming replica and collective, when another replica is at a different collective
  /// or has ended, or does not arrive in time; ReplicaStopped when another replica failed.
  virtual void run(const CollectiveDesc& collective, const std::byte* input, std::byte* output) = 0;
  /// This replica failed: its own wait in a collective (of another thread), and those of all
  /// others, end with ReplicaStopped.
  virtual void stop() = 0;
};

/// Ends a replica whose run is in vain because another one failed. Never leaves the runtime.
class ReplicaStopped : public std::runtime_error {
 public:
  ReplicaStopped() : std::runtime_error("another replica failed") {}
};

}  // namespace pando
