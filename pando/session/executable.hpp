// What compiling an Ir gives: all that running it needs but the values of its variables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pando/ir/graph.hpp"
#include "pando/program/program.hpp"

namespace pando {

/// What a tensor of one replica takes, without gaps.
inline std::size_t value_bytes(DType dtype, const Shape& shape) {
  return static_cast<std::size_t>(num_elements(shape)) * dtype_bytes(dtype);
}

/// The value of a constant in persistent memory.
struct ProgramConstant {
  std::size_t persistent = 0;  // index into Program::persistent
  std::shared_ptr<HostArray> data;
};

/// How a variable lies in its host array and on the replicas.
struct VariableLayout {
  std::string_view id;  // of the tensor in the main graph of the Ir; the program has the text
  VariableSettings settings;
  std::size_t bytes = 0;            // of one entry of the host array
  std::size_t part_bytes = 0;       // of what one replica keeps
  std::int64_t remote_buffer = -1;  // index; -1: persistent tensor `persistent`
  std::size_t persistent = 0;
};

/// The constants of an Ir that have values; of equal ids that of the first graph.
std::unordered_map<std::string, std::shared_ptr<HostArray>> constants_by_id(const Ir& ir);

/// Never changes: any number of runners may run it, on any threads, also at the same time.
class Executable {
 public:
  /// `target`: the identity of the target that it was compiled for.
  Executable(Program program, std::vector<ProgramConstant> constants, std::string target);
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  Executable(Executable&&) = default;
  Executable& operator=(Executable&&) = default;

  const Program& program() const { return program_; }
  const std::vector<ProgramConstant>& constants() const { return constants_; }
  const std::string& target() const { return target_; }
  const std::vector<VariableLayout>& variables() const { return variables_; }
  /// Streams in use, in a fixed order.
  const std::vector<StreamDesc>& input_streams() const { return input_streams_; }
  const std::vector<StreamDesc>& output_streams() const { return output_streams_; }
  /// Indices of Program::persistent without constants and prepared tensors.
  std::vector<std::int64_t> state_tensors() const;
  /// Checksum of the program, without where its ops were made.
  std::uint64_t fingerprint() const;

 private:
  Program program_;
  std::vector<ProgramConstant> constants_;
  std::string target_;
  std::vector<VariableLayout> variables_;
  std::vector<StreamDesc> input_streams_;
  std::vector<StreamDesc> output_streams_;
};

}  // namespace pando
