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

/// Whether the processor has instructions for products of `dtype` (float32, float16, bfloat16)
/// that oneDNN may use.
bool onednn_multiplies(DType dtype);

/// Tensor of float32, float16 or bfloat16 with the given strides (elements).
dnnl::memory::desc onednn_desc(DType dtype, const Shape& shape, const Strides& strides);
inline dnnl::memory::desc onednn_f32(const Shape& shape, const Strides& strides) {
  return onednn_desc(DType::Float32, shape, strides);
}
inline dnnl::memory::desc onednn_f32(const Shape& shape) {
  return onednn_f32(shape, contiguous_strides(shape));
}

/// While it lives, oneDNN runs and prepares primitives on the calling thread alone: parts of a
/// kernel are spread over our own threads.
class SingleThreaded {
 public:
  SingleThreaded();
  ~SingleThreaded();
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;

 private:
  int before_;
};

/// A primitive for one thread and its argument list. run() may be called from several threads at
/// once.
class OnednnPrimitive {
 public:
  struct Argument {
    int id;  // DNNL_ARG_*
    dnnl::memory::desc desc;
  };

  OnednnPrimitive(dnnl::primitive primitive, std::vector<Argument> arguments);
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
  std::unique_ptr<Pool> pool_;
};

/// A copy from one layout to another. Arguments: source, destination. Throws dnnl::error.
std::unique_ptr<OnednnPrimitive> onednn_reorder(const dnnl::memory::desc& from,
                                                const dnnl::memory::desc& to);

}  // namespace pando::cpu
