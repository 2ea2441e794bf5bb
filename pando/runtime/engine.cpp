#include "pando/runtime/engine.hpp"

#include <utility>

#include "pando/base/error.hpp"
#include "pando/base/spin.hpp"
#include "pando/program/target.hpp"

namespace pando {
namespace {

std::unique_ptr<RunProfile> make_profile(const Program& program, const RemoteTier& remote) {
  return std::make_unique<RunProfile>(program, remote.is_slow() ? remote.io_threads : 0);
}

std::unique_ptr<DeviceTeam> make_team(const Program& program, Communicator& communicator,
                                      const std::function<bool()>& should_stop) {
  if (program.devices == 1) return nullptr;
  const auto on_failure = [&communicator](const std::exception_ptr& error) {
    communicator.fail(error);
  };
  return std::make_unique<DeviceTeam>(static_cast<int>(program.devices),
                                      team_spins(program.devices * program.replicas), should_stop,
                                      on_failure);
}

/// Device 0 runs on the thread that may be stopped.
std::vector<std::unique_ptr<VirtualDevice>> make_devices(const Program& program, Device& device,
                                                         const DeviceTeam* team,
                                                         const std::function<bool()>& should_stop) {
  std::vector<std::unique_ptr<VirtualDevice>> devices;
  devices.reserve(static_cast<std::size_t>(program.devices));
  for (int i = 0; i < program.devices; ++i) {
    devices.push_back(std::make_unique<VirtualDevice>(
        device, i, team, i == 0 ? should_stop : std::function<bool()>()));
  }
  return devices;
}

}  // namespace

Engine::Engine(const Program& program, Target& target, Device& device, Communicator& communicator,
               RemoteTier remote, const EngineSettings& settings)
    : program_(program),
      kernels_use_host_memory_(target.kernels_use_host_memory()),
      profile_(settings.profile ? make_profile(program, remote) : nullptr),
      finite_checks_(settings.check_finite ? std::make_unique<FiniteChecks>(program) : nullptr),
      team_(make_team(program, communicator, settings.should_stop)),
      devices_(make_devices(program, device, team_.get(), settings.should_stop)),
      prepared_(program, target, devices_.front()->queue().is_direct()),
      memory_(prepared_, device),
      remote_(std::move(remote), profile_.get()),
      host_(program, communicator.rank(), memory_.rows(), profile_.get()),
      remote_transfers_(prepared_, remote_, device, memory_.rows(), kernels_use_host_memory_,
                        profile_.get()),
      collectives_(program, communicator, profile_.get()),
      persistent_(program, memory_, devices_, [this](int function) { run_entry(function); }) {
  if (team_ != nullptr) {
    signals_ = std::make_unique<DeviceSignals>(*team_, devices_, profile_.get());
  }
  if (settings.check_finite && !devices_.front()->queue().is_direct()) {
    throw NotSupported(
        "check_finite: wanted a device whose memory this process may read; leave it off");
  }
  const ReplicaParts parts{prepared_,
                           memory_,
                           host_,
                           remote_transfers_,
                           collectives_,
                           signals_.get(),
                           profile_.get(),
                           finite_checks_.get(),
                           settings.flush_denormals};
  for (const auto& virtual_device : devices_) {
    executors_.push_back(std::make_unique<Executor>(parts, *virtual_device));
  }
}

void Engine::run(const std::vector<StreamCursor>& streams, bool outputs_apart) {
  host_.set_arrays(streams, outputs_apart && kernels_use_host_memory_);
  run_entry(program_.main_function);
}

void Engine::run_weights_from_host() {
  run_entry(program_.weights_from_host_function);
  if (program_.weights_from_host_function >= 0) persistent_.prepare_again();
}

void Engine::run_devices(int function) {
  if (team_ == nullptr) return executors_.front()->run(function);
  team_->run([&](int device) { executors_[static_cast<std::size_t>(device)]->run(function); });
}

void Engine::run_entry(int function) {
  host_.begin_run();
  if (function < 0) return;
  if (profile_ != nullptr) profile_->begin_run(function == program_.main_function);
  remote_.retry();
  double finishing = 0;
  try {
    run_devices(function);
    if (remote_.are_slow()) {
      finishing = -steady_seconds();
      remote_.finish(devices_.front()->check());
      finishing += steady_seconds();
    }
  } catch (...) {
    // Work under way uses memory that is no longer its own.
    for (const auto& device : devices_) device->queue().abandon();
    remote_.abandon();
    if (profile_ != nullptr) profile_->end_run(0);
    throw;
  }
  if (profile_ != nullptr) profile_->end_run(finishing);
}

}  // namespace pando
