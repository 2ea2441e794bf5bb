// Recurrent layers, element by element.
#include <cmath>

#include "tests/oracle/rules.hpp"

namespace pando::oracle {
namespace {

struct Layer {
  std::string cell;
  bool reverse;
  std::int64_t steps, batch, hidden, gates;

  explicit Layer(const Op& op, const Array& states)
      : cell(op.attributes.text("cell")),
        reverse(op.attributes.flag_or("reverse", false)),
        steps(states.dim(0)),
        batch(states.dim(1)),
        hidden(states.dim(2)),
        gates(cell == "lstm"  ? 4
              : cell == "gru" ? 3
                              : 1) {}

  std::int64_t time(std::int64_t s) const { return reverse ? steps - 1 - s : s; }
  /// Position of element k of block n of sample b at step number s.
  std::int64_t at(std::int64_t s, std::int64_t b, std::int64_t blocks, std::int64_t n,
                  std::int64_t k) const {
    return ((time(s) * batch + b) * blocks + n) * hidden + k;
  }
  /// Element k of the state that step number s begins with.
  Number before(const Array& states, const Array* first, std::int64_t s, std::int64_t b,
                std::int64_t k) const {
    if (s > 0) return states[at(s - 1, b, 1, 0, k)];
    return first == nullptr ? 0.0L : (*first)[b * hidden + k];
  }
};

const Array* input(const Inputs& in, std::size_t i) { return i < in.size() ? in[i] : nullptr; }

/// Row n * hidden + k of W h, with the bias. Every addition is rounded: what later steps make of
/// such errors may be far larger than they are.
Number product(const Layer& layer, const Inputs& in, const Array& states, std::int64_t s,
               std::int64_t b, std::int64_t row) {
  const Array* bias = input(in, 2);
  Number sum = bias == nullptr ? 0.0L : (*bias)[row];
  for (std::int64_t j = 0; j < layer.hidden; ++j) {
    sum += (*in[1])[row * layer.hidden + j] * layer.before(states, input(in, 3), s, b, j);
    sum = in.step(sum, sum_dtype(states.dtype));
  }
  return sum;
}

void sequence(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Layer layer(op, out[0]);
  const std::int64_t h = layer.hidden;
  for (std::int64_t i = 0; i < layer.steps * layer.batch * h; ++i) {
    const std::int64_t s = i / (layer.batch * h), b = i / h % layer.batch, k = i % h;
    const auto part = [&](std::int64_t n) { return (*in[0])[layer.at(s, b, layer.gates, n, k)]; };
    const auto sum = [&](std::int64_t n) {
      return part(n) + product(layer, in, out[0], s, b, n * h + k);
    };
    const auto save = [&](std::int64_t n, Number x) { return out[1][layer.at(s, b, 4, n, k)] = x; };
    Number& state = out[0][layer.at(s, b, 1, 0, k)];
    if (layer.cell == "lstm") {
      const Number in_gate = save(0, sigmoid(sum(0))), forget = save(1, sigmoid(sum(1)));
      const Number candidate = save(2, std::tanh(sum(2))), out_gate = save(3, sigmoid(sum(3)));
      const Number old = layer.before(out[2], input(in, 4), s, b, k);
      const Number cell = out[2][layer.at(s, b, 1, 0, k)] = forget * old + in_gate * candidate;
      state = out_gate * std::tanh(cell);
    } else if (layer.cell == "gru") {
      const Number reset = save(0, sigmoid(sum(0))), update = save(1, sigmoid(sum(1)));
      const Number q = save(3, product(layer, in, out[0], s, b, 2 * h + k));
      const Number candidate = save(2, std::tanh(part(2) + reset * q));
      const Number old = layer.before(out[0], input(in, 3), s, b, k);
      state = (1.0L - update) * candidate + update * old;
    } else {
      state = layer.cell == "tanh" ? std::tanh(sum(0)) : std::fmax(sum(0), 0.0L);
    }
    state = in.step(state, out[0].dtype);
  }
}

/// Gradients of one element of one step: of the parts (and what they add to gru's product), and of
/// the states before the step, as far as they do not go through the product.
struct ElementGradient {
  Number parts[4] = {}, product[4] = {}, state = 0.0L, cell = 0.0L;
};

ElementGradient lstm_gradient(const Number* gates, Number old, Number now, Number g, Number gc) {
  const Number i = gates[0], f = gates[1], c = gates[2], o = gates[3], t = std::tanh(now);
  gc += g * o * (1.0L - t * t);
  ElementGradient result;
  result.parts[0] = gc * c * i * (1.0L - i);
  result.parts[1] = gc * old * f * (1.0L - f);
  result.parts[2] = gc * i * (1.0L - c * c);
  result.parts[3] = g * t * o * (1.0L - o);
  result.cell = gc * f;
  return result;
}

ElementGradient gru_gradient(const Number* gates, Number old, Number g) {
  const Number r = gates[0], z = gates[1], n = gates[2], q = gates[3];
  ElementGradient result;
  const Number through = g * (1.0L - z) * (1.0L - n * n);
  result.parts[0] = result.product[0] = through * q * r * (1.0L - r);
  result.parts[1] = result.product[1] = g * (old - n) * z * (1.0L - z);
  result.parts[2] = through;
  result.product[2] = through * r;
  result.state = g * z;
  return result;
}

ElementGradient plain_gradient(const std::string& cell, Number now, Number g) {
  ElementGradient result;
  result.parts[0] = cell == "tanh" ? g * (1.0L - now * now) : now > 0.0L ? g : 0.0L;
  return result;
}

void sequence_grad(const Op& op, const Inputs& in, std::vector<Array>& out) {
  const Array &weights = *in[0], &states = *in[1];
  const Layer layer(op, states);
  const std::int64_t h = layer.hidden;
  const bool is_lstm = layer.cell == "lstm", is_gru = layer.cell == "gru";
  // Outputs 1 and 2 hold what later steps carry.
  for (std::int64_t s = layer.steps; s-- > 0;) {
    Array through(out[1].dtype, out[1].shape);
    for (std::int64_t i = 0; i < layer.batch * h; ++i) {
      const std::int64_t b = i / h, k = i % h, at = layer.at(s, b, 1, 0, k);
      const Number g = out[1][i] + (in[2] == nullptr ? 0.0L : (*in[2])[at]);
      Number gates[4] = {};
      for (std::int64_t n = 0; n < 4 && in[4] != nullptr; ++n) {
        gates[n] = (*in[4])[layer.at(s, b, 4, n, k)];
      }
      ElementGradient gradient;
      if (is_lstm) {
        const Number gc = out[2][i] + (in[3] == nullptr ? 0.0L : (*in[3])[at]);
        gradient = lstm_gradient(gates, layer.before(*in[5], in[7], s, b, k), (*in[5])[at], g, gc);
        out[2][i] = gradient.cell;
      } else if (is_gru) {
        gradient = gru_gradient(gates, layer.before(states, in[6], s, b, k), g);
      } else {
        gradient = plain_gradient(layer.cell, states[at], g);
      }
      out[1][i] = gradient.state;
      for (std::int64_t n = 0; n < layer.gates; ++n) {
        out[0][layer.at(s, b, layer.gates, n, k)] = gradient.parts[n];
        const Number product = is_gru ? gradient.product[n] : gradient.parts[n];
        if (is_gru) out[2][layer.at(s, b, layer.gates, n, k)] = product;
        for (std::int64_t j = 0; j < h; ++j) {
          Number& sum = through[b * h + j];
          sum = in.step(sum + product * weights[(n * h + k) * h + j], sum_dtype(states.dtype));
        }
      }
    }
    for (std::int64_t i = 0; i < through.size(); ++i) out[1][i] += through[i];
  }
}

}  // namespace

void add_recurrent_rules(RuleTable& table) {
  table.add("RecurrentSequence", sequence);
  table.add("RecurrentSequenceGrad", sequence_grad);
}

}  // namespace pando::oracle
