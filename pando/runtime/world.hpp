// The replicas of a program as ranks, which one process or several run.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "pando/runtime/communicator.hpp"

namespace pando {

/// The ranks of a program, and those of them that this process runs.
class World {
 public:
  virtual ~World() = default;
  virtual int size() const = 0;
  /// Ascending, at least one.
  virtual const std::vector<int>& local_ranks() const = 0;
  /// Connects the local rank `rank` with all ranks; the world must outlive it. `should_stop` (may
  /// be empty) is asked now and then while the rank waits; true ends the wait with Interrupted.
  virtual std::unique_ptr<Communicator> communicator(int rank,
                                                     std::function<bool()> should_stop) = 0;
  /// Every process starts a run: nothing is under way, nobody has failed or ended. No local rank
  /// may be running.
  virtual void begin_run() = 0;
  /// Local rank `rank` takes part in nothing more of this run.
  virtual void end_run(int rank) = 0;
};

struct WorldSettings {
  int size = 1;
  /// How long a rank waits for another one.
  double timeout_seconds = 600;
};

/// Makes the world of a session. It has as many ranks as the settings say.
using WorldFactory = std::function<std::unique_ptr<World>(const WorldSettings&)>;

}  // namespace pando
