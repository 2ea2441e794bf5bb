#include "pando/runtime/thread_world.hpp"

#include <utility>

namespace pando {

ThreadWorld::ThreadWorld(const WorldSettings& settings)
    : ranks_(settings.size, settings.timeout_seconds), groups_(settings.size) {
  for (int rank = 0; rank < settings.size; ++rank) {
    local_ranks_.push_back(rank);
    selves_.push_back({rank, {}, {}});
  }
}

std::unique_ptr<Communicator> ThreadWorld::communicator(int rank,
                                                        std::function<bool()> should_stop) {
  ThreadRank& self = selves_[static_cast<std::size_t>(rank)];
  self.should_stop = std::move(should_stop);
  return std::make_unique<ThreadCommunicator>(ranks_, groups_, self, groups_.world(), rank);
}

void ThreadWorld::begin_run() {
  ranks_.begin_run();
  groups_.reset();
  for (ThreadRank& self : selves_) self.pending.clear();
}

std::unique_ptr<World> make_thread_world(const WorldSettings& settings) {
  return std::make_unique<ThreadWorld>(settings);
}

}  // namespace pando
