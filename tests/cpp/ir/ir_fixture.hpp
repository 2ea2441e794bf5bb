// Programs for the tests of everything that reads, writes and rewrites whole Irs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "pando/base/error.hpp"
#include "pando/ir/graph.hpp"
#include "pando/ops/ops.hpp"
#include "tests/cpp/error_of.hpp"

namespace pando::testing {

inline Tensor* variable(Graph& main, const std::string& name, const std::vector<float>& values,
                        const Shape& shape) {
  return main.add_variable(main.unique_tensor_id(name), {DType::Float32, shape, {}},
                           HostArray::copy_of(values.data(), values.size() * sizeof(float)));
}

inline void store(Graph& main, Tensor* value) {
  Tensor* handle = main.add_stream(main.unique_tensor_id("result"), value->info);
  main.ir().add_stream(*handle, StreamDirection::DeviceToHost);
  OpBuilder(main, {}).op("HostStore", {value}, {{"stream", handle->id()}});
}

/// Uses every feature of the text form: streams, a remote buffer, a call by reference, an input
/// that is not connected, order, contexts, locations, all attribute types that ops have, odd names.
inline std::unique_ptr<Ir> program_with_everything() {
  op_registry();
  auto ir = std::make_unique<Ir>();
  Graph& main = ir->main_graph();
  const TensorInfo info{DType::Float32, {2, 2}, {}};
  Graph& update = ir->create_graph("outer.<locals>.update \"quoted\"");
  Tensor* by_ref = update.add_input(update.unique_tensor_id("w"), info, true);
  Tensor* step = update.add_input(update.unique_tensor_id("step\\n\n"), info);
  OpBuilder in_update(update, {});
  in_update.op("AddLhsInplace", {by_ref, step});
  update.differentiable = false;

  Tensor* handle = main.add_stream(main.unique_tensor_id("in"), info);
  ir->add_stream(*handle, StreamDirection::HostToDevice);
  ir->add_remote_buffer(info, 3);
  OpContext context{.name = "scope/op", .location = {"dir/model.py", 12, "build"}};
  context.device = std::nullopt;
  OpBuilder ops(main, context);
  Tensor* init =
      ops.make("Init", {},
               {{"shape", info.shape}, {"dtype", info.dtype}, {"init_type", std::string("undef")}});
  Op& load = ops.op("HostLoad", {init}, {{"stream", handle->id()}});
  Tensor* w = variable(main, "w", {1.5f, -2.0f, 0.0f, 1e-30f}, {2, 2});
  Tensor* sum = ops.make("ReduceSum", {load.output(0)}, {{"axes", Ints{1}}, {"keepdims", true}});
  Tensor* half = ops.constant(0.1, DType::Float16);
  Tensor* cast = ops.make("Cast", {half}, {{"dtype", DType::Float32}});
  Tensor* scaled = ops.make("Mul", {ops.make("Add", {sum, w}), cast});
  Op& call = main.create_op(op_registry().get("Call"), {w, scaled}, {{"modified", Ints{0}}},
                            context, {&update});
  call.run_after(load);
  context.device = 3;
  context.io_tiles = true;
  context.execution = ExecutionContext::WeightsToHost;
  context.phase = "the \"last\"";
  context.is_repeated = true;
  OpBuilder to_host(main, context);
  Tensor* offset = to_host.constant(1, DType::Int32);
  to_host.op("RemoteStore", {w, offset}, {{"buffer", std::int64_t{1}}});
  store(main, scaled);
  main.mark_output(scaled);
  return ir;
}

/// Stores the sum of row 1 of a remote buffer of (4) float32, which it adds one to.
inline std::unique_ptr<Ir> row_program() {
  op_registry();
  auto ir = std::make_unique<Ir>();
  Graph& main = ir->main_graph();
  const TensorInfo info{DType::Float32, {4}, {}};
  const Attributes buffer = {{"buffer", ir->add_remote_buffer(info, 3).id}};
  OpBuilder ops(main, {});
  Tensor* init =
      ops.make("Init", {},
               {{"shape", info.shape}, {"dtype", info.dtype}, {"init_type", std::string("undef")}});
  Tensor* row_number = ops.constant(1.0, DType::Int32);
  Tensor* row = ops.make("RemoteLoad", {init, row_number}, buffer);
  Tensor* sum =
      ops.make("AddLhsInplace", {row, variable(main, "one", {1.0f, 1.0f, 1.0f, 1.0f}, {4})});
  ops.op("RemoteStore", {sum, row_number}, buffer);
  store(main, ops.make("ReduceSum", {sum}, {{"axes", Ints{0}}, {"keepdims", false}}));
  return ir;
}

/// A main graph of `count` random ops over float32 and int32 values with constants, views, equal
/// subexpressions and in-place writes; stores several results.
inline std::unique_ptr<Ir> random_program(unsigned seed, int count) {
  op_registry();
  std::mt19937 random(seed);
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  auto ir = std::make_unique<Ir>();
  Graph& main = ir->main_graph();
  OpBuilder ops(main, {});
  std::vector<Tensor*> pool;  // all (3, 4) float32
  for (int i = 0; i < 2; ++i) {
    std::vector<float> values(12);
    for (float& value : values) value = static_cast<float>(random() % 17) / 8.0f - 1.0f;
    pool.push_back(variable(main, "v", values, {3, 4}));
    pool.push_back(ops.constant({DType::Float32, {3, 4}, {}}, values.data()));
    pool.push_back(ops.broadcast_to(ops.constant(values[0], DType::Float32), {3, 4}));
  }
  const char* binary[] = {"Add", "Sub", "Mul", "Max"};
  const char* unary[] = {"Neg", "Tanh", "Relu", "Sqrt", "Identity"};
  for (int i = 0; i < count; ++i) {
    Tensor* a = pool[pick(pool.size())];
    Tensor* b = pool[pick(pool.size())];
    switch (pick(6)) {
      case 0:
        pool.push_back(ops.make(unary[pick(5)], {ops.make("Abs", {a})}));
        break;
      case 1: {
        const auto transposed = ops.make("Transpose", {a}, {{"permutation", Ints{1, 0}}});
        pool.push_back(ops.reshape(transposed, {3, 4}));
        break;
      }
      case 2:
        pool.push_back(ops.cast(ops.cast(a, DType::Float16), DType::Float32));
        break;
      case 3: {
        Tensor* copy = ops.make("Add", {a, b});
        pool.push_back(copy);
        pool.push_back(ops.make("AddLhsInplace", {copy, b}));
        break;
      }
      case 4: {
        Tensor* sum = ops.make("ReduceSum", {a}, {{"axes", Ints{1}}, {"keepdims", true}});
        pool.push_back(ops.make("Tanh", {ops.make("Sub", {b, sum})}));
        break;
      }
      default:
        pool.push_back(ops.make(binary[pick(4)], {a, b}));
        pool.push_back(ops.make("Add", {a, b}));
        break;
    }
  }
  for (int i = 0; i < 3; ++i) store(main, pool[pool.size() - 1 - pick(6)]);
  return ir;
}

}  // namespace pando::testing
