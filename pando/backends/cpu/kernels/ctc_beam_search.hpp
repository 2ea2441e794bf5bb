// The most probable label sequences of connectionist temporal classification.
#pragma once

#include "pando/backends/cpu/kernel_table.hpp"

namespace pando::cpu {

KernelPlan make_ctc_beam_search(const KernelRequest& request);

}  // namespace pando::cpu
