// Arrays of Python while the core reads or writes them.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "pando/base/error.hpp"
#include "pando/session/session.hpp"

namespace pando::python {

/// The bytes of an array, held while the object lives.
class ArrayBytes {
 public:
  /// `strided`: elements need not be in C order without gaps.
  ArrayBytes(nb::handle array, bool writable, bool strided = false) {
    const int flags =
        (strided ? PyBUF_STRIDES : PyBUF_C_CONTIGUOUS) | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(array.ptr(), &view_, flags) != 0) throw nb::python_error();
  }
  ~ArrayBytes() { PyBuffer_Release(&view_); }
  ArrayBytes(ArrayBytes&& other) noexcept : view_(std::exchange(other.view_, {})) {}
  ArrayBytes& operator=(ArrayBytes&&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(view_.buf); }
  std::size_t size() const { return static_cast<std::size_t>(view_.len); }
  bool is_contiguous() const { return PyBuffer_IsContiguous(&view_, 'C') != 0; }
  const Py_buffer& view() const { return view_; }

 private:
  Py_buffer view_ = {};
};

/// The arrays of a run, held while the object lives whatever becomes of the list: `arrays[i]` has
/// the transfers of stream i to or from the local replicas: of shape (transfers, replicas, *shape
/// of the stream), where either may be missing that is 1. Elements are in C order; what lies
/// between them is any.
class StreamArrays {
 public:
  StreamArrays(const nb::list& arrays, const std::vector<StreamDesc>& streams,
               std::int64_t replicas, bool writable) {
    if (arrays.size() != streams.size()) {
      throw ValueError(str_cat("wanted ", streams.size(), " arrays; given ", arrays.size()));
    }
    held_.reserve(streams.size());
    buffers_.reserve(streams.size());
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (nb::isinstance<TransferQueue>(arrays[i])) {
        buffers_.push_back({.queue = nb::cast<std::shared_ptr<TransferQueue>>(arrays[i])});
        continue;
      }
      const ArrayBytes& bytes = held_.emplace_back(arrays[i], writable, true);
      if (!bytes.is_contiguous()) {
        buffers_.push_back(with_strides(bytes, streams[i], replicas));
        continue;
      }
      const std::int64_t transfer = replicas * streams[i].bytes();
      const auto given = static_cast<std::int64_t>(bytes.size());
      buffers_.push_back({bytes.data(), transfer == 0 ? 1 : given / transfer});
    }
  }
  const std::vector<StreamBuffer>& buffers() const { return buffers_; }

 private:
  /// Throws ValueError unless its elements are in C order, behind axes for transfers and replicas.
  static StreamBuffer with_strides(const ArrayBytes& array, const StreamDesc& stream,
                                   std::int64_t replicas) {
    const Py_buffer& view = array.view();
    const auto rank = static_cast<int>(stream.shape.size());
    const int leading = view.ndim - rank;
    const bool has_replicas = leading == 2 || replicas > 1;
    auto dense = static_cast<std::int64_t>(dtype_bytes(stream.dtype));
    bool fits = leading >= 1 && leading <= 2 && view.itemsize == dense &&
                (!has_replicas || view.shape[leading - 1] == replicas);
    for (int axis = rank; fits && axis-- > 0;) {
      const std::int64_t size = stream.shape[static_cast<std::size_t>(axis)];
      fits = view.shape[leading + axis] == size &&
             (size == 1 || view.strides[leading + axis] == dense);
      dense *= size;
    }
    if (!fits) {
      throw ValueError(str_cat("the array for stream '", stream.id,
                               "': wanted axes for transfers and ", replicas,
                               " replicas before elements of shape ", shape_text(stream.shape),
                               " in C order; make it contiguous (numpy.ascontiguousarray)"));
    }
    StreamBuffer buffer{.data = array.data()};
    if (has_replicas) buffer.replica_stride = view.strides[leading - 1];
    if (leading == 2 || !has_replicas) {
      buffer.count = view.shape[0];
      buffer.transfer_stride = view.strides[0];
    }
    return buffer;
  }

  std::vector<ArrayBytes> held_;
  std::vector<StreamBuffer> buffers_;
};

}  // namespace pando::python
