#include "tests/oracle/oracle.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "pando/base/error.hpp"
#include "pando/ir/op_def.hpp"
#include "tests/oracle/host_functions.hpp"
#include "tests/oracle/rules.hpp"
#include "tests/oracle/sums.hpp"

namespace pando::oracle {

namespace {

std::vector<std::int64_t> all_positions(std::int64_t count) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(count));
  std::iota(positions.begin(), positions.end(), std::int64_t{0});
  return positions;
}

Array array_of(const Tensor& tensor) {
  Array array(tensor.dtype(), tensor.shape());
  array.data = decode(tensor.data->data, tensor.dtype(), tensor.info.num_elements());
  return array;
}

}  // namespace

Oracle::Oracle(const Ir& ir, OracleOptions options) : ir_(ir), options_(std::move(options)) {
  for (const Tensor* tensor : ir.main_graph().tensors().all()) {
    if (tensor->kind() == TensorKind::Variable) variables_[tensor] = fresh(array_of(*tensor));
  }
  for (const auto& buffer : ir.remote_buffers()) {
    const auto count = static_cast<std::size_t>(buffer->info.num_elements());
    remote_buffers_[buffer->id].assign(static_cast<std::size_t>(buffer->entries),
                                       std::vector<Number>(count, 0.0L));
  }
}

Oracle::~Oracle() = default;

Oracle::Value Oracle::fresh(Array array) {
  Value value;
  value.dtype = array.dtype;
  value.shape = array.shape;
  value.positions = all_positions(array.size());
  value.storage = std::make_shared<std::vector<Number>>(std::move(array.data));
  return value;
}

Array Oracle::contents(const Value& value) {
  Array array(value.dtype, value.shape);
  for (std::size_t i = 0; i < value.positions.size(); ++i) {
    array.data[i] = (*value.storage)[static_cast<std::size_t>(value.positions[i])];
  }
  return array;
}

void Oracle::overwrite(const Value& target, const std::vector<Number>& numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    (*target.storage)[static_cast<std::size_t>(target.positions[i])] = numbers[i];
  }
}

std::vector<Number> Oracle::variable(const Tensor& tensor) const {
  return contents(variables_.at(&tensor)).data;
}

void Oracle::run(int times) {
  cursors_.clear();
  for (int i = 0; i < times; ++i) {
    std::vector<Value> arguments;
    run_graph(ir_.main_graph(), arguments);
  }
}

std::vector<Oracle::Value> Oracle::run_graph(const Graph& graph, std::vector<Value>& arguments) {
  Frame frame;
  for (std::size_t i = 0; i < arguments.size(); ++i) frame[graph.inputs()[i]] = arguments[i];
  for (const Op* op : graph.ops()) run_op(*op, frame);
  std::vector<Value> results;
  for (const Tensor* output : graph.outputs()) {
    results.push_back(fresh(contents(lookup(output, frame))));
  }
  return results;
}

Oracle::Value Oracle::lookup(const Tensor* tensor, Frame& frame) const {
  const auto it = frame.find(tensor);
  if (it != frame.end()) return it->second;
  if (tensor->kind() == TensorKind::Variable) return variables_.at(tensor);
  if (tensor->kind() != TensorKind::Constant) {
    throw InternalError(str_cat("the reference has no value for ", tensor->id()));
  }
  return frame[tensor] = fresh(array_of(*tensor));
}

void Oracle::round(Array& array) const {
  const bool is_float = is_floating_point(array.dtype) && !is_float8(array.dtype);
  if (is_float && !options_.round_floats) return;
  for (Number& number : array.data) number = rounded(number, array.dtype);
}

void Oracle::bind_output(const Op& op, int index, Array result, Frame& frame) const {
  round(result);
  const int alias = op.def().output_alias ? op.def().output_alias(op, index) : -1;
  if (alias < 0) {
    frame[op.output(index)] = fresh(std::move(result));
    return;
  }
  const Value target = lookup(op.input(alias), frame);
  overwrite(target, result.data);
  frame[op.output(index)] = target;
}

const std::map<std::string, Oracle::Runner, std::less<>>& Oracle::runners() {
  static const std::map<std::string, Runner, std::less<>> table = {
      {"Call", &Oracle::run_call},
      {"Loop", &Oracle::run_loop},
      {"While", &Oracle::run_loop},
      {"If", &Oracle::run_if},
      {"HostLoad", &Oracle::run_host_transfer},
      {"HostStore", &Oracle::run_host_transfer},
      {"HostCall", &Oracle::run_host_call},
      {"RemoteLoad", &Oracle::run_remote_transfer},
      {"RemoteLoadInplace", &Oracle::run_remote_transfer},
      {"RemoteStore", &Oracle::run_remote_transfer},
      {"RemoteCodeLoad", nullptr},
      {"ReplicatedAllReduce", &Oracle::run_collective},
      {"ReplicatedAllReduceInplace", &Oracle::run_collective},
      {"TensorParallelAllReduce", &Oracle::run_collective},
      {"ReplicatedReduceScatter", &Oracle::run_collective},
      {"ReplicatedAllGather", &Oracle::run_collective},
  };
  return table;
}

bool Oracle::has_rule(std::string_view kind) {
  const std::string name(kind);
  return runners().contains(kind) || rule_table().find(name) != nullptr ||
         rule_table().find_rearrangement(name) != nullptr;
}

void Oracle::run_op(const Op& op, Frame& frame) {
  const std::string& kind = op.kind_name();
  if (const auto runner = runners().find(kind); runner != runners().end()) {
    if (runner->second != nullptr) (this->*runner->second)(op, frame);
  } else if (const Rearrangement* rearrange = rule_table().find_rearrangement(kind)) {
    run_rearrangement(op, *rearrange, frame);
  } else if (const Rule* rule = rule_table().find(kind)) {
    run_rule(op, *rule, frame);
  } else {
    throw NotSupported(str_cat("the reference has no rule for ", describe(op)));
  }
}

void Oracle::run_rearrangement(const Op& op, const Rearrangement& rearrange, Frame& frame) {
  const Value input = lookup(op.input(0), frame);
  Value output = input;
  output.shape = op.output(0)->shape();
  output.positions.clear();
  for (std::int64_t source : rearrange(op)) {
    output.positions.push_back(input.positions[static_cast<std::size_t>(source)]);
  }
  frame[op.output(0)] = op.def().output_alias ? output : fresh(contents(output));
}

namespace {

/// The inputs that an op writes without giving them as an output.
std::vector<int> hidden_writes(const Op& op) {
  std::vector<int> written;
  for (int k : op.modified_inputs()) {
    bool is_output = false;
    for (int i = 0; i < op.num_outputs() && op.def().output_alias; ++i) {
      is_output = is_output || op.def().output_alias(op, i) == k;
    }
    if (!is_output) written.push_back(k);
  }
  return written;
}

}  // namespace

void Oracle::run_rule(const Op& op, const Rule& rule, Frame& frame) {
  std::vector<Array> arrays;
  arrays.reserve(static_cast<std::size_t>(op.num_inputs()));
  Inputs inputs;
  inputs.round_floats = options_.round_floats;
  for (const Tensor* input : op.inputs()) {
    if (input == nullptr) {
      inputs.push_back(nullptr);
      continue;
    }
    arrays.push_back(contents(lookup(input, frame)));
    inputs.push_back(&arrays.back());
  }
  std::vector<Array> outputs;
  for (const Tensor* output : op.outputs()) outputs.emplace_back(output->dtype(), output->shape());
  const std::vector<int> written = hidden_writes(op);
  for (int k : written) outputs.push_back(*inputs[static_cast<std::size_t>(k)]);
  rule(op, inputs, outputs);
  if (options_.sum_errors) add_sum_error(op, rule, inputs, outputs);
  for (int i = 0; i < op.num_outputs(); ++i) {
    bind_output(op, i, std::move(outputs[static_cast<std::size_t>(i)]), frame);
  }
  for (std::size_t i = 0; i < written.size(); ++i) {
    Array& array = outputs[static_cast<std::size_t>(op.num_outputs()) + i];
    round(array);
    overwrite(lookup(op.input(written[i]), frame), array.data);
  }
}

void Oracle::run_call(const Op& op, Frame& frame) {
  std::vector<Value> arguments;
  for (const Tensor* input : op.inputs()) {
    arguments.push_back(fresh(contents(lookup(input, frame))));
  }
  std::vector<Value> results = run_graph(*op.called_graphs[0], arguments);
  for (int k : op.modified_inputs()) {
    overwrite(lookup(op.input(k), frame), contents(arguments[static_cast<std::size_t>(k)]).data);
  }
  for (int i = 0; i < op.num_outputs(); ++i) {
    frame[op.output(i)] = std::move(results[static_cast<std::size_t>(i)]);
  }
}

void Oracle::run_loop(const Op& op, Frame& frame) {
  constexpr std::size_t kHeader = 2;  // iterator, condition
  const Graph& body = *op.called_graphs[0];
  std::vector<Value> state;
  for (std::size_t i = kHeader; i < op.inputs().size(); ++i) {
    state.push_back(fresh(contents(lookup(op.inputs()[i], frame))));
  }
  const InputSet modified = op.modified_inputs();
  std::map<int, std::vector<Number>> written;
  const std::size_t carried = body.outputs().size() - 1;
  const bool is_while = op.kind_name() == "While";
  const std::int64_t most =
      is_while
          ? op.attributes.integer_or("max_iterations", std::numeric_limits<std::int64_t>::max())
          : op.attributes.integer("trip_count");
  bool goes_on = !is_while || contents(lookup(op.input(1), frame))[0] != 0.0L;
  std::vector<std::vector<Value>> history;
  std::int64_t n = 0;
  for (; n < most && goes_on; ++n) {
    history.push_back(state);
    Array iterator(DType::Int32, {}), condition(DType::Bool, {});
    iterator[0] = static_cast<Number>(n);
    condition[0] = 1.0L;
    std::vector<Value> arguments = {fresh(iterator), fresh(condition)};
    for (const Value& value : state) arguments.push_back(fresh(contents(value)));
    const std::vector<Value> results = run_graph(body, arguments);
    for (int k : modified) {
      const auto i = static_cast<std::size_t>(k);
      written[k] = contents(arguments[i]).data;
      if (i - kHeader >= carried) state[i - kHeader] = arguments[i];
    }
    for (std::size_t i = 0; i < carried; ++i) state[i] = results[i + 1];
    if (is_while) goes_on = contents(results[0])[0] != 0.0L;
  }
  for (const auto& [k, numbers] : written) overwrite(lookup(op.input(k), frame), numbers);
  for (std::size_t i = 0; i < carried; ++i) frame[op.outputs()[i]] = state[i];
  if (!op.attributes.has("history")) return;
  Array count(DType::Int32, {});
  count[0] = static_cast<Number>(n);
  frame[op.outputs()[carried]] = fresh(count);
  const Ints& kept = op.attributes.ints("history");
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const Tensor* output = op.outputs()[carried + 1 + i];
    Array rows(output->dtype(), output->shape());
    std::size_t next = 0;
    for (const std::vector<Value>& values : history) {
      const Array row = contents(values[static_cast<std::size_t>(kept[i])]);
      next = static_cast<std::size_t>(
          std::copy(row.data.begin(), row.data.end(),
                    rows.data.begin() + static_cast<std::ptrdiff_t>(next)) -
          rows.data.begin());
    }
    frame[output] = fresh(std::move(rows));
  }
}

void Oracle::run_if(const Op& op, Frame& frame) {
  const auto num_then = static_cast<int>(op.attributes.integer("num_then_inputs"));
  const bool chosen = contents(lookup(op.input(0), frame))[0] != 0.0L;
  std::vector<Value> arguments;
  const int first = chosen ? 1 : 1 + num_then;
  const int last = chosen ? 1 + num_then : op.num_inputs();
  for (int i = first; i < last; ++i) {
    arguments.push_back(fresh(contents(lookup(op.input(i), frame))));
  }
  std::vector<Value> results = run_graph(*op.called_graphs[chosen ? 0 : 1], arguments);
  for (int i = 0; i < op.num_outputs(); ++i) {
    frame[op.output(i)] = std::move(results[static_cast<std::size_t>(i)]);
  }
}

void Oracle::run_host_transfer(const Op& op, Frame& frame) {
  const std::string& id = op.attributes.text("stream");
  StreamElements& elements = streams.at(id);
  std::vector<Number>& element = elements[cursors_[id]++ % elements.size()];
  if (op.kind_name() == "HostStore") {
    element = contents(lookup(op.input(0), frame)).data;
    return;
  }
  Array loaded(op.output(0)->dtype(), op.output(0)->shape());
  loaded.data = element;
  bind_output(op, 0, std::move(loaded), frame);
}

void Oracle::run_host_call(const Op& op, Frame& frame) {
  std::vector<Array> inputs;
  for (const Tensor* input : op.inputs()) inputs.push_back(contents(lookup(input, frame)));
  std::vector<Array> results = host_functions().at(op.attributes.text("function"))(inputs);
  for (int i = 0; i < op.num_outputs(); ++i) {
    bind_output(op, i, std::move(results.at(static_cast<std::size_t>(i))), frame);
  }
}

void Oracle::run_remote_transfer(const Op& op, Frame& frame) {
  const auto entry = static_cast<std::size_t>(contents(lookup(op.input(1), frame))[0]);
  std::vector<Number>& slot = remote_buffers_.at(op.attributes.integer("buffer")).at(entry);
  if (op.kind_name() == "RemoteStore") {
    slot = contents(lookup(op.input(0), frame)).data;
    return;
  }
  Array loaded(op.output(0)->dtype(), op.output(0)->shape());
  loaded.data = slot;
  bind_output(op, 0, std::move(loaded), frame);
}

}  // namespace pando::oracle
