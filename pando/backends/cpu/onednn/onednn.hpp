// Running oneDNN primitives without allocation: prebuilt execution contexts, one per running
// thread.
#pragma once

#include <dnnl.hpp>

#include <cstddef>
#include <memory>
#include <vector>

#include "pando/base/dtype.hpp"
#include "pando/base/shape.hpp"

namespace pando::cpu {

/// The process-wide CPU engine of oneDNN.
const dnnl::engine& onednn_engine();

/// float32 tensor with the given strides (elements).
dnnl::memory::desc onednn_f32(const Shape& shape, const Strides& strides);
inline dnnl::memory::desc onednn_f32(const Shape& shape) {
  return onednn_f32(shape, contiguous_strides(shape));
}

/// Sets OpenMP's thread count for the calling thread and restores it on exit: oneDNN reads it both
/// when a primitive is made and when it runs.
class OmpThreads {
 public:
  explicit OmpThreads(int num_threads);
  ~OmpThreads();
  OmpThreads(const OmpThreads&) = delete;
  OmpThreads& operator=(const OmpThreads&) = delete;

 private:
  int before_;
};

/// A primitive and its argument list. run() may be called from several threads at once.
class OnednnPrimitive {
 public:
  struct Argument {
    int id;  // DNNL_ARG_*
    dnnl::memory::desc desc;
  };

  OnednnPrimitive(dnnl::primitive primitive, std::vector<Argument> arguments, int num_threads);
  ~OnednnPrimitive();
  OnednnPrimitive(const OnednnPrimitive&) = delete;
  OnednnPrimitive& operator=(const OnednnPrimitive&) = delete;

  /// `pointers[i]` is the memory of argument i.
  void run(void* const* pointers) const;

 private:
  struct Context;
  struct Pool;

  dnnl::primitive primitive_;
  std::vector<Argument> arguments_;
  int num_threads_;
  std::unique_ptr<Pool> pool_;
};

}  // namespace pando::cpu
