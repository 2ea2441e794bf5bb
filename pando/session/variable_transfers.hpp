// Variables between their host arrays and the replicas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pando/runtime/waiting.hpp"
#include "pando/session/executable.hpp"

namespace pando {

class Communicator;
class Engine;

/// The host arrays of the variables of an executable, in their order.
using HostArrays = std::vector<std::shared_ptr<HostArray>>;

/// Those that an Ir has for its variables.
HostArrays host_arrays_of(const Executable& executable, const Ir& ir);

class VariableTransfers {
 public:
  /// Variables by their place in Executable::variables.
  using Selection = std::vector<std::size_t>;

  /// `ranks`: of the local replicas. Keeps a reference to `executable`. Throws ValueError for an
  /// array of another size than the program wants.
  VariableTransfers(const Executable& executable, HostArrays arrays, std::vector<int> ranks);

  Selection all() const;
  /// Those with these ids. Throws ValueError for one that there is not, with those like it.
  Selection with_ids(const std::vector<std::string>& ids) const;

  /// The host arrays -> the parts that local replica `local` keeps of the variables.
  void upload(const Selection& variables, std::size_t local, Engine& engine,
              const StopCheck& check) const;
  /// Every entry that a local replica keeps -> the host arrays, of variables that are whole here.
  /// `engines`: one per local replica. `last`: they give back what each variable takes when it is
  /// on the host.
  void download(const Selection& variables, const std::vector<std::unique_ptr<Engine>>& engines,
                bool last, const StopCheck& check) const;
  /// The same of variables whose parts are on replicas of several processes, on the thread of each
  /// local replica: the members of a group bring them together.
  void download_parts(const Selection& variables, std::size_t local, Engine& engine,
                      Communicator& communicator, const StopCheck& check) const;

 private:
  bool has_parts_elsewhere(const VariableLayout& variable) const;
  /// The entry of the host array that a replica starts with.
  std::byte* host_entry(std::size_t variable, std::int64_t replica) const;
  void download(std::size_t variable, const std::vector<std::unique_ptr<Engine>>& engines,
                const StopCheck& check) const;
  void download_parts(std::size_t variable, std::size_t local, Engine& engine,
                      Communicator& communicator, const StopCheck& check) const;

  const std::vector<VariableLayout>& layouts_;
  std::int64_t replicas_;
  HostArrays arrays_;
  std::vector<int> ranks_;
};

}  // namespace pando
