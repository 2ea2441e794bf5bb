#include "pando/backends/cpu/cpu_device.hpp"

#include <cstring>

#include "pando/backends/cpu/parallel.hpp"
#include "pando/runtime/host_memory.hpp"

namespace pando {
namespace cpu {
namespace {

/// Bytes that a thread copies in the time that it takes to wake another one.
constexpr std::int64_t kCopyGrain = 1 << 16;

class CpuQueue final : public Queue {
 public:
  explicit CpuQueue(int num_threads) : Queue(true), num_threads_(num_threads) {}

  void run(const Kernel& kernel, std::span<std::byte* const> operands,
           std::byte* scratch) override {
    dynamic_cast<const HostKernel&>(kernel).run(operands.data(), scratch);
  }
  void copy(const std::byte* from, std::byte* to, std::size_t bytes, CopyKind /*kind*/) override {
    parallel_for(num_threads_, static_cast<std::int64_t>(bytes), kCopyGrain,
                 [&](std::int64_t begin, std::int64_t end) {
                   std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
                 });
  }
  void fill_with_zeros(std::byte* memory, std::size_t bytes) override {
    if (bytes > 0) std::memset(memory, 0, bytes);
  }
  Event record() override { return 0; }
  void wait_for(Queue& /*other*/, Event /*event*/) override {}
  void wait(Event /*event*/, const StopCheck& /*check*/) override {}
  void abandon() override {}

 private:
  void read_scalar(const std::byte* memory, void* value, std::size_t bytes,
                   const StopCheck& /*check*/) override {
    std::memcpy(value, memory, bytes);
  }
  void write_scalar(std::byte* memory, const void* value, std::size_t bytes) override {
    std::memcpy(memory, value, bytes);
  }

  int num_threads_;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int num_threads) : num_threads_(num_threads) {}

  std::unique_ptr<MemoryBlock> allocate(int /*virtual_device*/, std::int64_t bytes,
                                        const std::string& purpose) override {
    return std::make_unique<HostMemory>(bytes, purpose);
  }
  std::unique_ptr<MemoryBlock> allocate_host(std::int64_t bytes,
                                             const std::string& purpose) override {
    return std::make_unique<HostMemory>(bytes, purpose);
  }
  std::unique_ptr<Queue> make_queue(int /*virtual_device*/) override {
    return std::make_unique<CpuQueue>(num_threads_);
  }

 private:
  int num_threads_;
};

}  // namespace
}  // namespace cpu

std::unique_ptr<Device> make_cpu_device(int num_threads) {
  return std::make_unique<cpu::CpuDevice>(num_threads);
}

}  // namespace pando
