#include "pando/backends/cpu/processor.hpp"

#include <hwy/targets.h>
#include <unistd.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <thread>

#include "pando/base/error.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace pando::cpu {
namespace {

/// Family, model, stepping and feature bits; sizes of the caches.
std::string hardware_text() {
  std::string text = "model ";
#if defined(__x86_64__)
  for (const unsigned leaf : {0x0u, 0x1u, 0x7u}) {
    std::array<unsigned, 4> registers{};
    __get_cpuid_count(leaf, 0, &registers[0], &registers[1], &registers[2], &registers[3]);
    // Bits 24 to 31 of EBX of leaf 1 number the core that asks.
    if (leaf == 0x1u) registers[1] &= 0x00ffffffu;
    for (const unsigned value : registers) text += str_cat(value, ".");
  }
#endif
  return str_cat(text, " cores ", std::thread::hardware_concurrency(), " caches ",
                 sysconf(_SC_LEVEL1_DCACHE_SIZE), ".", sysconf(_SC_LEVEL2_CACHE_SIZE), ".",
                 sysconf(_SC_LEVEL3_CACHE_SIZE));
}

}  // namespace

std::string processor_identity() {
  static const std::string constant = [] {
    const dnnl_version_t& version = *dnnl::version();
    return str_cat(hardware_text(), " highway ", hwy::SupportedTargets(), " onednn ", version.major,
                   ".", version.minor, ".", version.patch, " ", version.hash, " isa ");
  }();
  dnnl_fpmath_mode_t fpmath = dnnl_fpmath_mode_strict;
  dnnl_get_default_fpmath_mode(&fpmath);
  return str_cat(constant, static_cast<int>(dnnl::get_effective_cpu_isa()), " hints ",
                 static_cast<int>(dnnl::get_cpu_isa_hints()), " fpmath ", static_cast<int>(fpmath));
}

// sysconf() adds the caches of all sockets and core complexes up.
std::size_t last_cache_bytes() {
  static const std::size_t bytes = [] {
    std::size_t largest = 0;
    for (int index = 0;; ++index) {
      std::ifstream file(str_cat("/sys/devices/system/cpu/cpu0/cache/index", index, "/size"));
      std::size_t size = 0;
      char unit = ' ';
      if (!(file >> size)) break;
      file >> unit;
      largest = std::max(largest, size << (unit == 'M' ? 20 : unit == 'K' ? 10 : 0));
    }
    return largest > 0 ? largest : std::size_t{32} << 20;
  }();
  return bytes;
}

}  // namespace pando::cpu
