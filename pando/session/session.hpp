// Compiling and running in one: what front ends use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pando/ir/graph.hpp"
#include "pando/session/compiler.hpp"
#include "pando/session/runner.hpp"
#include "pando/session/session_options.hpp"

namespace pando {

/// Compiles an Ir (which it clones), or reads what was compiled of an equal one earlier, and is the
/// runner of that with the host arrays of the Ir's variables.
class Session : public Runner {
 public:
  /// Throws what LocalReplicas, Compiler and Runner do.
  explicit Session(const Ir& ir, const SessionOptions& options = {});

  const CompileReport& compile_report() const { return report_; }
  const Program& program() const { return executable().program(); }
  std::int64_t num_replicas() const { return program().replicas; }
  const std::vector<StreamDesc>& input_streams() const { return executable().input_streams(); }
  const std::vector<StreamDesc>& output_streams() const { return executable().output_streams(); }
  std::vector<std::int64_t> state_tensors() const { return executable().state_tensors(); }
  std::uint64_t fingerprint() const { return executable().fingerprint(); }
  /// One line per instruction.
  std::string disassembly() const;

 private:
  struct Parts;

  static Parts compile(const Ir& ir, const SessionOptions& options);
  Session(Parts parts, const Ir& ir, const RunnerOptions& options);

  CompileReport report_;
};

}  // namespace pando
