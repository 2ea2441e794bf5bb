// Memory of tensors as arrays of Python, and arrays of Python as memory of tensors.
#pragma once

#include <memory>

#include "bindings.hpp"
#include "pando/ir/tensor.hpp"

namespace pando::python {

/// The host value as a NumPy array that shares its memory, or None. Dtypes that NumPy lacks come as
/// integers of their bits.
nb::object host_array(const Tensor& tensor);

/// Shares the memory of a C-ordered array of `entries` values and keeps the array alive. Throws
/// ValueError where the bytes do not fit.
std::shared_ptr<HostArray> share_object(nb::handle array, const TensorInfo& info,
                                        std::size_t entries = 1);

}  // namespace pando::python
