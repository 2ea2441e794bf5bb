#include "pando/session/local_replicas.hpp"

#include <algorithm>

#include "pando/base/error.hpp"
#include "pando/base/spin.hpp"
#include "pando/runtime/remote_buffers.hpp"
#include "pando/runtime/thread_world.hpp"

namespace pando {
namespace {

void check_settings(const RemoteSettings& settings) {
  const auto refuse = [](const char* what, std::int64_t least, std::int64_t given) {
    throw ValueError(str_cat("wanted ", what, " of at least ", least, "; given ", given));
  };
  if (settings.io_threads < 1) refuse("io_threads", 1, settings.io_threads);
  if (settings.staging_bytes < 0) refuse("staging_bytes", 0, settings.staging_bytes);
  if (settings.prefetch_bytes < 0) refuse("prefetch_bytes", 0, settings.prefetch_bytes);
  if (settings.uses_files() && settings.folder.empty()) {
    throw ValueError("remote buffers in files need a folder: give remote_folder");
  }
}

/// The share of each (replica, device).
int threads_per_device(int num_threads, std::int64_t stems) {
  if (stems == 1) return num_threads;
  const std::int64_t threads = num_threads == 0 ? usable_cores() : num_threads;
  return static_cast<int>(std::max<std::int64_t>(1, threads / stems));
}

std::unique_ptr<World> make_world(const RunnerOptions& options, std::int64_t replicas) {
  const WorldSettings settings{.size = static_cast<int>(replicas),
                               .timeout_seconds = options.collective_timeout_seconds};
  auto world = options.world ? options.world(settings) : make_thread_world(settings);
  if (world->size() == settings.size) return world;
  throw ValueError(str_cat("wanted a world of ", settings.size,
                           " ranks, one for each replica of the program; given one of ",
                           world->size()));
}

}  // namespace

LocalReplicas::LocalReplicas(const RunnerOptions& options, std::int64_t replicas,
                             std::int64_t devices)
    : remote_(options.remote) {
  check_settings(remote_);
  if (remote_.uses_files()) files_ = std::make_shared<FileIo>(remote_.method);
  world_ = make_world(options, replicas);
  const std::size_t local = world_->local_ranks().size();
  settings_.num_threads =
      threads_per_device(options.num_threads, static_cast<std::int64_t>(local) * devices);
  settings_.options = options.device_options;
  kind_ = device_kind(options.device, settings_);
  for (std::size_t i = 0; i < local; ++i) targets_.push_back(kind_.make_target(settings_));
}

LocalReplicas::LocalReplicas(LocalReplicas&&) noexcept = default;
LocalReplicas::~LocalReplicas() = default;

std::unique_ptr<Device> LocalReplicas::make_device(std::size_t place) const {
  return kind_.make_device(settings_, *targets_[place]);
}

std::unique_ptr<RunFolder> LocalReplicas::make_folder(const Program& program) const {
  if (!remote_.uses_files() || program.remote_buffers.empty()) return nullptr;
  return std::make_unique<RunFolder>(remote_.folder);
}

RemoteTier LocalReplicas::make_remote(const Program& program, std::size_t place, Device& device,
                                      const RunFolder* folder) const {
  RemoteTier tier;
  tier.io_threads = remote_.io_threads;
  tier.staging_bytes = remote_.staging_bytes;
  std::vector<const RemoteBufferDesc*> in_ram;
  for (const RemoteBufferDesc& buffer : program.remote_buffers) {
    if (remote_.tier_of(buffer.id) == MemoryTier::Ram) in_ram.push_back(&buffer);
  }
  std::vector<std::unique_ptr<RemoteMemory>> ram_memories = make_ram_memories(in_ram, device);
  auto next_in_ram = ram_memories.begin();
  for (const RemoteBufferDesc& buffer : program.remote_buffers) {
    if (remote_.tier_of(buffer.id) == MemoryTier::Ram) {
      tier.memories.push_back(std::move(*next_in_ram++));
    } else {
      tier.memories.push_back(
          std::make_unique<FileMemory>(*folder, buffer, rank(place), remote_.direct, files_));
    }
  }
  return tier;
}

void LocalReplicas::release_files() const {
  if (files_ != nullptr) files_->release();
}

std::string LocalReplicas::io_method(const Program& program) const {
  const auto is_in_file = [&](const RemoteBufferDesc& buffer) {
    return remote_.tier_of(buffer.id) == MemoryTier::File;
  };
  const auto& buffers = program.remote_buffers;
  return std::any_of(buffers.begin(), buffers.end(), is_in_file) ? files_->describe() : "";
}

}  // namespace pando
