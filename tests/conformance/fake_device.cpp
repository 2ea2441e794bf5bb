#include "tests/conformance/fake_device.hpp"

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "pando/base/error.hpp"
#include "pando/custom/library_kernel.hpp"
#include "pando/runtime/host_memory.hpp"
#include "tests/conformance/fake_queue.hpp"
#include "tests/cpp/compile/wrapped_target.hpp"

namespace pando::testing {
namespace {

class FakeTarget : public WrappedTarget {
 public:
  FakeTarget(int num_threads, const DeviceOptions& options)
      : WrappedTarget(make_cpu_target(num_threads, options)) {}

  std::string name() const override { return "fake"; }
  std::string identity() const override { return "fake " + WrappedTarget::identity(); }
  /// Ops of libraries compute on memory of the host, which operands never are.
  bool has_kernel(std::string_view kind) const override {
    return kind != kLibraryKernel && kind != kStridedLibraryKernel &&
           WrappedTarget::has_kernel(kind);
  }
  std::shared_ptr<const Kernel> prepare(const KernelSpec& spec) override {
    std::shared_ptr<const Kernel> kernel = WrappedTarget::prepare(spec);
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const Kernel>& fake = kernels_[kernel.get()];
    if (fake == nullptr) fake = std::make_shared<FakeKernel>(std::move(kernel));
    return fake;
  }
  bool kernels_use_host_memory() const override { return false; }
  bool devices_share_memory() const override { return false; }

 private:
  std::mutex mutex_;
  std::map<const Kernel*, std::shared_ptr<const Kernel>> kernels_;  // by the CPU's
};

class FakeDevice : public Device {
 public:
  explicit FakeDevice(const FakeSettings& settings)
      : machine_(std::make_shared<FakeMachine>(settings.seed, settings.fails_at)) {}

  std::unique_ptr<MemoryBlock> allocate(int virtual_device, std::int64_t bytes,
                                        const std::string& purpose) override {
    return std::make_unique<FakeMemory>(machine_->space, virtual_device, bytes, purpose);
  }
  std::unique_ptr<MemoryBlock> allocate_host(std::int64_t bytes,
                                             const std::string& purpose) override {
    return std::make_unique<HostMemory>(bytes, purpose);
  }
  std::unique_ptr<Queue> make_queue(int virtual_device) override {
    return std::make_unique<FakeQueue>(machine_, virtual_device);
  }

 private:
  std::shared_ptr<FakeMachine> machine_;
};

FakeSettings settings_of(const std::string& argument) {
  FakeSettings settings;
  if (argument.empty()) return settings;
  settings.seed = std::stoull(argument);
  const std::size_t colon = argument.find(':');
  if (colon != std::string::npos) settings.fails_at = std::stoll(argument.substr(colon + 1));
  return settings;
}

}  // namespace

std::shared_ptr<Target> make_fake_target(int num_threads, const DeviceOptions& options) {
  return std::make_shared<FakeTarget>(num_threads, options);
}

std::unique_ptr<Device> make_fake_device(const FakeSettings& settings) {
  return std::make_unique<FakeDevice>(settings);
}

DeviceKind fake_device_kind() {
  return {[](const DeviceSettings& settings) {
            return make_fake_target(settings.num_threads, settings.options);
          },
          [](const DeviceSettings& settings, const Target&) {
            return make_fake_device(settings_of(settings.argument));
          }};
}

void add_fake_device_kind() { add_device_kind("fake", fake_device_kind()); }

}  // namespace pando::testing
