#include <cstring>

#include "pando/base/error.hpp"
#include "pando/base/half.hpp"
#include "pando/base/integers.hpp"
#include "pando/ir/graph.hpp"
#include "pando/ir/op_def.hpp"

namespace pando {
namespace {

template <class T>
void fill(std::byte* data, std::int64_t count, T value) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(data + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
  }
}

void fill_with(std::byte* data, std::int64_t count, DType dtype, double value) {
  switch (dtype) {
    case DType::Bool:
      return fill<std::uint8_t>(data, count, value != 0.0 ? 1 : 0);
    case DType::Int8:
      return fill(data, count, saturated<std::int8_t>(value));
    case DType::Int16:
      return fill(data, count, saturated<std::int16_t>(value));
    case DType::Int32:
      return fill(data, count, saturated<std::int32_t>(value));
    case DType::Int64:
      return fill(data, count, saturated<std::int64_t>(value));
    case DType::UInt8:
      return fill(data, count, saturated<std::uint8_t>(value));
    case DType::UInt16:
      return fill(data, count, saturated<std::uint16_t>(value));
    case DType::UInt32:
      return fill(data, count, saturated<std::uint32_t>(value));
    case DType::UInt64:
      return fill(data, count, saturated<std::uint64_t>(value));
    case DType::Float16:
    case DType::BFloat16:
      return fill(data, count, float_to_half_precision(static_cast<float>(value), dtype));
    case DType::Float32:
      return fill(data, count, static_cast<float>(value));
    case DType::Float64:
      return fill(data, count, value);
    case DType::Float8_143:
    case DType::Float8_152:
      return fill(data, count, float_to_float8(static_cast<float>(value), dtype));
    case DType::Complex64:
    case DType::Complex128:
      break;
  }
  throw InternalError(str_cat("constants of ", dtype, " cannot be made from a number"));
}

}  // namespace

Op& OpBuilder::op(std::string_view kind, const std::vector<Tensor*>& inputs, Attributes attributes,
                  std::string_view name) {
  const OpDef& def = Registry::instance().get(kind);
  std::vector<std::string> names;
  if (!name.empty()) names.emplace_back(name);
  return graph_->create_op(def, inputs, std::move(attributes), context_, {}, names);
}

Tensor* OpBuilder::make(std::string_view kind, const std::vector<Tensor*>& inputs,
                        Attributes attributes, std::string_view name) {
  return op(kind, inputs, std::move(attributes), name).output(0);
}

Tensor* OpBuilder::constant(double value, DType dtype, const Shape& shape) {
  const TensorInfo info{dtype, shape, {}};
  auto data = HostArray::allocate(info.bytes());
  fill_with(data->data, info.num_elements(), dtype, value);
  return graph_->add_constant(graph_->unique_tensor_id("constant"), info, std::move(data));
}

Tensor* OpBuilder::constant(const TensorInfo& info, const void* data) {
  return graph_->add_constant(graph_->unique_tensor_id("constant"), info,
                              HostArray::copy_of(data, info.bytes()));
}

Tensor* OpBuilder::cast(Tensor* t, DType dtype) {
  return t->dtype() == dtype ? t : make("Cast", {t}, {{"dtype", dtype}});
}

Tensor* OpBuilder::reshape(Tensor* t, const Shape& shape) {
  return t->shape() == shape ? t : make("Reshape", {t}, {{"shape", shape}});
}

Tensor* OpBuilder::broadcast_to(Tensor* t, const Shape& shape) {
  return t->shape() == shape ? t : make("BroadcastTo", {t}, {{"shape", shape}});
}

Tensor* OpBuilder::reduce_to(Tensor* t, const Shape& shape) {
  if (t->shape() == shape) return t;
  const std::size_t lead = t->shape().size() - shape.size();
  Ints axes;
  for (std::size_t i = 0; i < t->shape().size(); ++i) {
    if (i < lead || (shape[i - lead] == 1 && t->shape()[i] != 1)) {
      axes.push_back(static_cast<std::int64_t>(i));
    }
  }
  Tensor* reduced =
      axes.empty() ? t : make("ReduceSum", {t}, {{"axes", axes}, {"keepdims", false}});
  return reshape(reduced, shape);
}

}  // namespace pando
