// What oneDNN would run for a convolution.
#pragma once

#include <array>
#include <cstddef>
#include <dnnl.hpp>

#include "pando/backends/cpu/kernels/conv.hpp"

namespace pando::cpu {

/// The place of the weights among the operands of a kernel: two inputs, one output.
constexpr std::size_t conv_weights_operand(ConvPass pass) {
  return pass == ConvPass::Forward ? 1 : pass == ConvPass::Data ? 0 : 2;
}

/// A primitive, with operands in the order of the kernel.
struct ConvPrimitive {
  dnnl::primitive_desc desc;
  std::array<dnnl::memory::desc, 3> plain;   // as the program has them
  std::array<dnnl::memory::desc, 3> wanted;  // as the primitive wants them
  std::array<int, 3> arguments;              // DNNL_ARG_*
};

/// The primitive for `problem`, whose images lie in those of `whole`. `weights`: the layout they
/// have; left to oneDNN without. Throws dnnl::error.
ConvPrimitive describe_conv(ConvPass pass, const ConvProblem& problem, const ConvProblem& whole,
                            const dnnl::memory::desc* weights = nullptr);

/// Bytes of its scratchpad. More than oneDNN asks for where it writes more: kernels of 1x1 with
/// strides gather pixels of fewer channels than a vector has in whole vectors (2023.2.0).
std::size_t scratchpad_bytes(const ConvPrimitive& primitive, const ConvProblem& problem);

/// Whether it is oneDNN's reference, plain loops that are far slower than all others.
bool is_reference(const ConvPrimitive& primitive);

/// Whether the primitive, which has its images with channels last, is one written for them.
bool is_fast_with_channels_last(const ConvPrimitive& primitive);

}  // namespace pando::cpu
