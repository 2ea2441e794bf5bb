// How each kind of op becomes steps: kernels, copies, calls and transfers.
#pragma once

#include "pando/compile/called_functions.hpp"
#include "pando/compile/frame_builder.hpp"
#include "pando/compile/fused_step_cache.hpp"

namespace pando {

/// One kernel for all ops of a pointwise step; nothing if no result must be in memory.
void lower_fused(const ExecutionStep& step, FrameBuilder& frame,
                 const FusedStepCache::IsStored& is_stored);
/// An op with a kernel of its own.
void lower_kernel_op(const Op& op, FrameBuilder& frame);
/// An op whose output could be a view of its input, but is not.
void lower_view_copy(const Op& op, FrameBuilder& frame);
/// A call, loop or conditional.
void lower_call(const Op& op, FrameBuilder& frame, CalledFunctions& functions);
/// Loads and stores of the host and of remote rows, prints, calls of the host; false: none of them.
bool lower_transfer(const Op& op, FrameBuilder& frame);
/// An exchange between replicas; false: `op` is none.
bool lower_collective(const Op& op, FrameBuilder& frame);

}  // namespace pando
