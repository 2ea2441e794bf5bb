// The collectives of a program, each with the communicator of its group of replicas.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "pando/program/program.hpp"
#include "pando/runtime/communicator.hpp"

namespace pando {

class ProgramCollectives {
 public:
  /// For the rank of `replicas`, a communicator of all replicas, which all take part. Keeps
  /// references to both.
  ProgramCollectives(const Program& program, Communicator& replicas);

  /// Takes part in collective `index` of the program; see Communicator::run.
  void run(std::size_t index, const std::byte* input, std::byte* output) {
    const Entry& entry = entries_[index];
    entry.group->run(entry.collective, input, output);
  }

 private:
  struct Entry {
    Collective collective;
    Communicator* group = nullptr;
  };

  std::vector<std::unique_ptr<Communicator>> groups_;
  std::vector<Entry> entries_;  // by index of the program
};

}  // namespace pando
