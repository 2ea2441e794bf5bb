// Stored files whose counts lie: no reader reserves more memory than its file has bytes.
#include <gtest/gtest.h>

#include <algorithm>

#include "pando/ir/serialise.hpp"
#include "pando/program/check.hpp"
#include "pando/program/serialise.hpp"
#include "pando/session/executable_cache.hpp"
#include "pando/session/session.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"
#include "tests/cpp/memory_limit.hpp"

namespace pando::testing {
namespace {

/// Padding of the files: a list with as many items as bytes would not fit the limit.
constexpr std::size_t kPadding = std::size_t{4} << 20;

std::uint64_t word_at(const std::string& bytes, std::size_t at) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof word);
  return word;
}

void put(std::string& bytes, std::size_t at, std::uint64_t word) {
  std::memcpy(bytes.data() + at, &word, sizeof word);
}

/// Every word that can be a count, or an offset, gets each hostile value, behind a right checksum.
template <class Read>
void expect_counts_checked(std::string bytes, Read read) {
  const MemoryLimit limit;
  const std::size_t covered = bytes.size() - sizeof(std::uint64_t);
  int refused = 0;
  for (std::size_t at = 12; at + sizeof(std::uint64_t) <= covered; ++at) {
    const std::uint64_t word = word_at(bytes, at);
    const std::uint64_t rest = covered - at - sizeof word;
    if (word > bytes.size() || (word == 0 && bytes[at - 1] == 0)) continue;
    for (const std::uint64_t hostile :
         {rest, rest / 8, std::uint64_t{1} << 40, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
      put(bytes, at, hostile);
      put(bytes, covered, hash64(std::string_view(bytes).substr(0, covered)));
      try {
        read(std::string_view(bytes));
      } catch (const std::bad_alloc&) {
        ADD_FAILURE() << "the count " << hostile << " at byte " << at << " was believed";
        return;
      } catch (const std::exception&) {
        ++refused;
      }
    }
    put(bytes, at, word);
  }
  EXPECT_GT(refused, 100);
}

/// Text at the end, which no hostile value hits.
std::string padding() { return std::string(kPadding, 'x'); }

Program padded_program(const Ir& ir) {
  Program program = Session(ir, {{.check_inplace_ambiguity = false}, {.num_threads = 1}}).program();
  program.collectives.push_back({.name = padding()});
  return program;
}

TEST(HostileCounts, OfAStoredIr) {
  const auto ir = program_with_everything();
  ir->main_graph().ops().back()->context.name = padding();
  expect_counts_checked(serialise_ir(*ir), [](std::string_view bytes) { deserialise_ir(bytes); });
}

TEST(HostileCounts, OfAStoredProgram) {
  const auto ir = row_program();
  expect_counts_checked(serialise_program(padded_program(*ir)),
                        [](std::string_view bytes) { check_program(deserialise_program(bytes)); });
}

TEST(HostileCounts, OfACachedExecutable) {
  const auto ir = row_program();
  const float value = 1.0f;
  const Executable executable(padded_program(*ir), {{0, HostArray::copy_of(&value, sizeof value)}},
                              "a target");
  const Hash128 key = {1, 2};
  expect_counts_checked(serialise_executable(key, executable, *ir),
                        [&](std::string_view bytes) { deserialise_executable(bytes, key, *ir); });
}

}  // namespace
}  // namespace pando::testing
