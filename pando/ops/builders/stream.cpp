// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#include "pando/ops/builders/stream.hpp"

#include <utility>

namespace pando::ops {

BuiltOp device_copy(OpBuilder& builder, Tensor* input0, const DeviceCopyAttributes& attributes,
                    std::string_view name) {
  Attributes given;
  set_attribute(given, "source", attributes.source);
  set_attribute(given, "destination", attributes.destination);
  return build_op(builder, "DeviceCopy", {input0}, std::move(given), name);
}

BuiltOp host_load(OpBuilder& builder, Tensor* input0, const HostLoadAttributes& attributes,
                  std::string_view name) {
  Attributes given;
  set_attribute(given, "stream", attributes.stream);
  return build_op(builder, "HostLoad", {input0}, std::move(given), name);
}

BuiltOp host_store(OpBuilder& builder, Tensor* input0, const HostStoreAttributes& attributes,
                   std::string_view name) {
  Attributes given;
  set_attribute(given, "stream", attributes.stream);
  return build_op(builder, "HostStore", {input0}, std::move(given), name);
}

BuiltOp io_tile_copy(OpBuilder& builder, Tensor* input0, std::string_view name) {
  return build_op(builder, "IoTileCopy", {input0}, {}, name);
}

BuiltOp remote_code_load(OpBuilder& builder, const RemoteCodeLoadAttributes& attributes,
                         std::string_view name) {
  Attributes given;
  set_attribute(given, "graph", attributes.graph);
  set_attribute(given, "destination", attributes.destination);
  return build_op(builder, "RemoteCodeLoad", {}, std::move(given), name);
}

BuiltOp remote_load(OpBuilder& builder, Tensor* input0, Tensor* input1,
                    const RemoteLoadAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "buffer", attributes.buffer);
  return build_op(builder, "RemoteLoad", {input0, input1}, std::move(given), name);
}

BuiltOp remote_load_inplace(OpBuilder& builder, Tensor* input0, Tensor* input1,
                            const RemoteLoadInplaceAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "buffer", attributes.buffer);
  return build_op(builder, "RemoteLoadInplace", {input0, input1}, std::move(given), name);
}

BuiltOp remote_store(OpBuilder& builder, Tensor* input0, Tensor* input1,
                     const RemoteStoreAttributes& attributes, std::string_view name) {
  Attributes given;
  set_attribute(given, "buffer", attributes.buffer);
  return build_op(builder, "RemoteStore", {input0, input1}, std::move(given), name);
}

}  // namespace pando::ops
