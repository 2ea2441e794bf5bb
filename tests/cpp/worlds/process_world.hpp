// A world whose ranks are processes, joined by sockets.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pando/runtime/world.hpp"
#include "tests/cpp/worlds/process_mesh.hpp"

namespace pando::testing {

/// The sides of the ranks that one process runs, ascending.
using ProcessMeshes = std::vector<std::unique_ptr<ProcessMesh>>;

/// This process runs the ranks of its meshes, which must outlive it; one world at a time uses them.
class ProcessWorld : public World {
 public:
  ProcessWorld(const ProcessMeshes& meshes, double timeout_seconds);
  ProcessWorld(ProcessMesh& mesh, double timeout_seconds);

  int size() const override { return meshes_.front()->size(); }
  const std::vector<int>& local_ranks() const override { return local_ranks_; }
  std::unique_ptr<Communicator> communicator(int rank, std::function<bool()> should_stop) override;
  void begin_run() override;
  void end_run(int rank) override;

 private:
  ProcessMesh& mesh_of(int rank) const;

  std::vector<ProcessMesh*> meshes_;
  double timeout_seconds_;
  std::vector<int> local_ranks_;
};

/// What a rank's work returned, or why there is nothing.
struct Outcome {
  std::string value;
  std::string error;
};

/// Calls work(meshes) in new processes, which share nothing but sockets, and returns when all have
/// ended; those that have stopped (SIGSTOP) are killed when only they are left. The ranks 0 to
/// `size` - 1 are dealt out `ranks_each` at a time. The outcomes are those of the processes.
std::vector<Outcome> run_in_processes(int size, int ranks_each,
                                      const std::function<std::string(const ProcessMeshes&)>& work);
/// The same with one rank in each process.
std::vector<Outcome> run_in_processes(int size,
                                      const std::function<std::string(ProcessMesh&)>& work);

}  // namespace pando::testing
