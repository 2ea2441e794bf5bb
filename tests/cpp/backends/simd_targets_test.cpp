// What we find the processor to have, beside what Highway's own library finds.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "hwy/targets.h"

namespace {

#if HWY_ARCH_X86
TEST(SimdTargets, AreThoseThatHighwaysLibraryFinds) {
  void* library = dlopen("libhwy.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) GTEST_SKIP() << "Highway's library is not installed: " << dlerror();
  using Detect = std::int64_t (*)();
  const auto detect = reinterpret_cast<Detect>(dlsym(library, "_ZN3hwy16SupportedTargetsEv"));
  ASSERT_NE(detect, nullptr);
  constexpr std::int64_t kUsed = HWY_SSE4 | HWY_AVX2 | HWY_AVX3;
  EXPECT_EQ(hwy::SupportedTargets() & kUsed, detect() & kUsed);
  dlclose(library);
}
#endif

TEST(SimdTargets, ThereIsAlwaysOneToRun) {
  EXPECT_NE(hwy::SupportedTargets() & HWY_STATIC_TARGET, 0);
}

}  // namespace
