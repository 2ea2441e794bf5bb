// Images whose channels lie last between the kernels that want them so.
#pragma once

#include "pando/program/target.hpp"
#include "pando/steps/step_function.hpp"

namespace pando {

/// Lowering gives each kernel images as its op has them, which are (N, C, spatial...) in most
/// programs. Where kernels would reorder them (Target::images_of), this pass lays the images
/// between them out as (N, spatial..., C), together with what other kernels that take either layout
/// read and write on the way, and copies images only where both layouts are needed. It chooses the
/// layout of each kernel so that few bytes are copied.
///
/// A kernel that works with channels last has the attribute `channel_last`, and its images that
/// shape. Of a reduction the attribute `axes` counts those dimensions instead; a Fused kernel has
/// all its operands permuted so.
void put_channels_last(StepProgram& program, Target& target);

}  // namespace pando
