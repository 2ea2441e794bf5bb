// The CPU target with answers of a test's own.
#pragma once

#include "pando/backends/cpu/cpu_target.hpp"

namespace pando::testing {

/// Says what the CPU target says.
class WrappedTarget : public Target {
 public:
  explicit WrappedTarget(std::shared_ptr<Target> cpu = make_cpu_target(1)) : cpu_(std::move(cpu)) {}

  std::string name() const override { return "wrapped"; }
  std::string identity() const override { return "wrapped " + cpu_->identity(); }
  bool has_kernel(std::string_view kind) const override { return cpu_->has_kernel(kind); }
  AcceptedLayout accepted_layout(const KernelSpec& spec, int operand) const override {
    return cpu_->accepted_layout(spec, operand);
  }
  int output_over(const KernelSpec& spec, int input) const override {
    return cpu_->output_over(spec, input);
  }
  std::size_t most_fused_ops() const override { return cpu_->most_fused_ops(); }
  ProductUse computes_inside(const KernelSpec& fused, std::size_t input,
                             const KernelSpec& product) const override {
    return cpu_->computes_inside(fused, input, product);
  }
  KernelImages images_of(const KernelSpec& spec) const override { return cpu_->images_of(spec); }
  std::optional<PreparedInput> prepared_input(const KernelSpec& spec) const override {
    return cpu_->prepared_input(spec);
  }
  std::int64_t most_prepared_bytes() const override { return cpu_->most_prepared_bytes(); }
  bool skips_outside_bands() const override { return cpu_->skips_outside_bands(); }
  std::size_t most_shared_bytes() const override { return cpu_->most_shared_bytes(); }
  std::shared_ptr<const Kernel> prepare(const KernelSpec& spec) override {
    return cpu_->prepare(spec);
  }
  int num_threads() const override { return cpu_->num_threads(); }
  bool kernels_use_host_memory() const override { return cpu_->kernels_use_host_memory(); }
  bool devices_share_memory() const override { return cpu_->devices_share_memory(); }

 private:
  std::shared_ptr<Target> cpu_;
};

}  // namespace pando::testing
