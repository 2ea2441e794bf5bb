#include "host_arrays.hpp"
#include "pando/base/error.hpp"

namespace pando::python {
namespace {

using SharedArray = nb::ndarray<nb::device::cpu>;
using ReadArray = nb::ndarray<nb::device::cpu, nb::ro>;

constexpr nb::dlpack::dtype kBFloat16 = {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat),
                                         16, 1};

nb::dlpack::dtype array_dtype(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  const auto bits = static_cast<std::uint8_t>(dtype_bytes(dtype) * 8);
  if (dtype == DType::Bool) return {static_cast<std::uint8_t>(Code::Bool), 8, 1};
  if (is_float8(dtype) || dtype == DType::BFloat16) {
    return {static_cast<std::uint8_t>(Code::UInt), bits, 1};
  }
  if (is_floating_point(dtype)) return {static_cast<std::uint8_t>(Code::Float), bits, 1};
  const Code code = traits(dtype).is_signed ? Code::Int : Code::UInt;
  return {static_cast<std::uint8_t>(code), bits, 1};
}

template <class T>
nb::capsule keeping(T object) {
  return {new T(std::move(object)), [](void* p) noexcept { delete static_cast<T*>(p); }};
}

/// The same memory as a `Wanted` with another dtype of two bytes.
template <class Wanted, class Given>
nb::object reinterpreted(const Given& array, nb::dlpack::dtype dtype) {
  std::vector<std::size_t> shape(array.ndim());
  std::vector<std::int64_t> strides(array.ndim());
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    shape[i] = array.shape(i);
    strides[i] = array.stride(i);
  }
  return nb::cast(
      Wanted(array.data(), shape.size(), shape.data(), keeping(array), strides.data(), dtype),
      nb::rv_policy::reference);
}

nb::object share_bfloat16(const SharedArray& bits) {
  if (bits.dtype() != nb::dtype<std::uint16_t>()) throw TypeError("wanted an array of uint16");
  return reinterpreted<nb::ndarray<nb::array_api>>(bits, kBFloat16);
}

nb::object bfloat16_bits(const ReadArray& given) {
  if (given.dtype() != kBFloat16) return nb::none();
  return reinterpreted<nb::ndarray<nb::numpy, nb::ro>>(given, nb::dtype<std::uint16_t>());
}

}  // namespace

nb::object host_array(const Tensor& tensor) {
  if (tensor.data == nullptr) return nb::none();
  std::vector<std::size_t> shape(tensor.shape().begin(), tensor.shape().end());
  nb::ndarray<nb::numpy> array(tensor.data->data, shape.size(), shape.data(), keeping(tensor.data),
                               nullptr, array_dtype(tensor.dtype()));
  return nb::cast(array, nb::rv_policy::reference);
}

std::shared_ptr<HostArray> share_object(nb::handle array, const TensorInfo& info,
                                        std::size_t entries) {
  const auto typed = nb::cast<nb::ndarray<nb::c_contig, nb::device::cpu, nb::ro>>(array);
  if (typed.nbytes() != entries * info.bytes()) {
    throw ValueError(str_cat("wanted ", entries * info.bytes(), " bytes for ", entries, " times ",
                             info_text(info), "; given ", typed.nbytes()));
  }
  auto data = std::make_shared<HostArray>();
  data->data = static_cast<std::byte*>(const_cast<void*>(typed.data()));
  data->bytes = typed.nbytes();
  data->owner = std::shared_ptr<void>(new nb::object(nb::borrow(array)), [](void* p) {
    const nb::gil_scoped_acquire gil;
    delete static_cast<nb::object*>(p);
  });
  return data;
}

void bind_host_arrays(nb::module_& m) {
  m.def("share_bfloat16", &share_bfloat16, nb::arg("bits"),
        nb::sig("def share_bfloat16(bits: object) -> typing.Any"),
        "The memory of a writable array of uint16 as an object of bfloat16 with the DLPack "
        "protocol.");
  m.def("bfloat16_bits", &bfloat16_bits, nb::arg("given"),
        nb::sig("def bfloat16_bits(given: object) -> typing.Any"),
        "The bits of an object with the DLPack protocol as a read-only array of uint16; None if "
        "its elements are not bfloat16.");
}

}  // namespace pando::python
