// The binary form of an Ir: round trips and damaged files.
#include <gtest/gtest.h>

#include "pando/ir/serialise.hpp"
#include "pando/ir/text_printer.hpp"
#include "tests/cpp/ir/ir_fixture.hpp"

namespace pando::testing {
namespace {

/// The checksum of the container, written down a second time.
void fix_checksum(std::string& bytes) {
  std::uint64_t hash = 14695981039346656037u;
  for (std::size_t i = 0; i + 8 < bytes.size(); ++i) {
    hash ^= static_cast<unsigned char>(bytes[i]);
    hash *= 1099511628211u;
  }
  std::memcpy(bytes.data() + bytes.size() - 8, &hash, 8);
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

}  // namespace
}  // namespace pando::testing
