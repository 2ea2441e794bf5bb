// The collectives of a program, each with the communicator of its group of replicas.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "pando/program/program.hpp"
#include "pando/runtime/communicator.hpp"
#include "pando/runtime/run_profile.hpp"
#include "pando/runtime/virtual_device.hpp"

namespace pando {

class ProgramCollectives {
 public:
  /// For the rank of `replicas`, a communicator of all replicas, which all take part. Keeps
  /// references. `profile` may be nullptr.
  ProgramCollectives(const Program& program, Communicator& replicas, RunProfile* profile);

  /// Takes part in collective `index` of the program, with values in the memory of `device`; see
  /// Communicator::run.
  void run(std::size_t index, const std::byte* input, std::byte* output, VirtualDevice& device) {
    if (profile_ == nullptr) return exchange(entries_[index], input, output, device);
    const double start = steady_seconds();
    exchange(entries_[index], input, output, device);
    profile_->exchanged(device.index(), steady_seconds() - start);
  }

 private:
  struct Entry {
    Collective collective;
    Communicator* group = nullptr;
  };

  static void exchange(const Entry& entry, const std::byte* input, std::byte* output,
                       VirtualDevice& device);

  std::vector<std::unique_ptr<Communicator>> groups_;
  std::vector<Entry> entries_;  // by index of the program
  RunProfile* profile_;
};

}  // namespace pando
