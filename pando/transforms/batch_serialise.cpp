#include "pando/transforms/batch_serialise.hpp"

#include <algorithm>
#include <map>

#include "pando/base/error.hpp"
#include "pando/transforms/graph_calls.hpp"

namespace pando {
namespace {

bool contains(const std::vector<Tensor*>& tensors, const Tensor* tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

const SerialHandle* find_handle(const SerialHandles& handles, const Tensor* tensor,
                                bool in_buffer) {
  for (const auto& [key, handle] : handles) {
    if (key == tensor && (handle.stream == nullptr) == in_buffer) return &handle;
  }
  return nullptr;
}

void check_handles(const Graph& graph, const SerialOptions& options) {
  const auto check = [&](const SerialHandles& handles, bool outputs, const char* what) {
    for (const auto& [tensor, handle] : handles) {
      const bool known =
          contains(graph.inputs(), tensor) || (outputs && contains(graph.outputs(), tensor));
      if (!known) {
        throw ValueError(str_cat("batch_serialise: '", tensor->id(), "' is to be ", what,
                                 " but is no input ", outputs ? "or output " : "", "of graph ",
                                 graph.id()));
      }
      if (handle.stream == nullptr && handle.buffer == nullptr) {
        throw ValueError(str_cat("batch_serialise: '", tensor->id(), "' is to be ", what,
                                 " without a stream or a buffer"));
      }
    }
  };
  check(options.loads, false, "loaded");
  check(options.stores, true, "stored");
  if (options.steps < 1 || options.rows < 1) {
    throw ValueError(str_cat("batch_serialise: wanted at least 1 step and 1 row; given ",
                             options.steps, " steps and ", options.rows, " rows"));
  }
  if (options.overlapped && options.steps < 2) {
    throw ValueError("batch_serialise: overlapped execution needs at least 2 steps; given 1");
  }
}

/// The smallest number of entries with which every row and step is inside the buffer.
void grow(const SerialHandle& handle, const SerialOptions& options) {
  if (handle.stream != nullptr) return;
  std::int64_t rows = options.rows;
  if (handle.row == SerialHandle::Row::Relative) rows += handle.row_offset;
  if (handle.row == SerialHandle::Row::First) rows = 1;
  handle.buffer->entries = std::max(handle.buffer->entries, rows * options.steps);
}

/// Tensors of the graph that steps are built in: the result graph or the body of its loop.
struct Place {
  Graph* graph = nullptr;
  std::vector<Tensor*> first_entries;                 // per handle with its own row
  std::unordered_map<const Tensor*, Tensor*> passed;  // original input -> tensor here
};

class Serialiser {
 public:
  Serialiser(Graph& graph, const SerialOptions& options) : original_(graph), options_(options) {
    io_context_ = options.context;
    io_context_.io_tiles = options.io_tiles;
  }

  BatchSerialised run();

 private:
  using Values = std::vector<Tensor*>;

  void add_inputs();
  void find_first_entries();
  Tensor* first_entry(const SerialHandle& handle);
  void run_plain();
  void run_overlapped();

  /// Values of the loaded inputs at a step; `step` is an int32 scalar of the place.
  Values load(const Place& place, Tensor* step);
  Tensor* load_one(const Place& place, const SerialHandle& handle, const Tensor& input,
                   Tensor* step);
  /// Calls the graph; returns what is to be stored, and moves `seed` on.
  Values compute(const Place& place, const Values& loaded, Tensor*& seed);
  void store(const Place& place, const Values& values, Tensor* step);
  Tensor* entry(const Place& place, const SerialHandle& handle, Tensor* step);
  Tensor* step_constant(const Place& place, std::int64_t step) {
    return OpBuilder(*place.graph, io_context_).constant(static_cast<double>(step), DType::Int32);
  }

  /// The place inside `body`, whose carried inputs exist, and the loop inputs for it.
  Place enter(LoopBody& body, std::vector<Tensor*>& inputs) const;

  Graph& original_;
  const SerialOptions& options_;
  OpContext io_context_;
  BatchSerialised result_;
  Place outer_;
  Tensor* row_ = nullptr;
  Tensor* seed_ = nullptr;
  // Handles of one row share its first entry.
  std::map<std::pair<SerialHandle::Row, std::pair<std::int64_t, Graph*>>, std::size_t> rows_;
};

BatchSerialised Serialiser::run() {
  result_.graph = &original_.ir().create_graph(options_.name);
  outer_.graph = result_.graph;
  add_inputs();
  find_first_entries();
  if (options_.overlapped) {
    run_overlapped();
  } else {
    run_plain();
  }
  put_in_sequence(*result_.graph);
  for (const auto& [tensor, handle] : options_.loads) grow(handle, options_);
  for (const auto& [tensor, handle] : options_.stores) grow(handle, options_);
  return result_;
}

void Serialiser::add_inputs() {
  Graph& graph = *result_.graph;
  row_ = graph.add_input(graph.unique_tensor_id("batch_serial_loop_index"), {DType::Int32, {}, {}});
  if (options_.seed != nullptr) {
    seed_ = graph.add_input(graph.unique_tensor_id("batch_serial_random_seed"),
                            {DType::UInt32, {2}, {}});
  }
  for (Tensor* input : original_.inputs()) {
    const bool loaded = std::any_of(options_.loads.begin(), options_.loads.end(),
                                    [&](const auto& load) { return load.first == input; });
    if (loaded || input == options_.seed) continue;
    Tensor* passed =
        graph.add_input(graph.unique_tensor_id(input->name()), input->info, input->is_by_ref());
    result_.passed.emplace_back(input, passed);
    outer_.passed[input] = passed;
  }
}

/// One tensor per distinct row rule, made once before the loop.
void Serialiser::find_first_entries() {
  const auto add = [&](const SerialHandles& handles) {
    for (const auto& [tensor, handle] : handles) {
      if (handle.stream != nullptr) continue;
      const auto [it, is_new] = rows_.try_emplace(
          {handle.row, {handle.row_offset, handle.row_graph}}, outer_.first_entries.size());
      if (is_new) outer_.first_entries.push_back(first_entry(handle));
    }
  };
  add(options_.loads);
  add(options_.stores);
}

Tensor* Serialiser::first_entry(const SerialHandle& handle) {
  OpBuilder builder(*outer_.graph, io_context_);
  const auto constant = [&](std::int64_t value) {
    return builder.constant(static_cast<double>(value), DType::Int32);
  };
  if (handle.row == SerialHandle::Row::First) return constant(0);
  Tensor* row = row_;
  if (handle.row == SerialHandle::Row::Computed) {
    row = call(*outer_.graph, *handle.row_graph, {row_}, io_context_).at(0);
  } else if (handle.row_offset != 0) {
    row = builder.make("Add", {row, constant(handle.row_offset)}, {}, "row");
  }
  return builder.make("Mul", {row, constant(options_.steps)}, {}, "first_entry");
}

Tensor* Serialiser::entry(const Place& place, const SerialHandle& handle, Tensor* step) {
  const std::size_t row = rows_.at({handle.row, {handle.row_offset, handle.row_graph}});
  OpBuilder builder(*place.graph, io_context_);
  return builder.make("Add", {place.first_entries[row], step}, {}, "entry");
}

Tensor* Serialiser::load_one(const Place& place, const SerialHandle& handle, const Tensor& input,
                             Tensor* step) {
  OpBuilder builder(*place.graph, io_context_);
  const TensorInfo& info =
      handle.stream != nullptr ? handle.stream->handle->info : handle.buffer->info;
  Attributes attributes = {
      {"shape", info.shape}, {"dtype", info.dtype}, {"init_type", std::string("undef")}};
  if (!info.meta_shape.empty()) attributes.set("meta_shape", info.meta_shape);
  Tensor* target = builder.make("Init", {}, std::move(attributes), str_cat(input.name(), "_init"));
  if (handle.stream != nullptr) {
    return builder.make("HostLoad", {target}, {{"stream", handle.stream->handle->id()}},
                        str_cat(input.name(), "_hostload"));
  }
  Tensor* loaded =
      builder.make("RemoteLoad", {target, entry(place, handle, step)},
                   {{"buffer", handle.buffer->id}}, str_cat(input.name(), "_remote_loaded"));
  if (handle.gather == nullptr) return loaded;
  return call(*place.graph, *handle.gather, {loaded}, options_.context).at(0);
}

Serialiser::Values Serialiser::load(const Place& place, Tensor* step) {
  Values values;
  for (const auto& [input, handle] : options_.loads) {
    values.push_back(load_one(place, handle, *input, step));
  }
  return values;
}

Serialiser::Values Serialiser::compute(const Place& place, const Values& loaded, Tensor*& seed) {
  std::unordered_map<const Tensor*, Tensor*> values = place.passed;
  for (std::size_t i = 0; i < loaded.size(); ++i) values[options_.loads[i].first] = loaded[i];
  if (options_.seed != nullptr) {
    OpBuilder builder(*place.graph, options_.context);
    const auto split = [&](double number) {
      return builder.make("ModifyRandomSeed", {seed, builder.constant(number, DType::UInt32)});
    };
    values[options_.seed] = split(0);
    seed = split(1);
  }
  Values arguments;
  for (const Tensor* input : original_.inputs()) arguments.push_back(values.at(input));
  const Values outputs = call(*place.graph, original_, arguments, options_.context);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    values.try_emplace(original_.outputs()[i], outputs[i]);
  }
  Values to_store;
  for (const auto& [tensor, handle] : options_.stores) to_store.push_back(values.at(tensor));
  return to_store;
}

void Serialiser::store(const Place& place, const Values& values, Tensor* step) {
  OpBuilder builder(*place.graph, io_context_);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const SerialHandle& handle = options_.stores[i].second;
    if (handle.stream != nullptr) {
      builder.op("HostStore", {values[i]}, {{"stream", handle.stream->handle->id()}});
      continue;
    }
    Tensor* value = values[i];
    if (handle.shard != nullptr) {
      value = call(*place.graph, *handle.shard, {value}, options_.context).at(0);
    }
    builder.op("RemoteStore", {value, entry(place, handle, step)}, {{"buffer", handle.buffer->id}});
  }
}

Place Serialiser::enter(LoopBody& body, std::vector<Tensor*>& inputs) const {
  Place place;
  place.graph = &body.graph();
  for (Tensor* tensor : outer_.first_entries) {
    inputs.push_back(tensor);
    place.first_entries.push_back(body.add_input(*tensor));
  }
  for (const auto& [original, passed] : result_.passed) {
    inputs.push_back(passed);
    place.passed[original] = body.add_input(*passed, original->is_by_ref());
  }
  return place;
}

void Serialiser::run_plain() {
  LoopBody body(original_.ir(), result_.graph->id());
  std::vector<Tensor*> inputs, carried;
  Tensor* seed = nullptr;
  if (seed_ != nullptr) {
    inputs.push_back(seed_);
    seed = body.add_input(*seed_);
  }
  const Place place = enter(body, inputs);
  const Values loaded = load(place, body.iteration());
  store(place, compute(place, loaded, seed), body.iteration());
  if (seed_ != nullptr) carried.push_back(seed);
  put_in_sequence(body.graph());
  body.finish(*result_.graph, options_.steps, inputs, carried, options_.context);
}

void Serialiser::run_overlapped() {
  const std::int64_t steps = options_.steps;
  Tensor* seed = seed_;
  Values loaded = load(outer_, step_constant(outer_, 0));
  Values next = load(outer_, step_constant(outer_, 1));
  Values results = compute(outer_, loaded, seed);
  if (steps > 2) {
    // Iteration i loads step i + 2, computes step i + 1 and stores step i.
    LoopBody body(original_.ir(), result_.graph->id());
    std::vector<Tensor*> inputs, carried;
    const auto carry = [&](const Values& values) {
      Values inner;
      for (Tensor* value : values) {
        inputs.push_back(value);
        inner.push_back(body.add_input(*value));
      }
      return inner;
    };
    const Values inner_loaded = carry(next), inner_results = carry(results);
    Tensor* inner_seed = seed == nullptr ? nullptr : carry({seed})[0];
    const Place place = enter(body, inputs);
    OpBuilder builder(body.graph(), io_context_);
    Tensor* ahead = builder.make("Add", {body.iteration(), step_constant(place, 2)}, {}, "ahead");
    carried = load(place, ahead);
    store(place, inner_results, body.iteration());
    const Values computed = compute(place, inner_loaded, inner_seed);
    carried.insert(carried.end(), computed.begin(), computed.end());
    if (seed != nullptr) carried.push_back(inner_seed);
    const Values last = body.finish(*result_.graph, steps - 2, inputs, carried, options_.context);
    const auto end_of_loads = last.begin() + static_cast<std::ptrdiff_t>(next.size());
    next.assign(last.begin(), end_of_loads);
    results.assign(end_of_loads, end_of_loads + static_cast<std::ptrdiff_t>(results.size()));
    if (seed != nullptr) seed = last.back();
  }
  store(outer_, results, step_constant(outer_, steps - 2));
  results = compute(outer_, next, seed);
  store(outer_, results, step_constant(outer_, steps - 1));
}

}  // namespace

BatchSerialised batch_serialise(Graph& graph, const SerialOptions& options) {
  check_handles(graph, options);
  return Serialiser(graph, options).run();
}

namespace {

/// Where the gradient graph finds a forward tensor: its buffer, or a new one.
SerialHandle buffer_of(Tensor* tensor, const GradGraphInfo& info, SerialOptions& forward) {
  if (const SerialHandle* stored = find_handle(forward.stores, tensor, true)) return *stored;
  if (const SerialHandle* loaded = find_handle(forward.loads, tensor, true)) return *loaded;
  const Graph& graph = *info.forward_graph;
  if (!contains(graph.inputs(), tensor) && !contains(graph.outputs(), tensor)) {
    throw RuntimeFault(str_cat("batch_serialise: the gradient graph ", info.gradient_graph->id(),
                               " needs '", tensor->id(),
                               "', which is neither an input nor an output of graph ", graph.id()));
  }
  SerialHandle handle;
  handle.buffer = &graph.ir().add_remote_buffer(tensor->info, forward.steps * forward.rows);
  forward.stores.emplace_back(tensor, handle);
  return handle;
}

/// The handles whose tensors are inputs or outputs of `graph`.
SerialHandles handles_for(const Graph& graph, const SerialHandles& handles) {
  SerialHandles result;
  std::copy_if(handles.begin(), handles.end(), std::back_inserter(result), [&](const auto& entry) {
    return contains(graph.inputs(), entry.first) || contains(graph.outputs(), entry.first);
  });
  return result;
}

}  // namespace

BatchSerialisedPair batch_serialise(const GradGraphInfo& info, const std::vector<Tensor*>& named,
                                    const SerialOptions& options,
                                    const std::string& gradient_name) {
  Graph& gradient_graph = *info.gradient_graph;
  SerialOptions forward = options, gradient = options;
  forward.loads = handles_for(*info.forward_graph, options.loads);
  forward.stores = handles_for(*info.forward_graph, options.stores);
  gradient.loads = handles_for(gradient_graph, options.loads);
  gradient.stores = handles_for(gradient_graph, options.stores);
  gradient.seed = nullptr;
  gradient.name = gradient_name;
  for (std::size_t i = 0; i < info.expected_inputs.size(); ++i) {
    Tensor* input = gradient_graph.inputs()[i];
    const ExpectedConnection& connection = info.expected_inputs[i];
    const bool given = std::any_of(gradient.loads.begin(), gradient.loads.end(),
                                   [&](const auto& load) { return load.first == input; });
    if (given) continue;
    if (connection.type == ConnectionType::FwdGrad) {
      throw ValueError(str_cat("batch_serialise: the gradient of '",
                               connection.forward_tensor->id(), "' at input '", input->id(),
                               "' has no load handle; wanted one for every output gradient"));
    }
    if (contains(named, connection.forward_tensor)) continue;
    gradient.loads.emplace_back(input, buffer_of(connection.forward_tensor, info, forward));
  }
  BatchSerialisedPair result;
  result.forward = batch_serialise(*info.forward_graph, forward);
  result.gradient = batch_serialise(gradient_graph, gradient);
  for (const auto& entry : forward.stores) {
    if (entry.second.stream == nullptr) result.stored.push_back(entry);
  }
  return result;
}

}  // namespace pando
