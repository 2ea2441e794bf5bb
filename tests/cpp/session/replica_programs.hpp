// Programs for the tests of sessions with several replicas.
#pragma once

#include <memory>
#include <vector>

#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {

using Floats32 = std::vector<float>;

inline Tensor* load(Graph& main, const TensorInfo& info) {
  Tensor* handle = main.add_stream(main.unique_tensor_id("in"), info);
  main.ir().add_stream(*handle, StreamDirection::HostToDevice);
  OpBuilder ops(main, {});
  Tensor* init = ops.make(
      "Init", {},
      {{"shape", Ints(info.shape)}, {"dtype", info.dtype}, {"init_type", std::string("undef")}});
  return ops.make("HostLoad", {init}, {{"stream", handle->id()}});
}

inline Attributes group(std::int64_t size) {
  return {{"stride", std::int64_t{1}}, {"group_size", size}};
}

/// w -= mean over the replicas of (w - x), with w sharded over all in a remote buffer; stores w.
inline std::unique_ptr<Ir> sharded_program(std::int64_t replicas, const Floats32& value) {
  op_registry();
  auto ir = std::make_unique<Ir>();
  ir->replication_factor = replicas;
  Graph& main = ir->main_graph();
  const auto count = static_cast<std::int64_t>(value.size());
  const std::int64_t part = (count + replicas - 1) / replicas;
  ir->add_remote_buffer({DType::Float32, {part}, {count}}, 2);
  Tensor* w = variable(main, "w", value, {count});
  w->set_settings({.remote_buffer = 1, .slot = 1, .shard_over = replicas});
  OpBuilder ops(main, {});
  Tensor* x = load(main, {DType::Float32, {count}, {}});
  Tensor* init = ops.make("Init", {},
                          {{"shape", Ints{part}},
                           {"dtype", DType::Float32},
                           {"init_type", std::string("undef")},
                           {"meta_shape", Ints{count}}});
  Tensor* slot = ops.constant(1, DType::Int32);
  Tensor* shard = ops.make("RemoteLoad", {init, slot}, {{"buffer", std::int64_t{1}}});
  Attributes gather = group(replicas);
  gather.set("shape", Ints{count});
  Tensor* whole = ops.make("ReplicatedAllGather", {shard}, gather);
  Attributes scatter = group(replicas);
  scatter.set("op", std::string("mean"));
  scatter.set("sharded", true);
  Tensor* step = ops.make("ReplicatedReduceScatter", {ops.make("Sub", {whole, x})}, scatter);
  ops.op("RemoteStore", {ops.make("Sub", {shard, step}), slot}, {{"buffer", std::int64_t{1}}});
  store(main, whole);
  return ir;
}

/// Each replica loads row `offset`, which the host gives it, of a buffer of 3, and all add up.
inline std::unique_ptr<Ir> lookup_program(std::int64_t replicas) {
  op_registry();
  auto ir = std::make_unique<Ir>();
  ir->replication_factor = replicas;
  Graph& main = ir->main_graph();
  const TensorInfo info{DType::Float32, {2}, {}};
  ir->add_remote_buffer(info, 3);
  Tensor* offset = load(main, {DType::Int32, {}, {}});
  OpBuilder ops(main, {});
  Tensor* init = ops.make(
      "Init", {},
      {{"shape", Ints{2}}, {"dtype", DType::Float32}, {"init_type", std::string("undef")}});
  Tensor* value = ops.make("RemoteLoad", {init, offset}, {{"buffer", std::int64_t{1}}});
  Attributes reduce = group(replicas);
  reduce.set("op", std::string("add"));
  store(main, ops.make("ReplicatedAllReduce", {value}, reduce));
  return ir;
}

}  // namespace pando::testing
