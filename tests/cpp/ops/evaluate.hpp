// Runs graphs of basic ops in double, by their definitions: what the tests of op rules compare.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "pando/ops/ops.hpp"
#include "pando/transforms/expand.hpp"
#include "tests/cpp/ops/double_interpreter.hpp"

namespace pando::testing {

struct Array {
  Shape shape;
  std::vector<double> data;  // C order
};

/// Calls `visit` with every index of `shape` in C order.
inline void for_each_index(const Shape& shape, const std::function<void(const Shape&)>& visit) {
  Shape index(shape.size(), 0);
  for (std::int64_t n = num_elements(shape); n > 0; --n) {
    visit(index);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

inline std::int64_t offset_of(const View& view, const Shape& index) {
  std::int64_t offset = view.offset;
  for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * view.strides[d];
  return offset;
}

inline double read(const Array& array, const View& view, const Shape& index) {
  return array.data.at(static_cast<std::size_t>(offset_of(view, index)));
}
inline double read(const Array& array, const Shape& index) {
  return read(array, View::contiguous(array.shape), index);
}

class Evaluator {
 public:
  void set(const Tensor* tensor, std::vector<double> data) {
    values_[tensor] = {tensor->shape(), std::move(data)};
  }

  const Array& value(const Tensor* tensor) {
    const auto it = values_.find(tensor);
    if (it != values_.end()) return it->second;
    if (tensor->kind() != TensorKind::Constant) {
      throw std::logic_error("no value for " + tensor->id());
    }
    return values_[tensor] = constant_value(*tensor);
  }

  void run(const Graph& graph) {
    for (const Op* op : graph.ops()) run(*op);
  }

 private:
  static Array constant_value(const Tensor& tensor) {
    Array result{tensor.shape(), {}};
    const std::byte* data = tensor.data->data;
    for (std::int64_t i = 0; i < tensor.info.num_elements(); ++i) {
      switch (tensor.dtype()) {
        case DType::Float32:
          result.data.push_back(reinterpret_cast<const float*>(data)[i]);
          break;
        case DType::Int32:
          result.data.push_back(reinterpret_cast<const std::int32_t*>(data)[i]);
          break;
        case DType::Float64:
          result.data.push_back(reinterpret_cast<const double*>(data)[i]);
          break;
        default:
          throw std::logic_error("constant of an unexpected dtype");
      }
    }
    return result;
  }

  void run(const Op& op) {
    if (op.def().view) return run_view(op);
    if (op.def().scalar_body) return run_pointwise(op);
    if (op.kind_name() == "MatMul") return run_matmul(op);
    if (op.kind_name().starts_with("Reduce")) return run_reduction(op);
    if (op.kind_name() == "Concat") return run_concat(op);
    if (op.kind_name() == "PadInto") return run_pad(op);
    if (op.kind_name() == "Fill") return run_fill(op);
    throw std::logic_error("the evaluator has no kernel for " + op.kind_name());
  }

  void run_fill(const Op& op) {
    const auto count = static_cast<std::size_t>(op.output(0)->info.num_elements());
    values_[op.output(0)] = {op.output(0)->shape(),
                             std::vector<double>(count, op.attributes.number("value"))};
  }

  void run_view(const Op& op) {
    const Array& input = value(op.input(0));
    const auto view = op.def().view(op, 0, View::contiguous(input.shape));
    Array result{op.output(0)->shape(), {}};
    for_each_index(result.shape,
                   [&](const Shape& index) { result.data.push_back(read(input, *view, index)); });
    values_[op.output(0)] = std::move(result);
  }

  void run_pointwise(const Op& op) {
    const ScalarProgram program = program_of(op);
    const Shape& shape = op.output(0)->shape();
    std::vector<View> views;
    std::vector<Array> inputs;
    for (const Tensor* input : op.inputs()) {
      inputs.push_back(value(input));
      views.push_back(broadcast_view(View::contiguous(input->shape()), shape));
    }
    std::vector<Array> results(op.outputs().size(), Array{shape, {}});
    for_each_index(shape, [&](const Shape& index) {
      std::vector<double> elements;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        elements.push_back(read(inputs[i], views[i], index));
      }
      const auto outputs = run_scalar_program(program, elements, op.num_outputs());
      for (std::size_t i = 0; i < results.size(); ++i) results[i].data.push_back(outputs[i]);
    });
    for (int i = 0; i < op.num_outputs(); ++i) {
      values_[op.output(i)] = results[static_cast<std::size_t>(i)];
      const int alias = op.def().output_alias ? op.def().output_alias(op, i) : -1;
      if (alias >= 0) values_[op.input(alias)] = results[static_cast<std::size_t>(i)];
    }
  }

  void run_matmul(const Op& op) {
    const Array lhs = value(op.input(0)), rhs = value(op.input(1));
    const std::size_t rank = lhs.shape.size();
    if (rank != rhs.shape.size() || rank < 2) throw std::logic_error("MatMul is not expanded");
    Array result{op.output(0)->shape(), {}};
    for_each_index(result.shape, [&](const Shape& index) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < lhs.shape.back(); ++k) {
        Shape left = index, right = index;
        left[rank - 1] = k;
        right[rank - 2] = k;
        sum += read(lhs, left) * read(rhs, right);
      }
      result.data.push_back(sum);
    });
    values_[op.output(0)] = std::move(result);
  }

  static double combine(const std::string& kind, const std::vector<double>& values,
                        double& position) {
    if (kind == "ReduceMedian") {
      std::vector<double> sorted = values;
      std::sort(sorted.begin(), sorted.end());
      const double median = sorted[(sorted.size() - 1) / 2];
      const auto at = std::find(values.begin(), values.end(), median);
      position = static_cast<double>(at - values.begin());
      return median;
    }
    double result = values.front();
    for (std::size_t i = 1; i < values.size(); ++i) {
      const double next = values[i];
      if (kind == "ReduceSum") result += next;
      if (kind == "ReduceProd") result *= next;
      if (kind == "ReduceMax") result = std::max(result, next);
      if (kind == "ReduceMin") result = std::min(result, next);
    }
    return result;
  }

  void run_reduction(const Op& op) {
    const Array input = value(op.input(0));
    std::map<Shape, std::vector<double>> groups;  // keys in C order
    for_each_index(input.shape, [&](const Shape& index) {
      Shape key = index;
      for (std::int64_t axis : op.attributes.ints("axes")) key[static_cast<std::size_t>(axis)] = 0;
      groups[key].push_back(read(input, index));
    });
    std::vector<double> results, positions;
    for (const auto& [key, values] : groups) {
      double position = 0.0;
      results.push_back(combine(op.kind_name(), values, position));
      positions.push_back(position);
    }
    values_[op.output(0)] = {op.output(0)->shape(), results};
    if (op.num_outputs() > 1) values_[op.output(1)] = {op.output(1)->shape(), positions};
  }

  void run_concat(const Op& op) {
    const auto axis = static_cast<std::size_t>(op.attributes.integer("axis"));
    Array result{op.output(0)->shape(), {}};
    for_each_index(result.shape, [&](const Shape& index) {
      Shape at = index;
      int i = 0;
      while (at[axis] >= op.input(i)->shape()[axis]) at[axis] -= op.input(i++)->shape()[axis];
      result.data.push_back(read(value(op.input(i)), at));
    });
    values_[op.output(0)] = std::move(result);
  }

  void run_pad(const Op& op) {
    const Array input = value(op.input(0));
    const Shape& shape = op.output(0)->shape();
    const Ints& starts = op.attributes.ints("starts");
    const Ints& steps = op.attributes.ints("steps");
    Array result{shape, std::vector<double>(static_cast<std::size_t>(num_elements(shape)), 0.0)};
    for_each_index(input.shape, [&](const Shape& index) {
      Shape at = index;
      for (std::size_t d = 0; d < at.size(); ++d) at[d] = starts[d] + steps[d] * index[d];
      result.data[static_cast<std::size_t>(offset_of(View::contiguous(shape), at))] =
          read(input, index);
    });
    values_[op.output(0)] = std::move(result);
  }

  std::map<const Tensor*, Array> values_;
};

/// A graph with one op, whose inputs are graph inputs.
struct SingleOp {
  Ir ir;
  std::vector<Tensor*> inputs;
  Op* op = nullptr;

  SingleOp(std::string_view kind, const std::vector<TensorInfo>& infos,
           Attributes attributes = {}) {
    Graph& graph = ir.main_graph();
    for (std::size_t i = 0; i < infos.size(); ++i) {
      inputs.push_back(graph.add_input(graph.unique_tensor_id("x" + std::to_string(i)), infos[i]));
    }
    op = &OpBuilder(graph, {}).op(op_registry().get(kind).name, inputs, std::move(attributes));
  }

  const TensorInfo& info(int output = 0) const { return op->output(output)->info; }
};

/// All outputs of an op after expansion.
inline std::vector<Array> evaluate_all(std::string_view kind, const std::vector<TensorInfo>& infos,
                                       const std::vector<std::vector<double>>& data,
                                       Attributes attributes = {}) {
  SingleOp single(kind, infos, std::move(attributes));
  Graph& graph = single.ir.main_graph();
  for (Tensor* output : single.op->outputs()) graph.mark_output(output);
  expand(graph);
  Evaluator evaluator;
  for (std::size_t i = 0; i < data.size(); ++i) evaluator.set(single.inputs[i], data[i]);
  evaluator.run(graph);
  std::vector<Array> results;
  for (const Tensor* output : graph.outputs()) results.push_back(evaluator.value(output));
  return results;
}

inline Array evaluate(std::string_view kind, const std::vector<TensorInfo>& infos,
                      const std::vector<std::vector<double>>& data, Attributes attributes = {}) {
  return evaluate_all(kind, infos, data, std::move(attributes)).front();
}

inline TensorInfo typed(DType dtype, const Shape& shape) { return {dtype, shape, {}}; }
inline TensorInfo f32(const Shape& shape) { return typed(DType::Float32, shape); }

}  // namespace pando::testing
