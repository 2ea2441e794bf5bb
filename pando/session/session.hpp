// A compiled program with its state: the C++ side of `popxl.Session`.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pando/ir/graph.hpp"
#include "pando/program/program.hpp"

namespace pando {

class Engine;
class Backend;

struct SessionOptions {
  /// 0: no limit. Else bytes of device memory (persistent + frame); a program that needs more is
  /// refused with OutOfMemory.
  std::int64_t memory_limit_bytes = 0;
  /// 0: every core.
  int num_threads = 0;
  /// Whether conflicting accesses without an order are refused (popxl-core.md 3.2).
  bool check_inplace_ambiguity = true;
  /// Whether a log2 scale outside [-32, 32) of a float8 op stops the run with ApplicationFault;
  /// otherwise the scale is used as it is.
  bool check_log2_scales = true;
  /// Whether Softmax subtracts the maximum first (see use_plain_softmax).
  bool stable_softmax = true;
  /// Record the time of every instruction (Session::trace).
  bool profile = false;
  /// Called between instructions every few milliseconds; returning true stops the run with
  /// Interrupted (weights stay as they are).
  std::function<bool()> should_stop = {};
};

/// One array the caller gives for a stream. `count` elements follow each other in C order, each of
/// the stream's shape; the k-th load or store of a run uses element k modulo count.
struct StreamBuffer {
  std::byte* data = nullptr;
  std::int64_t count = 1;
};

struct InstructionTime {
  std::string op;
  std::string location;
  std::string kernel;
  std::int64_t calls = 0;
  double seconds = 0;
};

struct StepReport {
  double compile_seconds = 0;
  std::vector<std::pair<std::string, double>> stages;  // compile stage, seconds
};

/// Compiles an Ir (which it clones) and runs it. Methods may be called from any thread, one at a
/// time per session (guarded by a mutex); different sessions run at the same time.
class Session {
 public:
  /// Errors: Error (ambiguity, invalid graph), OutOfMemory, NotSupported.
  explicit Session(const Ir& ir, SessionOptions options = {});
  ~Session();

  /// Streams in use, in a fixed order; `run` takes its buffers in the order of these lists.
  const std::vector<StreamDesc>& input_streams() const { return input_streams_; }
  const std::vector<StreamDesc>& output_streams() const { return output_streams_; }

  /// Allocates device memory and uploads constants and variables from their host arrays. Throws
  /// OutOfMemory when this machine has too little.
  void attach();
  void detach();
  bool is_attached() const { return engine_ != nullptr; }

  void run(const std::vector<StreamBuffer>& inputs, const std::vector<StreamBuffer>& outputs);
  /// Host arrays -> device for every variable, then the weights-from-host program.
  void weights_from_host();
  /// The weights-to-host program, then device -> host arrays.
  void weights_to_host();

  const Program& program() const { return program_; }
  const StepReport& compile_report() const { return compile_report_; }
  /// Total times by instruction since the last attach; empty unless options.profile.
  std::vector<InstructionTime> trace() const;
  /// Highest number of bytes of device memory actually held.
  std::int64_t actual_peak_bytes() const;
  /// One line per instruction.
  std::string disassembly() const;
  /// Which implementation each kernel uses and why not the ones preferred to it.
  std::string explain() const;

 private:
  SessionOptions options_;
  Program program_;
  StepReport compile_report_;
  std::shared_ptr<Backend> backend_;
  std::unique_ptr<Engine> engine_;
  std::vector<StreamDesc> input_streams_;
  std::vector<StreamDesc> output_streams_;
  // Variables by id: the host arrays they share with the caller's Ir.
  std::vector<std::pair<std::string, std::shared_ptr<HostArray>>> host_variables_;
  mutable std::mutex mutex_;
};

}  // namespace pando
