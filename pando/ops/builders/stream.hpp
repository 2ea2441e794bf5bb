// Written by scripts/write_builders.py from the registry: run ./dev generate.
// clang-format off
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pando/ops/built_op.hpp"

namespace pando::ops {

struct DeviceCopyAttributes {
  Required<std::int64_t> source;
  Required<std::int64_t> destination;
};
/// Input 0 moved from virtual device attribute source to virtual device attribute destination.
BuiltOp device_copy(OpBuilder& builder, Tensor* input0, const DeviceCopyAttributes& attributes,
                    std::string_view name = {});

struct HostLoadAttributes {
  Required<std::string> stream;
};
/// The next element of the host-to-device stream whose handle is called attribute stream. Input 0
/// (an Init) gives shape and dtype.
BuiltOp host_load(OpBuilder& builder, Tensor* input0, const HostLoadAttributes& attributes,
                  std::string_view name = {});

struct HostStoreAttributes {
  Required<std::string> stream;
};
/// Appends input 0 to the device-to-host stream whose handle is called attribute stream.
BuiltOp host_store(OpBuilder& builder, Tensor* input0, const HostStoreAttributes& attributes,
                   std::string_view name = {});

/// Input 0 moved between the compute and the io tiles.
BuiltOp io_tile_copy(OpBuilder& builder, Tensor* input0, std::string_view name = {});

struct RemoteCodeLoadAttributes {
  Required<std::string> graph;
  Required<std::string> destination;
};
/// Asks that the code of the graph with id attribute graph be present at attribute destination
/// (executable). Code always is.
BuiltOp remote_code_load(OpBuilder& builder, const RemoteCodeLoadAttributes& attributes,
                         std::string_view name = {});

struct RemoteLoadAttributes {
  Required<std::int64_t> buffer;
};
/// Entry input 1 (int32 or uint32 scalar) of the remote buffer with id attribute buffer. Input 0
/// (an Init) gives shape and dtype.
BuiltOp remote_load(OpBuilder& builder, Tensor* input0, Tensor* input1,
                    const RemoteLoadAttributes& attributes, std::string_view name = {});

struct RemoteLoadInplaceAttributes {
  Required<std::int64_t> buffer;
};
/// Overwrites input 0 with entry input 1 of the remote buffer with id attribute buffer.
BuiltOp remote_load_inplace(OpBuilder& builder, Tensor* input0, Tensor* input1,
                            const RemoteLoadInplaceAttributes& attributes,
                            std::string_view name = {});

struct RemoteStoreAttributes {
  Required<std::int64_t> buffer;
};
/// Writes input 0 to entry input 1 (int32 or uint32 scalar) of the remote buffer with id attribute
/// buffer.
BuiltOp remote_store(OpBuilder& builder, Tensor* input0, Tensor* input1,
                     const RemoteStoreAttributes& attributes, std::string_view name = {});

}  // namespace pando::ops
