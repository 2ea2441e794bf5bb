// A world whose ranks are all threads of this process.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "pando/runtime/thread_communicator.hpp"
#include "pando/runtime/world.hpp"

namespace pando {

class ThreadWorld : public World {
 public:
  explicit ThreadWorld(const WorldSettings& settings);

  int size() const override { return static_cast<int>(local_ranks_.size()); }
  const std::vector<int>& local_ranks() const override { return local_ranks_; }
  std::unique_ptr<Communicator> communicator(int rank, std::function<bool()> should_stop) override;
  void begin_run() override;
  void end_run(int rank) override { ranks_.end_run(rank); }

 private:
  ThreadRanks ranks_;
  ThreadGroups groups_;
  std::vector<int> local_ranks_;
  std::vector<ThreadRank> selves_;
};

/// The WorldFactory of sessions that are given none.
std::unique_ptr<World> make_thread_world(const WorldSettings& settings);

}  // namespace pando
