// The reference executor for programs with several replicas.
#pragma once

#include <memory>
#include <vector>

#include "tests/oracle/oracle.hpp"

namespace pando::oracle {

/// One Oracle per replica of the Ir. They run on threads of their own and meet in every collective,
/// in which every replica must take part.
class ReplicaOracles {
 public:
  /// `ir` must outlive the object.
  explicit ReplicaOracles(const Ir& ir, const OracleOptions& options = {});
  ~ReplicaOracles();

  std::size_t size() const { return replicas_.size(); }
  Oracle& operator[](std::size_t replica) { return *replicas_[replica]; }

  /// As Oracle::run, on all replicas. Throws the error of the lowest replica that failed.
  void run(int times = 1);

 private:
  class Meeting;

  std::unique_ptr<Meeting> meeting_;
  std::vector<std::unique_ptr<Oracle>> replicas_;
};

}  // namespace pando::oracle
