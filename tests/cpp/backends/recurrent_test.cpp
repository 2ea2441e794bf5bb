// Recurrent layers against loops in double.
#include <algorithm>

#include "kernel_test_util.hpp"

namespace pando::testing {
namespace {

struct Layer {
  std::string cell;
  std::int64_t steps, batch, hidden;
  bool reverse;

  std::int64_t gates() const { return cell == "lstm" ? 4 : cell == "gru" ? 3 : 1; }
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// What a layer reads.
struct Operands {
  TestTensor parts, weights, bias, state, cell;

  explicit Operands(const Layer& layer, DType dtype = DType::Float32)
      : parts(dtype, {layer.steps, layer.batch, layer.gates() * layer.hidden}),
        weights(dtype, {layer.gates() * layer.hidden, layer.hidden}),
        bias(dtype, {layer.gates() * layer.hidden}),
        state(dtype, {layer.batch, layer.hidden}),
        cell(dtype, {layer.batch, layer.hidden}) {
    const double scale = 1 / std::sqrt(static_cast<double>(layer.hidden));
    parts.randomise(80, -1, 1);
    weights.randomise(81, -scale, scale);
    bias.randomise(82, -1, 1);
    state.randomise(83, -1, 1);
    cell.randomise(84, -1, 1);
  }

  std::vector<TestTensor*> inputs(const Layer& layer, bool starts) {
    return {&parts, &weights, layer.cell == "gru" ? &bias : nullptr, starts ? &state : nullptr,
            starts && layer.cell == "lstm" ? &cell : nullptr};
  }
};

/// The states, the gates for the gradient and the cell states after all steps.
struct Wanted {
  std::vector<double> states, saved, cells;
};

Wanted run_layer(const Layer& layer, const Operands& x, bool starts) {
  const std::int64_t h = layer.hidden, gates = layer.gates(), rows = layer.batch;
  const auto size = static_cast<std::size_t>(layer.steps * rows * h);
  Wanted wanted{std::vector<double>(size), std::vector<double>(4 * size),
                std::vector<double>(size)};
  std::vector<double> state(static_cast<std::size_t>(rows * h)), cell = state;
  if (starts) state = x.state.values(), cell = x.cell.values();
  const std::vector<double> weights = x.weights.values();
  for (std::int64_t s = 0; s < layer.steps; ++s) {
    const std::int64_t time = layer.reverse ? layer.steps - 1 - s : s;
    const std::vector<double> before = state;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t k = 0; k < h; ++k) {
        double p[4] = {}, q[4] = {};
        for (std::int64_t g = 0; g < gates; ++g) {
          p[g] = x.parts.get(((time * rows + r) * gates + g) * h + k);
          if (layer.cell == "gru") q[g] = x.bias.get(g * h + k);
          for (std::int64_t j = 0; j < h; ++j) {
            q[g] += weights[(g * h + k) * h + j] * before[r * h + j];
          }
        }
        double& to = state[r * h + k];
        double* saved = &wanted.saved[((time * rows + r) * 4) * h + k];
        if (layer.cell == "lstm") {
          const double i = sigmoid(p[0] + q[0]), f = sigmoid(p[1] + q[1]);
          const double g = std::tanh(p[2] + q[2]), o = sigmoid(p[3] + q[3]);
          double& c = cell[r * h + k];
          c = f * c + i * g;
          to = o * std::tanh(c);
          saved[0] = i, saved[h] = f, saved[2 * h] = g, saved[3 * h] = o;
        } else if (layer.cell == "gru") {
          const double reset = sigmoid(p[0] + q[0]), z = sigmoid(p[1] + q[1]);
          const double n = std::tanh(p[2] + reset * q[2]);
          to = (1 - z) * n + z * before[r * h + k];
          saved[0] = reset, saved[h] = z, saved[2 * h] = n, saved[3 * h] = q[2];
        } else {
          to = layer.cell == "tanh" ? std::tanh(p[0] + q[0]) : std::max(0.0, p[0] + q[0]);
        }
        wanted.states[(time * rows + r) * h + k] = to;
        wanted.cells[(time * rows + r) * h + k] = cell[r * h + k];
      }
    }
  }
  return wanted;
}

TEST(RecurrentSequence, EqualsLoopsForAnyThreadCount) {
  // With few rows and with many; units that fill no vector; more rows than a thread packs at once.
  const std::vector<Layer> layers = {{"lstm", 6, 37, 70, false}, {"lstm", 5, 3, 33, true},
                                     {"gru", 5, 20, 33, true},   {"gru", 2, 40, 8, false},
                                     {"tanh", 4, 17, 100, true}, {"relu", 4, 310, 16, false}};
  for (const Layer& layer : layers) {
    for (const int threads : {1, 2, 3}) {
      const bool starts = threads != 2;
      Operands x(layer);
      const Shape states = {layer.steps, layer.batch, layer.hidden};
      TestTensor out(DType::Float32, states), cells(DType::Float32, states);
      TestTensor saved(DType::Float32, {layer.steps, layer.batch, 4 * layer.hidden});
      std::vector<TestTensor*> outputs = {&out};
      if (layer.gates() > 1) outputs.push_back(&saved);
      if (layer.cell == "lstm") outputs.push_back(&cells);
      const std::string how =
          run_kernel("RecurrentSequence", {{"cell", layer.cell}, {"reverse", layer.reverse}},
                     x.inputs(layer, starts), outputs, threads);
      EXPECT_EQ(how.find("RecurrentSequence: packed") == 0, layer.batch > 16 && layer.steps > 3)
          << how;
      const Wanted wanted = run_layer(layer, x, starts);
      const double tolerance = 20 * epsilon_of(DType::Float32);
      expect_close(out, wanted.states, tolerance, layer.cell);
      if (layer.gates() > 1) expect_close(saved, wanted.saved, tolerance, layer.cell);
      if (layer.cell == "lstm") expect_close(cells, wanted.cells, tolerance, layer.cell);
    }
  }
}

TEST(RecurrentSequence, WeightsPackedBeforeRunsAreTheSameWeights) {
  const std::vector<Layer> layers = {{"lstm", 6, 37, 70, false},
                                     {"gru", 5, 20, 33, true},
                                     {"relu", 4, 310, 16, false},
                                     {"tanh", 6, 3, 33, false}};
  for (const Layer& layer : layers) {
    for (const int threads : {1, 2}) {
      Operands x(layer);
      const Shape shape = {layer.steps, layer.batch, layer.hidden};
      TestTensor out(DType::Float32, shape), packed(DType::Float32, shape);
      const Attributes attributes = {{"cell", layer.cell}, {"reverse", layer.reverse}};
      const auto outputs = [&](TestTensor& states) {
        return layer.cell == "lstm"  ? std::vector<TestTensor*>{&states, nullptr, nullptr}
               : layer.cell == "gru" ? std::vector<TestTensor*>{&states, nullptr}
                                     : std::vector<TestTensor*>{&states};
      };
      run_kernel("RecurrentSequence", attributes, x.inputs(layer, true), outputs(out), threads);
      const std::string how = run_prepared_kernel("RecurrentSequence", attributes,
                                                  x.inputs(layer, true), outputs(packed), threads);
      // Few rows are multiplied by the weights as they are.
      EXPECT_EQ(how.find("packed before runs") != std::string::npos, layer.batch > 16) << how;
      expect_close(packed, out.values(), 0, layer.cell);
      expect_close(packed, run_layer(layer, x, true).states, 20 * epsilon_of(DType::Float32), how);
    }
  }
}

TEST(RecurrentSequence, ComputesNoMoreThanIsWanted) {
  const std::vector<Layer> layers = {{"lstm", 6, 37, 70, false},
                                     {"lstm", 5, 3, 33, true},
                                     {"gru", 5, 20, 33, true},
                                     {"gru", 2, 40, 8, false}};
  for (const Layer& layer : layers) {
    for (const DType dtype : {DType::Float32, DType::Float16}) {
      for (const bool starts : {false, true}) {
        Operands x(layer, dtype);
        const Shape shape = {layer.steps, layer.batch, layer.hidden};
        TestTensor out(dtype, shape), cells(dtype, shape);
        const Wanted wanted = run_layer(layer, x, starts);
        const double tolerance = 20 * epsilon_of(dtype);
        const Attributes attributes = {{"cell", layer.cell}, {"reverse", layer.reverse}};
        const auto expect = [&](const std::vector<TestTensor*>& outputs) {
          const std::string how =
              run_kernel("RecurrentSequence", attributes, x.inputs(layer, starts), outputs);
          expect_close(out, wanted.states, tolerance, how);
        };
        if (layer.cell == "gru") {
          expect({&out, nullptr});
          continue;
        }
        expect({&out, nullptr, nullptr});
        expect({&out, nullptr, &cells});
        expect_close(cells, wanted.cells, tolerance, layer.cell);
      }
    }
  }
}

}  // namespace
}  // namespace pando::testing
