// Ir -> executable.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pando/session/executable.hpp"
#include "pando/session/session_options.hpp"

namespace pando {

class Target;
struct MemoryExcess;

struct CompileReport {
  double compile_seconds = 0;
  std::vector<std::pair<std::string, double>> stages;  // compile stage, seconds
  std::string cache_file;  // that the program was read from; empty: it was compiled
};

/// Compiles for a target, without a device.
class Compiler {
 public:
  Compiler(std::shared_ptr<Target> target, CompilerOptions options);

  /// Compiles a clone of the Ir, or reads what was compiled of an equal one earlier. Throws Error
  /// (ambiguity, invalid graph, nothing to run), OutOfMemory, NotSupported.
  std::shared_ptr<const Executable> compile(const Ir& ir, CompileReport& report) const;

 private:
  Executable build(const Ir& ir, CompileReport& report) const;
  Executable build_or_load(const Ir& ir, CompileReport& report) const;
  /// By how much the program, or a device of it, is larger than its limit, and what is alive then.
  /// 0 bytes: it fits.
  MemoryExcess excess_of(const Program& program) const;
  [[noreturn]] void refuse(const Program& program) const;

  std::shared_ptr<Target> target_;
  CompilerOptions options_;
};

}  // namespace pando
