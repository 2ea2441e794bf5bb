// One step of a recurrent cell for units of one row of the batch, in float32.
#pragma once

#include <cstdint>

namespace pando::cpu {

enum class Cell : std::uint8_t { Lstm, Gru, Tanh, Relu };

/// Of `count` units, the first of which the pointers are at. In parts and saved the gates of a unit
/// are `hidden` numbers apart, in the product `product_gate` (see the op RecurrentSequence).
struct CellStep {
  std::int64_t count, hidden, product_gate;
  const float* parts;
  const float* product;  // W h, with the bias of gru
  const float* state;    // before the step
  const float* cell;     // before the step; lstm
  float* saved;          // lstm, gru; or nullptr
  float* next_state;
  float* next_cell;  // lstm
};

/// The same of gradients: the gates of a unit are `hidden` numbers apart.
struct CellGradient {
  std::int64_t count, hidden;
  const float* g;       // of the state after the step, or nullptr
  const float* g_cell;  // of the cell state after the step, or nullptr
  const float* saved;
  const float* state;  // before the step
  const float* next_state;
  const float* cell;  // before the step
  const float* next_cell;
  float* carried;  // in: from later steps; out: what does not go through the product
  float* carried_cell;
  float* parts;    // gradient of the parts
  float* product;  // and of the product; gru
};

void cell_step(Cell cell, const CellStep& step);
void cell_gradient(Cell cell, const CellGradient& step);

}  // namespace pando::cpu
