// The binary form of an Ir: round trips and damaged files.
#include <gtest/gtest.h>

#include "pando/ir/serialise.hpp"
#include "pando/ir/text_printer.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

/// Damage that a checksum does not show.
void fix_checksum(std::string& bytes) {
  const std::size_t covered = bytes.size() - sizeof(std::uint64_t);
  const std::uint64_t hash = hash64(std::string_view(bytes).substr(0, covered));
  std::memcpy(bytes.data() + covered, &hash, sizeof hash);
}

/// All of an Ir but the values of its variables.
std::string bytes_without_values(const Ir& ir) {
  for (const Graph* graph : ir.graphs()) {
    for (Tensor* source : graph->tensors().sources()) {
      if (source->kind() != TensorKind::Variable || source->data == nullptr) continue;
      std::memset(source->data->data, 0, source->data->bytes);
    }
  }
  return serialise_ir(ir);
}

Hash128 hash_of(const Ir& ir) {
  HashWriter out;
  hash_ir(out, ir);
  return std::move(out).finish();
}

TEST(SerialiseIr, EverythingSurvivesARoundTrip) {
  const auto ir = program_with_everything();
  const std::string bytes = serialise_ir(*ir);
  const auto again = deserialise_ir(bytes);
  EXPECT_EQ(print_ir(*again), print_ir(*ir));
  EXPECT_EQ(serialise_ir(*again), bytes);
}

TEST(SerialiseIr, NoPrefixIsAccepted) {
  const std::string bytes = serialise_ir(*program_with_everything());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::string error =
        error_of([&] { deserialise_ir(std::string_view(bytes).substr(0, size)); });
    ASSERT_NE(error, "no error") << size;
  }
  EXPECT_NE(error_of([] { deserialise_ir("PANDO-IR"); }).find("truncated"), std::string::npos);
  EXPECT_NE(
      error_of([] { deserialise_ir("something else, and long"); }).find("this is not a stored Ir"),
      std::string::npos);
}

TEST(SerialiseIr, EveryChangedByteIsNoticed) {
  const std::string bytes = serialise_ir(*program_with_everything());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    ASSERT_NE(error_of([&] { deserialise_ir(changed); }), "no error") << at;
  }
}

TEST(SerialiseIr, OtherVersionsAreNamed) {
  std::string bytes = serialise_ir(*program_with_everything());
  bytes[8] = 9;
  const std::string error = error_of([&] { deserialise_ir(bytes); });
  EXPECT_NE(error.find("has version 9; this build of Pando reads version "), std::string::npos)
      << error;
}

// With a right checksum, the readers themselves must refuse or accept without reading astray.
TEST(SerialiseIr, RandomMutationsBehindAValidChecksumNeverCrash) {
  const std::string bytes = serialise_ir(*program_with_everything());
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::string changed = bytes;
    for (unsigned edits = 1 + random() % 3; edits > 0; --edits) {
      changed[12 + random() % (changed.size() - 20)] = static_cast<char>(random());
    }
    fix_checksum(changed);
    try {
      print_ir(*deserialise_ir(changed));
    } catch (const std::exception&) {
      // Refused.
    }
  }
}

/// Irs that differ in one byte each: the hash differs exactly when the Irs do.
TEST(SerialiseIr, TheHashCoversAllButTheValuesOfVariables) {
  for (const auto& ir : {program_with_everything(), random_program(11, 30)}) {
    const std::string bytes = serialise_ir(*ir);
    const Hash128 hash = hash_of(*ir);
    EXPECT_EQ(hash_of(*ir->clone()), hash);
    EXPECT_EQ(hash_of(*deserialise_ir(bytes)), hash);
    const std::string wanted = bytes_without_values(*ir);
    int differ = 0;
    for (std::size_t at = 12; at + 8 < bytes.size(); ++at) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ 1);
      fix_checksum(changed);
      std::unique_ptr<Ir> other;
      if (error_of([&] { other = deserialise_ir(changed); }) != "no error") continue;
      const bool same = bytes_without_values(*other) == wanted;
      EXPECT_EQ(hash_of(*other) == hash, same) << at;
      differ += same ? 0 : 1;
    }
    EXPECT_GT(differ, 300);
  }
}

}  // namespace
}  // namespace pando::testing
