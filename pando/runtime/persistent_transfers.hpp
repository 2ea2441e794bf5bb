// Persistent tensors (variables and constants), read and written between runs.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "pando/program/program.hpp"
#include "pando/runtime/program_memory.hpp"
#include "pando/runtime/virtual_device.hpp"

namespace pando {

/// Indices are those of Program::persistent. All is done when a call returns, or throws what the
/// device or `check` does. What is prepared of a tensor is made again when the tensor is written.
class PersistentTransfers {
 public:
  /// Keeps references to all of them. `run`: runs a function of the program.
  PersistentTransfers(const Program& program, const ProgramMemory& memory,
                      const std::vector<std::unique_ptr<VirtualDevice>>& devices,
                      std::function<void(int)> run)
      : program_(program), memory_(memory), devices_(devices), run_(std::move(run)) {}

  /// The first `bytes` of the tensor.
  void read(std::size_t index, std::byte* to, std::size_t bytes, const StopCheck& check) const;
  /// The rest of the tensor becomes zero.
  void write(std::size_t index, const std::byte* from, std::size_t bytes,
             const StopCheck& check) const;
  /// Makes all again that is prepared of tensors which functions can write.
  void prepare_again() const;
  /// Give back what the tensor, or all frames, take: nothing reads them any more.
  void discard(std::size_t index) const;
  void discard_frames() const { memory_.discard_frames(); }

 private:
  /// Where the tensor lies, on the device whose queue `ask` is called with.
  void move(std::size_t index, const StopCheck& check,
            const std::function<void(Queue&, std::byte*)>& ask) const;

  const Program& program_;
  const ProgramMemory& memory_;
  const std::vector<std::unique_ptr<VirtualDevice>>& devices_;
  std::function<void(int)> run_;
};

}  // namespace pando
