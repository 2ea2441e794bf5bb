#include "pando/session/session.hpp"

#include <chrono>

#include "pando/base/replicas.hpp"
#include "pando/compile/device_streams.hpp"
#include "pando/program/disassembly.hpp"

namespace pando {

struct Session::Parts {
  std::chrono::steady_clock::time_point start;
  LocalReplicas replicas;
  CompileReport report;
  std::shared_ptr<const Executable> executable;
};

Session::Parts Session::compile(const Ir& ir, const SessionOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  check_replicas(ir.replication_factor);
  const auto devices = static_cast<std::int64_t>(devices_of(ir).size());
  Parts parts{start, LocalReplicas(options, ir.replication_factor, devices), {}, nullptr};
  CompilerOptions compiling = options;
  compiling.prefetch_bytes = options.remote.uses_files() ? options.remote.prefetch_bytes : 0;
  const Compiler compiler(parts.replicas.target(0), std::move(compiling));
  parts.executable = compiler.compile(ir, parts.report);
  return parts;
}

Session::Session(const Ir& ir, const SessionOptions& options)
    : Session(compile(ir, options), ir, options) {}

Session::Session(Parts parts, const Ir& ir, const RunnerOptions& options)
    : Runner(parts.executable, host_arrays_of(*parts.executable, ir), std::move(parts.replicas),
             options),
      report_(std::move(parts.report)) {
  report_.compile_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - parts.start).count();
}

std::string Session::disassembly() const { return disassemble(program()); }

}  // namespace pando
