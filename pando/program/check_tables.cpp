#include "pando/program/check_tables.hpp"

#include "pando/base/replicas.hpp"

namespace pando::program_check {
namespace {

Extent extent_of(const OperandDesc& desc) {
  require(desc.strides.size() == desc.shape.size(),
          "an operand with other strides than dimensions");
  const auto element = static_cast<std::int64_t>(dtype_bytes(desc.dtype));
  if (checked_bytes(desc.dtype, desc.shape) == 0) return {};
  std::int64_t first = 0, last = 0;
  for (std::size_t d = 0; d < desc.shape.size(); ++d) {
    const std::int64_t steps = desc.shape[d] - 1, stride = desc.strides[d];
    const std::int64_t most = steps == 0 ? kMostBytes : kMostBytes / steps;
    require(stride >= -most && stride <= most, "a stride larger than any memory");
    (stride < 0 ? first : last) += steps * stride;
    require(last - first <= kMostBytes / element, "an operand larger than any memory");
  }
  return {first * element, (last + 1) * element};
}

/// What of a product depends on where it is made.
void check_product_shapes(const KernelSpec& spec, const ProductInput& product,
                          const OperandDesc& value, const OperandDesc& left,
                          const OperandDesc& right) {
  const std::size_t rank = left.shape.size();
  require(rank >= 2 && right.shape.size() == rank && left.shape[rank - 1] == right.shape[rank - 2],
          "a product of matrices that do not fit");
  if (product.place < 0) {
    require(
        rank == 2 && value.shape == Shape{left.shape[0], right.shape[1]} && right.strides[1] == 1,
        "a product of matrices that do not fit");
    return;
  }
  require_index(product.place, spec.outputs, "the place of a product");
  require(spec.products.size() == 1, "a product with a place that is not the only one");
  require(std::equal(left.shape.begin(), left.shape.end() - 2, right.shape.begin()) &&
              left.is_matrix() && right.is_matrix(),
          "a product of matrices that do not fit");
  Shape shape = left.shape;
  shape.back() = right.shape.back();
  const OperandDesc& place = spec.outputs[static_cast<std::size_t>(product.place)];
  require(num_elements(value.shape) == num_elements(shape) && !value.shape.empty() &&
              value.shape.back() == shape.back() && place == value,
          "a product with a place of another shape");
}

void check_product(const KernelSpec& spec, const ProductInput& product) {
  const auto input = [&](std::int32_t index) -> const OperandDesc& {
    require_index(index, spec.inputs, "product operand");
    const OperandDesc& desc = spec.inputs[static_cast<std::size_t>(index)];
    require(desc.dtype == DType::Float32, "a product of other than float32 matrices");
    return desc;
  };
  const OperandDesc &value = input(product.value), &left = input(product.left);
  OperandDesc right = input(product.right);
  if (spec.attributes.has(KernelSpec::kPackedRight)) {
    const auto* shape = std::get_if<Ints>(spec.attributes.find(KernelSpec::kPackedRight));
    require(product.place >= 0 && right.shape.size() == 1 && right.is_contiguous() && shape,
            "a packed matrix that is no row of numbers with a shape");
    checked_bytes(right.dtype, *shape);
    right = OperandDesc::contiguous(right.dtype, *shape);
  }
  const auto loaded = static_cast<std::int32_t>(spec.num_loaded_inputs());
  require(product.value < loaded && product.left >= loaded && product.right >= loaded,
          "a product's matrices among the loaded inputs");
  require(value.is_contiguous(), "a product with gaps");
  check_product_shapes(spec, product, value, left, right);
}

void check_scalar(const KernelSpec& spec) {
  require(2 * spec.products.size() <= spec.inputs.size(), "a product without its matrices");
  for (const ProductInput& product : spec.products) check_product(spec, product);
  const auto& instructions = spec.scalar.instructions;
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    const ScalarInstruction& in = instructions[i];
    const ScalarValue values[] = {in.a, in.b, in.c};
    for (int k = 0; k < scalar_arity(in.op); ++k) {
      const ScalarValue value = values[k];
      require(value >= 0 && value < static_cast<ScalarValue>(i), "a scalar operand from later on");
    }
    if (in.op == ScalarOp::Load) {
      require_index(in.index, spec.inputs, "scalar load of input");
      require(static_cast<std::size_t>(in.index) < spec.num_loaded_inputs(),
              "a scalar load of a matrix");
    }
    if (in.op == ScalarOp::Store) require_index(in.index, spec.outputs, "scalar store to output");
  }
}

void check_memory(const Program& program) {
  require_sizes(program, program.persistent_bytes, "the sizes of persistent memory");
  for (const PersistentTensor& tensor : program.persistent) {
    const std::int64_t bytes = checked_bytes(tensor.dtype, tensor.shape);
    require_index(tensor.device, program.persistent_bytes, "a tensor on device");
    const std::int64_t memory = program.persistent_bytes[static_cast<std::size_t>(tensor.device)];
    const std::int64_t room = tensor.is_staged() ? 0 : bytes;
    require(tensor.offset >= 0 && tensor.offset <= memory && room <= memory - tensor.offset,
            "a tensor outside of persistent memory");
    require(!tensor.is_staged() || tensor.make_function >= 0,
            "a tensor that is restored from what is never made");
  }
  for (const RemoteBufferDesc& buffer : program.remote_buffers) {
    const std::int64_t bytes = checked_bytes(buffer.dtype, buffer.shape);
    require(buffer.entries >= 0 && (bytes == 0 || buffer.entries <= kMostBytes / bytes),
            "the size of a remote buffer");
  }
  for (const RemoteVariable& variable : program.remote_variables) {
    require_index(variable.buffer, program.remote_buffers, "remote buffer");
    const auto& buffer = program.remote_buffers[static_cast<std::size_t>(variable.buffer)];
    require(variable.settings.slot >= 0 && variable.settings.slot < buffer.entries,
            "a slot outside of its remote buffer");
  }
}

}  // namespace

void fail(const std::string& what) { throw Error(str_cat("the program is not valid: ", what)); }

std::int64_t checked_bytes(DType dtype, const Shape& shape) {
  auto bytes = static_cast<std::int64_t>(dtype_bytes(dtype));
  for (const std::int64_t dim : shape) {
    require(dim >= 0, "a negative dimension");
    require(dim == 0 || bytes <= kMostBytes / dim, "a tensor larger than any memory");
    bytes *= dim;
  }
  return bytes;
}

void require_sizes(const Program& program, const std::vector<std::int64_t>& by_device,
                   const char* what) {
  require(static_cast<std::int64_t>(by_device.size()) == program.devices, what);
  for (const std::int64_t bytes : by_device) require(bytes >= 0 && bytes <= kMostBytes, what);
}

std::vector<Extent> extents_of(const KernelSpec& spec) {
  std::vector<Extent> extents;
  extents.reserve(spec.inputs.size() + spec.outputs.size());
  for (const auto* operands : {&spec.inputs, &spec.outputs}) {
    for (const OperandDesc& desc : *operands) extents.push_back(extent_of(desc));
  }
  return extents;
}

void check_tables(const Program& program) {
  require(program.replicas >= 1 && program.replicas <= kMostReplicas && program.devices >= 1,
          "the number of replicas or of devices");
  for (const StreamDesc& stream : program.streams) checked_bytes(stream.dtype, stream.shape);
  check_memory(program);
  for (const HostCallDesc& call : program.host_calls) {
    for (const auto* operands : {&call.inputs, &call.outputs}) {
      for (const OperandDesc& desc : *operands) {
        extent_of(desc);
        require(desc.is_contiguous(), "an operand of a host call with gaps");
      }
    }
  }
  for (const KernelSpec& spec : program.kernels) {
    extents_of(spec);
    check_scalar(spec);
  }
}

}  // namespace pando::program_check
