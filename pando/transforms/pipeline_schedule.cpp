#include "pando/transforms/pipeline_schedule.hpp"

#include <algorithm>

#include "pando/base/error.hpp"

namespace pando {
namespace {

constexpr std::int64_t kMostColumns = 20;

std::string right_aligned(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

std::string range_text(const char* name, std::int64_t begin, std::int64_t end) {
  if (begin == end) return str_cat("no ", name);
  if (begin + 1 == end) return str_cat(name, " cycle ", begin);
  return str_cat(name, " cycles ", begin, " to ", end - 1);
}

std::string row_name(const PipelineSchedule& schedule, std::int64_t stage) {
  std::string text = str_cat("stage ", stage);
  const std::vector<std::int64_t>& devices =
      schedule.stages[static_cast<std::size_t>(stage)].devices;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    text += str_cat(i == 0 ? " on device " : ", ", devices[i]);
  }
  return text;
}

}  // namespace

std::optional<std::int64_t> PipelineSchedule::micro_batch(std::int64_t stage,
                                                          std::int64_t cycle) const {
  const std::int64_t index = cycle - stage;
  if (stage < 0 || stage >= num_stages() || index < 0 || index >= steps) return std::nullopt;
  return index;
}

std::vector<std::optional<std::int64_t>> PipelineSchedule::shown_cycles(std::int64_t most) const {
  const std::int64_t ramps = 2 * main_begin();
  // Two at each end show how it goes on.
  const std::int64_t main = std::max<std::int64_t>(most - ramps, 4);
  const std::int64_t left_out = main_end() - main_begin() - main;
  std::vector<std::optional<std::int64_t>> cycles;
  for (std::int64_t c = 0; c < num_cycles(); ++c) {
    const std::int64_t gap = main_begin() + main / 2;
    if (left_out > 1 && c == gap) {
      cycles.emplace_back(std::nullopt);
      c += left_out - 1;
      continue;
    }
    cycles.emplace_back(c);
  }
  return cycles;
}

std::string PipelineSchedule::text() const {
  const auto cycles = shown_cycles(kMostColumns);
  const std::size_t width = std::to_string(num_cycles() - 1).size() + 1;
  std::size_t name_width = 0;
  for (std::int64_t k = 0; k < num_stages(); ++k) {
    name_width = std::max(name_width, row_name(*this, k).size());
  }
  const auto row = [&](std::string name, const auto& cell) {
    name.resize(name_width, ' ');
    for (const std::optional<std::int64_t>& cycle : cycles) {
      if (cycle == 0 || cycle == main_begin() || cycle == main_end()) name += " |";
      name += right_aligned(cycle ? cell(*cycle) : "...", cycle ? width : 4);
    }
    return name + "\n";
  };
  std::string text =
      str_cat(graph, ": ", num_stages(), num_stages() == 1 ? " stage, " : " stages, ", steps,
              " micro-batches, ", num_cycles(), " cycles: ", range_text("ramp up", 0, main_begin()),
              ", ", range_text("main", main_begin(), main_end()), ", ",
              range_text("ramp down", main_end(), num_cycles()), "\n");
  text += row("cycle", [](std::int64_t cycle) { return std::to_string(cycle); });
  for (std::int64_t k = 0; k < num_stages(); ++k) {
    text += row(row_name(*this, k), [&](std::int64_t cycle) {
      const auto index = micro_batch(k, cycle);
      return index ? std::to_string(*index) : std::string(".");
    });
  }
  return text;
}

}  // namespace pando
