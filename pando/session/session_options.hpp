// What can be chosen where a program is compiled and run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "pando/base/log.hpp"
#include "pando/program/device_options.hpp"
#include "pando/runtime/remote_settings.hpp"
#include "pando/runtime/world.hpp"

namespace pando {

class Ir;
struct StepProgram;

struct CompilerOptions {
  /// 0: no limit. Else bytes of device memory (persistent + frame) of one replica; a program that
  /// needs more is refused with OutOfMemory.
  std::int64_t memory_limit_bytes = 0;
  /// The same for what each virtual device of a replica needs.
  std::int64_t device_memory_limit_bytes = 0;
  /// Room for remote loads that start early, as far as the limits leave it (CompileOptions). A
  /// session takes it from its remote settings.
  std::int64_t prefetch_bytes = 0;
  /// Whether a write in place is refused when nothing orders it and other accesses of the tensor.
  bool check_inplace_ambiguity = true;
  /// Whether a log2 scale outside [-32, 32) of a float8 op stops the run with ApplicationFault;
  /// otherwise the scale is used as it is.
  bool check_log2_scales = true;
  /// Whether Softmax subtracts the maximum first (see use_plain_softmax).
  bool stable_softmax = true;
  /// Folder where compiled programs are kept for later processes (executable_cache.hpp); empty:
  /// none are kept.
  std::string cache_folder = {};
  /// What the names of its files end with; empty: the usual one.
  std::string cache_suffix = {};
  /// Bytes that all programs in that folder take together; those not used for longest go. 0: no
  /// limit.
  std::int64_t cache_limit_bytes = std::int64_t{1} << 30;
  /// Told, while a program is compiled, that it is and what is wrong with the cache.
  LogFunction log = {};
  /// Called after every stage of compilation: see CompileOptions. Not for a program from the cache.
  std::function<void(const std::string& stage, const Ir& ir)> after_stage = {};
  std::function<void(const std::string& stage, const StepProgram& steps)> after_steps = {};
};

struct RunnerOptions {
  /// What runs the program: the kind of device, with an argument after a colon if the kind takes
  /// one (device_table.hpp).
  std::string device = "cpu";
  /// What the kind of device has to choose beside; its target refuses what it does not know.
  DeviceOptions device_options = {};
  /// Threads of all devices of all local replicas together, which share them evenly (at least one
  /// each).
  /// 0: every core.
  int num_threads = 0;
  /// How long a replica waits for another one in a collective.
  double collective_timeout_seconds = 600;
  /// Where remote buffers live.
  RemoteSettings remote = {};
  /// Whether denormal float32 and float64 numbers count as zero in runs. Keeping them costs up to a
  /// hundred cycles for each; functions such as exp may give zero all the same.
  bool flush_denormals = true;
  /// Whether a kernel that makes NaN or an infinity of other numbers stops the run with
  /// ApplicationFault. It reads all operands, so runs take a multiple of their time.
  bool check_finite = false;
  /// Record the time of every instruction (Runner::trace).
  bool profile = false;
  /// Called between instructions every few milliseconds; returning true stops the run with
  /// Interrupted (weights stay as they are).
  std::function<bool()> should_stop = {};
  /// Makes the world whose ranks are the replicas; empty: all are threads of this process. A runner
  /// in each process of a world, of the same program, has the same methods called in the same
  /// order: whatever runs replicas waits for the others.
  WorldFactory world = {};
};

struct SessionOptions : CompilerOptions, RunnerOptions {};

}  // namespace pando
