// The replicas of a program that this process runs, and what each of them runs on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pando/runtime/remote_file.hpp"
#include "pando/session/device_table.hpp"
#include "pando/session/session_options.hpp"

namespace pando {

struct RemoteTier;

/// Needs no device until it makes one. Places are indices into World::local_ranks.
class LocalReplicas {
 public:
  /// `replicas`: of the program; `devices`: virtual ones of each replica, which share the threads.
  /// Throws ValueError (no such device, a world of another size, bad settings) and RuntimeFault
  /// (files cannot be used as the settings say).
  LocalReplicas(const RunnerOptions& options, std::int64_t replicas, std::int64_t devices);
  LocalReplicas(LocalReplicas&&) noexcept;
  ~LocalReplicas();

  std::size_t size() const { return targets_.size(); }
  World& world() const { return *world_; }
  std::int64_t rank(std::size_t place) const { return world_->local_ranks()[place]; }
  const std::shared_ptr<Target>& target(std::size_t place) const { return targets_[place]; }

  std::unique_ptr<Device> make_device(std::size_t place) const;
  /// For the files of all; nullptr when the program has none.
  std::unique_ptr<RunFolder> make_folder(const Program& program) const;
  /// The remote buffers of one; `folder` must outlive them.
  RemoteTier make_remote(const Program& program, std::size_t place, Device& device,
                         const RunFolder* folder) const;
  /// Nothing is transferred for now.
  void release_files() const;
  /// How files of remote buffers are read and written, for people (FileIo::describe); empty when no
  /// buffer is in a file.
  std::string io_method(const Program& program) const;

 private:
  RemoteSettings remote_;
  DeviceSettings settings_;
  DeviceKind kind_;
  std::unique_ptr<World> world_;
  std::vector<std::shared_ptr<Target>> targets_;
  std::shared_ptr<FileIo> files_;  // nullptr without the file tier
};

}  // namespace pando
