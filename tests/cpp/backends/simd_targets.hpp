// Tests that run once for each SIMD target of this build and machine.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "hwy/targets.h"
#include "pando/backends/cpu/fused/micro_op.hpp"

namespace pando::testing {

/// Runs the tests on one SIMD target, where this machine has it.
class SimdTargetTest : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
#ifdef PANDO_ONE_SIMD_TARGET
    const std::string built = cpu::chain_machine().target;
    if (built != hwy::TargetName(GetParam())) GTEST_SKIP() << "built for " << built << " only";
#endif
    if (GetParam() != HWY_SCALAR && (HWY_TARGETS & GetParam()) == 0) {
      GTEST_SKIP() << "not built for " << hwy::TargetName(GetParam());
    }
    if (GetParam() != HWY_SCALAR && (hwy::SupportedTargets() & GetParam()) == 0) {
      GTEST_SKIP() << "this machine has no " << hwy::TargetName(GetParam());
    }
    select(GetParam());
  }
  void TearDown() override { select(0); }
  static void select(std::int64_t target) {
    hwy::GetChosenTarget().Update(target == 0 ? hwy::SupportedTargets() : target);
  }
};

/// What a SimdTargetTest is instantiated with.
inline const auto kSimdTargets =
    ::testing::Values<std::int64_t>(HWY_SCALAR, HWY_SSE4, HWY_AVX2, HWY_AVX3);

inline std::string target_name(const ::testing::TestParamInfo<std::int64_t>& target) {
  return hwy::TargetName(target.param);
}

}  // namespace pando::testing
