#include "tests/oracle/replicas.hpp"

#include <barrier>
#include <exception>
#include <thread>

namespace pando::oracle {

/// Where the replicas lay down what they give to a collective.
class ReplicaOracles::Meeting {
 public:
  explicit Meeting(std::size_t replicas)
      : barrier_(std::make_unique<std::barrier<>>(static_cast<std::ptrdiff_t>(replicas))),
        given_(replicas) {}

  std::vector<Array> exchange(std::size_t replica, const Array& own) {
    given_[replica] = own;
    barrier_->arrive_and_wait();
    std::vector<Array> all = given_;
    barrier_->arrive_and_wait();
    return all;
  }
  /// The replica takes part no longer: the others do not wait for it.
  void leave() { barrier_->arrive_and_drop(); }
  void begin() {
    barrier_ = std::make_unique<std::barrier<>>(static_cast<std::ptrdiff_t>(given_.size()));
  }

 private:
  std::unique_ptr<std::barrier<>> barrier_;
  std::vector<Array> given_;
};

ReplicaOracles::ReplicaOracles(const Ir& ir, const OracleOptions& options)
    : meeting_(std::make_unique<Meeting>(static_cast<std::size_t>(ir.replication_factor))) {
  for (std::int64_t replica = 0; replica < ir.replication_factor; ++replica) {
    OracleOptions own = options;
    own.replica = replica;
    own.exchange = [this, replica](const Array& array) {
      return meeting_->exchange(static_cast<std::size_t>(replica), array);
    };
    replicas_.push_back(std::make_unique<Oracle>(ir, own));
  }
}

ReplicaOracles::~ReplicaOracles() = default;

void ReplicaOracles::run(int times) {
  if (replicas_.size() == 1) return replicas_[0]->run(times);
  meeting_->begin();
  std::vector<std::exception_ptr> errors(replicas_.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    threads.emplace_back([this, i, times, &errors] {
      try {
        replicas_[i]->run(times);
      } catch (...) {
        errors[i] = std::current_exception();
      }
      meeting_->leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
}

}  // namespace pando::oracle
