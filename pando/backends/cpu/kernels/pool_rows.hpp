// The row loops of pooling: `count` results, each with one cell of its window `stride` apart in the
// data. Callers repeat them for every cell of a window.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

namespace pando::cpu {

/// Results along a row that have the same cell of their windows inside the data.
struct RowRun {
  std::int64_t from, to, count;  // the first data cell and the first result, in their rows
};

/// y[i] = max(y[i], x[i * stride]); a NaN stays.
template <class T>
void max_cells(const T* x, std::int64_t stride, T* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T value = x[i * stride];
    if (value > y[i] || std::isnan(value)) y[i] = value;
  }
}
void max_cells(const float* x, std::int64_t stride, float* y, std::int64_t count);

/// dx[i * stride] += g[i] where x[i * stride] == y[i].
template <class T>
void max_cells_grad(const T* x, const T* y, const T* g, std::int64_t stride, T* dx,
                    std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (x[i * stride] == y[i]) dx[i * stride] += g[i];
  }
}
void max_cells_grad(const float* x, const float* y, const float* g, std::int64_t stride, float* dx,
                    std::int64_t count);

/// As max_cells_grad, but what a result has left goes to one cell: to dx[i * stride] and left[i]
/// becomes 0 where x[i * stride] == y[i].
template <class T>
void first_max_cells_grad(const T* x, const T* y, T* left, std::int64_t stride, T* dx,
                          std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (x[i * stride] != y[i]) continue;
    dx[i * stride] += left[i];
    left[i] = T{};
  }
}
void first_max_cells_grad(const float* x, const float* y, float* left, std::int64_t stride,
                          float* dx, std::int64_t count);

/// to[i * stride + k] = from[i] for every k < stride.
template <class T>
void repeat_cells(const T* from, std::int64_t stride, T* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count * stride; ++i) to[i] = from[i / stride];
}
void repeat_cells(const float* from, std::int64_t stride, float* to, std::int64_t count);

/// dx[i] = x[i] == y[i] ? g[i] : 0
template <class T>
void select_max(const T* x, const T* y, const T* g, T* dx, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dx[i] = x[i] == y[i] ? g[i] : T{};
}
void select_max(const float* x, const float* y, const float* g, float* dx, std::int64_t count);

/// y[i] += x[i * stride]
template <class T>
void add_cells(const T* x, std::int64_t stride, T* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] += x[i * stride];
}
void add_cells(const float* x, std::int64_t stride, float* y, std::int64_t count);

/// dx[i * stride] += g[i]
template <class T>
void add_cells_grad(const T* g, std::int64_t stride, T* dx, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dx[i * stride] += g[i];
}
void add_cells_grad(const float* g, std::int64_t stride, float* dx, std::int64_t count);

/// The same for every run of a data row and a row of results.
template <class T>
void add_runs(const T* x, std::int64_t stride, T* y, std::span<const RowRun> runs) {
  for (const RowRun& run : runs) add_cells(x + run.from, stride, y + run.to, run.count);
}
void add_runs(const float* x, std::int64_t stride, float* y, std::span<const RowRun> runs);
template <class T>
void add_runs_grad(const T* g, std::int64_t stride, T* dx, std::span<const RowRun> runs) {
  for (const RowRun& run : runs) add_cells_grad(g + run.to, stride, dx + run.from, run.count);
}
void add_runs_grad(const float* g, std::int64_t stride, float* dx, std::span<const RowRun> runs);

}  // namespace pando::cpu
