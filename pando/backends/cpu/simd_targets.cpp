// The two functions of Highway's library that its dispatch calls: which instruction sets the
// processor has. With them here Highway is headers only, and nothing of it is loaded or linked.
#include <hwy/targets.h>

namespace hwy {

namespace {

#if HWY_ARCH_X86
std::int64_t detected_targets() {
  __builtin_cpu_init();
  const bool sse4 = __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") &&
                    __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") &&
                    __builtin_cpu_supports("aes");
  const bool avx2 = sse4 && __builtin_cpu_supports("avx") && __builtin_cpu_supports("avx2") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                    __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
                    __builtin_cpu_supports("lzcnt");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd");
  return (sse4 ? HWY_SSE4 : 0) | (avx2 ? HWY_AVX2 : 0) | (avx512 ? HWY_AVX3 : 0);
}
#else
std::int64_t detected_targets() { return 0; }
#endif

constinit ChosenTarget chosen_target;

}  // namespace

std::int64_t SupportedTargets() {
  static const std::int64_t targets = detected_targets() | HWY_STATIC_TARGET;
  return targets;
}

ChosenTarget& GetChosenTarget() { return chosen_target; }

}  // namespace hwy
