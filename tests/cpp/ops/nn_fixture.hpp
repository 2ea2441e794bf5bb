// Support for tests of the neural-network op families: a graph to build ops in, a gradient builder
// that differentiates one op, and an interpreter of pointwise programs that rounds every value as
// its lane does.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pando/base/error.hpp"
#include "pando/base/half.hpp"
#include "pando/base/philox.hpp"
#include "pando/ir/graph.hpp"
#include "pando/ops/ops.hpp"
#include "pando/transforms/expand.hpp"

namespace pando::nn_test {

inline double round_to_lane(double value, LaneType lane) {
  switch (lane) {
    case LaneType::F32:
      return static_cast<float>(value);
    case LaneType::F64:
      return value;
    case LaneType::U32:
      return static_cast<std::uint32_t>(static_cast<std::int64_t>(value));
    case LaneType::I32:
      return static_cast<std::int32_t>(static_cast<std::int64_t>(std::trunc(value)));
    default:
      return std::trunc(value);
  }
}

inline double round_to_dtype(double value, DType dtype) {
  if (is_half_precision(dtype)) {
    return rounded_to_half_precision(static_cast<float>(value), dtype);
  }
  if (dtype == DType::Bool) return value != 0.0;
  return round_to_lane(value, lane_of(dtype));
}

inline std::uint32_t bitwise(ScalarOp op, std::uint32_t a, std::uint32_t b) {
  if (op == ScalarOp::And) return a & b;
  return op == ScalarOp::Or ? a | b : a ^ b;
}

inline double interpret(const ScalarInstruction& in, double a, double b, double c,
                        std::int64_t element) {
  const auto word = [](double v) { return static_cast<std::uint32_t>(v); };
  switch (in.op) {
    case ScalarOp::Constant:
      return in.lane == LaneType::F32 || in.lane == LaneType::F64
                 ? in.immediate
                 : static_cast<double>(in.integer_immediate);
    case ScalarOp::Iota:
      return static_cast<double>(element);
    case ScalarOp::Convert:
      return a;
    case ScalarOp::Round:
      return round_to_dtype(a, in.dtype);
    case ScalarOp::Add:
      return a + b;
    case ScalarOp::Sub:
      return a - b;
    case ScalarOp::Mul:
      return a * b;
    case ScalarOp::Div:
      return a / b;
    case ScalarOp::Rem:
      return std::fmod(a, b);
    case ScalarOp::Fma:
      return in.lane == LaneType::F32
                 ? std::fmaf(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c))
                 : std::fma(a, b, c);
    case ScalarOp::Min:
      return std::fmin(a, b);
    case ScalarOp::Max:
      return std::fmax(a, b);
    case ScalarOp::Neg:
      return -a;
    case ScalarOp::Abs:
      return std::fabs(a);
    case ScalarOp::Log:
      return std::log(a);
    case ScalarOp::Sqrt:
      return std::sqrt(a);
    case ScalarOp::Cos:
      return std::cos(a);
    case ScalarOp::Pow:
      return std::pow(a, b);
    case ScalarOp::Equal:
      return a == b;
    case ScalarOp::LessEqual:
      return a <= b;
    case ScalarOp::And:
    case ScalarOp::Or:
    case ScalarOp::Xor:
      return bitwise(in.op, word(a), word(b));
    case ScalarOp::Select:
      return a != 0.0 ? b : c;
    case ScalarOp::Philox:
      return philox_word(word(a), word(b), word(c), static_cast<std::uint32_t>(in.index));
    default:
      throw std::logic_error(str_cat("not interpreted: ", scalar_op_name(in.op)));
  }
}

/// A graph whose inputs have values; runs views and pointwise ops.
class Fixture : public ::testing::Test {
 protected:
  using Values = std::vector<double>;

  Tensor* input(const Shape& shape, DType dtype = DType::Float32, Values values = {}) {
    Graph& graph = ir_.main_graph();
    Tensor* t = graph.add_input(graph.unique_tensor_id("x"), {dtype, shape, {}});
    for (double& value : values) value = round_to_dtype(value, dtype);
    if (!values.empty()) values_[t] = std::move(values);
    return t;
  }

  Op& op(const std::string& kind, const std::vector<Tensor*>& inputs, Attributes attributes = {}) {
    return builder().op(op_registry().get(kind).name, inputs, std::move(attributes));
  }

  OpBuilder builder() { return OpBuilder(ir_.main_graph(), {}); }

  std::vector<std::string> kinds() {
    std::vector<std::string> result;
    for (const Op* each : ir_.main_graph().ops()) result.push_back(each->kind_name());
    return result;
  }

  /// Expands and runs everything; the value of `t`, which stays reachable as a graph output.
  Values run(Tensor* t) {
    Graph& graph = ir_.main_graph();
    graph.mark_output(t);
    expand(graph);
    for (const Op* each : graph.ops()) run_op(*each);
    return values_.at(graph.outputs().back());
  }

  Values value(const Tensor* t) const { return values_.at(t); }

  Ir ir_;

 private:
  const Values& operand(const Tensor* t) {
    const auto it = values_.find(t);
    if (it != values_.end()) return it->second;
    internal_check(t->kind() == TensorKind::Constant && t->dtype() == DType::Float32,
                   "the fixture reads float32 constants");
    const auto* data = reinterpret_cast<const float*>(t->data->data);
    return values_[t] = Values(data, data + t->info.num_elements());
  }

  static Values read(const Values& from, const View& view) {
    Values result;
    Shape index(view.shape.size(), 0);
    for (std::int64_t n = num_elements(view.shape); n > 0; --n) {
      std::int64_t at = view.offset;
      for (std::size_t d = 0; d < index.size(); ++d) at += index[d] * view.strides[d];
      result.push_back(from[static_cast<std::size_t>(at)]);
      for (std::size_t d = index.size(); d-- > 0;) {
        if (++index[d] < view.shape[d]) break;
        index[d] = 0;
      }
    }
    return result;
  }

  void run_op(const Op& op) {
    if (op.def().view) {
      const View whole = View::contiguous(op.input(0)->shape());
      const std::optional<View> view = op.def().view(op, 0, whole);
      if (!view) throw InternalError("a view op must accept a contiguous input");
      values_[op.output(0)] = read(operand(op.input(0)), *view);
      return;
    }
    internal_check(bool(op.def().scalar_body), "the fixture runs views and pointwise ops");
    run_pointwise(op);
  }

  void run_pointwise(const Op& op) {
    ScalarProgram program;
    ScalarEmitter emitter(program);
    std::vector<ScalarValue> loads;
    std::vector<Values> inputs;
    const Shape& shape = op.output(0)->shape();
    for (int i = 0; i < op.num_inputs(); ++i) {
      const Tensor* t = op.input(i);
      loads.push_back(t == nullptr ? kNoValue : emitter.load(i, t->dtype()));
      inputs.push_back(t == nullptr
                           ? Values{}
                           : read(operand(t), broadcast_view(View::contiguous(t->shape()), shape)));
    }
    const auto results = op.def().scalar_body(emitter, op, loads);
    Values output;
    for (std::int64_t i = 0; i < num_elements(shape); ++i) {
      Values values;
      const auto value = [&](ScalarValue v) {
        return v == kNoValue ? 0.0 : values[static_cast<std::size_t>(v)];
      };
      for (const ScalarInstruction& in : program.instructions) {
        const double result =
            in.op == ScalarOp::Load
                ? inputs[static_cast<std::size_t>(in.index)][static_cast<std::size_t>(i)]
                : interpret(in, value(in.a), value(in.b), value(in.c), i);
        values.push_back(round_to_lane(result, in.lane));
      }
      output.push_back(round_to_dtype(value(results.front()), op.output(0)->dtype()));
    }
    values_[op.output(0)] = output;
    for (int index : op.modified_inputs()) values_[op.input(index)] = output;
  }

  std::map<const Tensor*, Values> values_;
};

/// Differentiates one op in its own graph: every output has a gradient input.
class OneOpGradient : public GradientBuilder {
 public:
  OneOpGradient(Op& op, std::vector<Tensor*> output_gradients)
      : GradientBuilder(op.graph(), {}), output_gradients_(std::move(output_gradients)) {
    op.def().gradient(*this, op);
  }
  Tensor* output_gradient(int index) override {
    const auto i = static_cast<std::size_t>(index);
    return i < output_gradients_.size() ? output_gradients_[i] : nullptr;
  }
  Tensor* forward(Tensor* forward_tensor) override { return forward_tensor; }
  bool wants(int) const override { return true; }
  void set_input_gradient(int index, Tensor* gradient) override { gradients[index] = gradient; }

  std::map<int, Tensor*> gradients;

 private:
  std::vector<Tensor*> output_gradients_;
};

}  // namespace pando::nn_test
