// A world whose ranks are processes, joined by sockets.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pando/runtime/world.hpp"
#include "tests/cpp/worlds/process_mesh.hpp"

namespace pando::testing {

/// This process runs one rank. The mesh must outlive it; one world at a time uses it.
class ProcessWorld : public World {
 public:
  ProcessWorld(ProcessMesh& mesh, double timeout_seconds);

  int size() const override { return mesh_.size(); }
  const std::vector<int>& local_ranks() const override { return local_ranks_; }
  std::unique_ptr<Communicator> communicator(int rank, std::function<bool()> should_stop) override;
  void begin_run() override { mesh_.begin_run(); }
  void end_run(int rank) override;

 private:
  ProcessMesh& mesh_;
  double timeout_seconds_;
  std::vector<int> local_ranks_;
};

/// What a rank's work returned, or why there is nothing.
struct Outcome {
  std::string value;
  std::string error;
};

/// Calls work(mesh) in `size` new processes, which share nothing but sockets, and returns when all
/// have ended; those that have stopped (SIGSTOP) are killed when only they are left.
std::vector<Outcome> run_in_processes(int size,
                                      const std::function<std::string(ProcessMesh&)>& work);

}  // namespace pando::testing
