// The body of a fused kernel: a planned program, and how it reaches its operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pando/backends/cpu/fused/compiled_chain.hpp"
#include "pando/backends/cpu/fused/direct_parts.hpp"
#include "pando/backends/cpu/fused/fused_kernel.hpp"
#include "pando/backends/cpu/fused/fused_layout.hpp"

namespace pando::cpu {

class FusedBody {
 public:
  /// `keep_rows`: to run parts.
  FusedBody(const KernelSpec& spec, int num_threads, MachineCode machine_code, bool keep_rows);

  /// How many run() cuts the work into.
  std::int64_t num_parts() const { return num_parts_; }
  /// Scratch of each.
  std::size_t part_bytes() const { return part_bytes_; }
  /// Whether values depend on the number of an element.
  bool numbers_elements() const { return !plan_.generated.empty(); }

  /// `scratch`: for each part.
  void run(std::byte* const* operands, std::byte* scratch) const;
  /// `scratch`: for one part.
  void run_matrix_part(std::byte* const* operands, std::byte* scratch,
                       const MatrixPart& matrix) const;
  std::string explain() const;

 private:
  struct Part {
    std::byte* const* operands;
    std::byte** slots;
    std::int64_t* steps;
    std::byte** rows;       // per operand: where the current row begins
    std::int64_t* indices;  // of the current row, by outer dimension
    std::byte* memory;
    std::int64_t* group;                  // whose numbers are drawn; -1: none
    const std::byte** repeated;           // per operand: what its buffer repeats
    const CompiledChain* code = nullptr;  // or the micro-ops
    bool streams = false;
    bool copies_inputs = false;  // one is to be written, and read again after
  };

  void lay_out_scratch();
  void choose_parts(int num_threads);
  void fill_constants();
  std::size_t moving() const { return layout_.num_operands + plan_.generated.size(); }
  void run_part(std::byte* const* operands, std::byte* memory, std::int64_t begin,
                std::int64_t end) const;
  Part prepare(std::byte* const* operands, std::byte* memory) const;
  bool must_copy(const Part& part, std::size_t operand) const;
  void run_units(const Part& part, std::int64_t begin, std::int64_t end, bool merge) const;
  void go_to_row(const Part& part, std::int64_t row) const;
  /// How many of `left` whole rows are evenly spaced.
  std::int64_t rows_at_once(const Part& part, std::int64_t left) const;
  void run_rows(const Part& part, std::int64_t rows, std::int64_t first, std::int64_t count) const;
  /// By `rows` rows, no more than are left of the last outer dimension.
  void go_on(const Part& part, std::int64_t rows) const;
  /// Elements [first, first + count) of a row.
  void run_run(const Part& part, std::int64_t row, std::int64_t first, std::int64_t count) const;
  void run_blocks(const Part& part, std::int64_t blocks) const;
  void place_operands(const Part& part, std::int64_t linear, std::int64_t first,
                      std::int64_t count) const;
  void place_in_buffer(const Part& part, std::size_t i, std::int64_t linear, std::int64_t first,
                       std::int64_t count) const;
  /// The numbers of elements [linear, linear + count), all of one group.
  void generate(const Part& part, std::int64_t linear, std::int64_t count) const;
  /// The last lanes of a run go through buffers of a whole block, as micro-ops know no other
  /// size.
  void run_tail(const Part& part, std::int64_t lanes) const;

  struct alignas(64) Line {
    std::byte bytes[64];
  };

  FusedPlan plan_;
  std::int64_t lanes_;
  FusedLayout layout_;
  std::shared_ptr<const CompiledChain> compiled_;  // of the body, or none
  bool streams_ = false;                           // where outputs are apart from inputs
  std::vector<std::int64_t> row_steps_;            // for machine code that goes from row to row
  std::optional<DirectParts> direct_parts_;
  // Operands whose place is in memory, and those that have a buffer. What is the same for all
  // elements stays where prepare() places it, and is in neither.
  std::vector<std::size_t> direct_, buffered_;
  std::int64_t pieces_per_row_ = 0;
  std::int64_t num_units_ = 0;  // pieces of all rows
  std::int64_t num_parts_ = 1;
  std::vector<Line> constants_;
  // Scratch of a part: slots, steps, rows, indices, group, what is repeated, tiles, then a buffer
  // for each operand.
  std::size_t steps_offset_ = 0;
  std::size_t rows_offset_ = 0;
  std::size_t indices_offset_ = 0;
  std::size_t group_offset_ = 0;
  std::size_t repeated_offset_ = 0;
  std::size_t tiles_offset_ = 0;
  std::vector<std::size_t> buffers_;
  std::size_t part_bytes_ = 0;
};

}  // namespace pando::cpu
