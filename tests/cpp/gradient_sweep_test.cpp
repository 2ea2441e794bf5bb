// Gradients of every differentiable op kind: autodiff run by the reference against differences of
// the forward op, and the engine's float32 against the reference. And the values of every kind that
// the compiler expands.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "pando/base/error.hpp"
#include "pando/ops/ops.hpp"
#include "pando/session/session.hpp"
#include "pando/transforms/autodiff.hpp"
#include "tests/cpp/fuzz/host_function_threads.hpp"
#include "tests/cpp/gradient_recipes.hpp"
#include "tests/oracle/oracle.hpp"

namespace pando::gradients {
namespace {

using oracle::Number;
using Numbers = std::vector<Number>;

/// A main graph that loads the inputs and output gradients, calls the op's graph and its gradient
/// graph, and stores outputs and input gradients.
class Program {
 public:
  explicit Program(const Recipe& recipe, bool differentiate = true) : recipe_(recipe) {
    op_registry();
    if (differentiate) {
      build_with_gradient();
    } else {
      build_forward();
    }
  }

  Ir ir;
  std::vector<int> wanted;
  std::vector<std::string> input_ids, weight_ids, output_ids, gradient_ids;

 private:
  void build_with_gradient() {
    Graph& forward = ir.create_graph("forward");
    for (const RecipeInput& input : recipe_.inputs) {
      op_inputs_.push_back(input.absent ? nullptr
                                        : forward.add_input(forward.unique_tensor_id("x"),
                                                            {input.dtype, input.shape, {}}));
    }
    Op& op = OpBuilder(forward, {})
                 .op(op_registry().get(recipe_.kind).name, op_inputs_, recipe_.attributes);
    for (int k : recipe_.outputs) forward.mark_output(op.output(k));
    wanted = recipe_.wanted.empty() ? op.def().differentiable_inputs : recipe_.wanted;
    std::erase_if(wanted, [&](int k) { return k >= op.num_inputs(); });
    std::vector<Tensor*> required;
    for (int k : wanted) required.push_back(op_inputs_[static_cast<std::size_t>(k)]);
    const GradGraphInfo info = autodiff(forward, forward.outputs(), required).at(&forward);
    build_main(forward, info);
  }

  /// Only the op itself, whose outputs and written inputs are stored.
  void build_forward() {
    std::vector<Tensor*> inputs;
    for (const RecipeInput& input : recipe_.inputs) {
      inputs.push_back(input.absent ? nullptr : load({input.dtype, input.shape, {}}, input_ids));
      if (input.absent) input_ids.emplace_back();
    }
    const OpDef& def = op_registry().get(recipe_.kind);
    const Op& op = OpBuilder(ir.main_graph(), {}).op(def.name, inputs, recipe_.attributes);
    for (Tensor* output : op.outputs()) store(output, output_ids);
    for (int k : op.modified_inputs()) store(op.input(k), output_ids);
    const std::vector<Op*> ops = ir.main_graph().ops();
    for (std::size_t i = 1; i < ops.size(); ++i) ops[i]->run_after(*ops[i - 1]);
  }

  Tensor* load(const TensorInfo& info, std::vector<std::string>& ids) {
    Graph& main = ir.main_graph();
    Tensor* handle = main.add_stream(main.unique_tensor_id("in"), info);
    ir.add_stream(*handle, StreamDirection::HostToDevice);
    ids.push_back(handle->id());
    OpBuilder builder(main, {});
    Tensor* init = builder.make(
        "Init", {},
        {{"shape", Ints(info.shape)}, {"dtype", info.dtype}, {"init_type", std::string("undef")}});
    return builder.make("HostLoad", {init}, {{"stream", handle->id()}});
  }

  void store(Tensor* tensor, std::vector<std::string>& ids) {
    Graph& main = ir.main_graph();
    Tensor* handle = main.add_stream(main.unique_tensor_id("out"), tensor->info);
    ir.add_stream(*handle, StreamDirection::DeviceToHost);
    ids.push_back(handle->id());
    OpBuilder(main, {}).op("HostStore", {tensor}, {{"stream", handle->id()}});
  }

  void build_main(Graph& forward, const GradGraphInfo& info) {
    Graph& main = ir.main_graph();
    std::map<const Tensor*, Tensor*> values, gradients;
    std::vector<Tensor*> arguments;
    for (Tensor* input : op_inputs_) {
      if (input == nullptr) {
        input_ids.emplace_back();
      } else {
        arguments.push_back(values[input] = load(input->info, input_ids));
      }
    }
    const OpDef& call = op_registry().get("Call");
    Op& run = main.create_op(call, arguments, {}, {}, {&forward});
    for (std::size_t i = 0; i < forward.outputs().size(); ++i) {
      values[forward.outputs()[i]] = run.outputs()[i];
    }
    for (std::size_t i = 0; i < recipe_.outputs.size(); ++i) {
      Tensor* output = forward.outputs()[i];
      store(run.outputs()[i], output_ids);
      gradients[output] = load(output->info, weight_ids);
    }
    arguments.clear();
    for (const ExpectedConnection& expected : info.expected_inputs) {
      const bool forward_value = expected.type == ConnectionType::Fwd;
      arguments.push_back((forward_value ? values : gradients).at(expected.forward_tensor));
    }
    Op& back = main.create_op(call, arguments, {}, {}, {info.gradient_graph});
    for (int k : wanted) {
      const Tensor* input = op_inputs_[static_cast<std::size_t>(k)];
      for (std::size_t i = 0; i < info.expected_outputs.size(); ++i) {
        if (info.expected_outputs[i].forward_tensor != input) continue;
        store(back.outputs()[i], gradient_ids);
      }
    }
  }

  const Recipe& recipe_;
  std::vector<Tensor*> op_inputs_;  // nullptr where nothing is connected
};

using Streams = std::map<std::string, Numbers>;

DType dtype_of(const Program& program, const std::string& id) {
  return program.ir.main_graph().find_tensor(id)->dtype();
}

std::size_t size_of(const Program& program, const std::string& id) {
  return static_cast<std::size_t>(program.ir.main_graph().find_tensor(id)->info.num_elements());
}

Streams random_streams(const Program& program, const Recipe& recipe, std::mt19937& random) {
  Streams streams;
  const auto fill = [&](const std::string& id, double low, double high) {
    std::uniform_real_distribution<double> draw(low, high);
    Numbers& numbers = streams[id];
    for (std::size_t i = size_of(program, id); i > 0; --i) {
      numbers.push_back(oracle::rounded(draw(random), dtype_of(program, id)));
    }
  };
  for (std::size_t i = 0; i < recipe.inputs.size(); ++i) {
    const RecipeInput& input = recipe.inputs[i];
    if (input.absent) continue;
    if (input.values.empty()) {
      fill(program.input_ids[i], input.low, input.high);
    } else {
      streams[program.input_ids[i]] = Numbers(input.values.begin(), input.values.end());
    }
  }
  for (const std::string& id : program.weight_ids) fill(id, -1.0, 1.0);
  return streams;
}

/// Everything that the program stores.
Streams run_reference(const Program& program, const Streams& inputs, bool round_floats = false) {
  oracle::Oracle reference(program.ir, {.round_floats = round_floats});
  for (const auto& stream : program.ir.streams()) {
    const std::string& id = stream->handle->id();
    const auto given = inputs.find(id);
    reference.streams[id] = {given == inputs.end() ? Numbers(size_of(program, id)) : given->second};
  }
  reference.run();
  Streams outputs;
  for (const auto& ids : {program.output_ids, program.gradient_ids}) {
    for (const std::string& id : ids) outputs[id] = reference.streams.at(id)[0];
  }
  return outputs;
}

Streams run_engine(const Program& program, const Streams& inputs) {
  Session session(program.ir, {{}, {.num_threads = 1}});
  const fuzz::HostFunctionThreads host_functions(session);
  session.attach();
  session.weights_from_host();
  std::map<std::string, std::vector<std::byte>> memory;
  const auto buffers = [&](const std::vector<StreamDesc>& streams) {
    std::vector<StreamBuffer> result;
    for (const StreamDesc& stream : streams) {
      auto& bytes = memory[stream.id];
      bytes.resize(size_of(program, stream.id) * dtype_bytes(stream.dtype));
      if (inputs.contains(stream.id)) {
        oracle::encode(inputs.at(stream.id), stream.dtype, bytes.data());
      }
      result.push_back({bytes.data(), 1});
    }
    return result;
  };
  const auto sources = buffers(session.input_streams());
  const auto targets = buffers(session.output_streams());
  session.run(sources, targets);
  Streams outputs;
  for (const StreamDesc& stream : session.output_streams()) {
    outputs[stream.id] =
        oracle::decode(memory.at(stream.id).data(), stream.dtype, num_elements(stream.shape));
  }
  return outputs;
}

/// Sum over the outputs of weight * output.
Number weighted_output(const Program& program, const Streams& inputs) {
  const Streams outputs = run_reference(program, inputs);
  Number sum = 0.0L;
  for (std::size_t k = 0; k < program.output_ids.size(); ++k) {
    const Numbers& weights = inputs.at(program.weight_ids[k]);
    const Numbers& values = outputs.at(program.output_ids[k]);
    for (std::size_t i = 0; i < values.size(); ++i) sum += weights[i] * values[i];
  }
  return sum;
}

void check_against_differences(const Program& program, const Streams& inputs,
                               const Streams& outputs, std::mt19937& random) {
  constexpr Number kStep = 1e-6L;
  std::normal_distribution<double> normal;
  for (std::size_t k = 0; k < program.wanted.size(); ++k) {
    const std::string& id = program.input_ids[static_cast<std::size_t>(program.wanted[k])];
    const Numbers& gradient = outputs.at(program.gradient_ids[k]);
    for (int repetition = 0; repetition < 3; ++repetition) {
      Streams up = inputs, down = inputs;
      Number along = 0.0L;
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        const Number direction = normal(random);
        up.at(id)[i] += kStep * direction;
        down.at(id)[i] -= kStep * direction;
        along += gradient[i] * direction;
      }
      const Number difference =
          (weighted_output(program, up) - weighted_output(program, down)) / (2.0L * kStep);
      EXPECT_NEAR(static_cast<double>(along), static_cast<double>(difference),
                  1e-7 * std::max(1.0, std::fabs(static_cast<double>(difference))))
          << "input " << program.wanted[k];
    }
  }
}

void check_engine(const Program& program, const Streams& inputs, const Streams& outputs) {
  const Streams given = run_engine(program, inputs);
  for (const auto& [id, wanted] : outputs) {
    Number largest = 1.0L;
    for (Number x : wanted) largest = std::max(largest, std::fabs(x));
    const DType dtype = dtype_of(program, id);
    const Number unit = dtype == DType::Float16 ? 2e-3L : dtype == DType::BFloat16 ? 16e-3L : 4e-6L;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(given.at(id)[i]), static_cast<double>(wanted[i]),
                  static_cast<double>(unit * largest))
          << id << " element " << i;
    }
  }
}

TEST(GradientSweep, EveryDifferentiableKindHasARecipe) {
  std::set<std::string> covered;
  for (const Recipe& recipe : recipes()) covered.insert(recipe.kind);
  for (const OpDef* def : op_registry().all()) {
    if (!def->gradient) continue;
    EXPECT_TRUE(covered.contains(def->name))
        << def->name << " has a gradient: add a recipe for it to gradient_recipes.cpp";
  }
}

TEST(GradientSweep, RulesAndDifferentiableInputsComeTogether) {
  Registry registry;
  const auto error_of_adding = [&](OpDef def) -> std::string {
    try {
      registry.add(std::move(def));
    } catch (const InternalError& error) {
      return error.what();
    }
    return "no error";
  };
  const auto rule = [](GradientBuilder&, const Op&) {};
  EXPECT_NE(error_of_adding({.name = "A", .gradient = rule})
                .find("op kind 'A' has a gradient but no differentiable inputs"),
            std::string::npos);
  EXPECT_NE(error_of_adding({.name = "A", .differentiable_inputs = {0}})
                .find("op kind 'A' has differentiable inputs but no gradient"),
            std::string::npos);
  EXPECT_EQ(error_of_adding({.name = "A", .gradient = rule, .differentiable_inputs = {0}}),
            "no error");
  EXPECT_EQ(error_of_adding({.name = "B"}), "no error");
}

TEST(GradientSweep, AutodiffEqualsDifferencesAndEngineEqualsReference) {
  for (const Recipe& recipe : recipes()) {
    std::string shapes;
    for (const RecipeInput& input : recipe.inputs) shapes += shape_text(input.shape) + " ";
    SCOPED_TRACE(recipe.kind + " of " + shapes);
    std::mt19937 random(29);
    const Program program(recipe);
    ASSERT_EQ(program.gradient_ids.size(), program.wanted.size());
    const Streams inputs = random_streams(program, recipe, random);
    const Streams outputs = run_reference(program, inputs);
    check_against_differences(program, inputs, outputs, random);
    check_engine(program, inputs, outputs);
  }
}

void run_forward(const Recipe& recipe, std::set<std::string>& kinds) {
  SCOPED_TRACE(recipe.kind);
  std::mt19937 random(31);
  const Program program(recipe, false);
  for (const Op* op : program.ir.main_graph().ops()) kinds.insert(op->kind_name());
  const Streams inputs = random_streams(program, recipe, random);
  check_engine(program, inputs, run_reference(program, inputs, true));
}

// The reference has rules of its own for these kinds, so a fault of an expansion shows.
TEST(ExpansionSweep, EveryExpandedKindEqualsReference) {
  std::set<std::string> kinds;
  for (const Recipe& recipe : recipes()) {
    const Program program(recipe);
    for (const Graph* graph : program.ir.graphs()) {
      for (const Op* op : graph->ops()) kinds.insert(op->kind_name());
    }
  }
  for (const Recipe& recipe : forward_recipes()) run_forward(recipe, kinds);
  for (const OpDef* def : op_registry().all()) {
    // Recipes have no graphs: conditional_gradient_test.cpp expands loops.
    if (def->num_called_graphs > 0) continue;
    EXPECT_TRUE(!def->expand || kinds.contains(def->name))
        << def->name << " has an expansion: add a recipe for it to forward_recipes.cpp";
  }
}

}  // namespace
}  // namespace pando::gradients
