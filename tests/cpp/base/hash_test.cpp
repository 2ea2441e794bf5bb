// Hashes of fields that come one by one.
#include "pando/base/hash.hpp"

#include <gtest/gtest.h>

#include <random>

#include "pando/base/byte_stream.hpp"

namespace pando::testing {
namespace {

Hash128 hash_in_pieces(std::string_view bytes, std::mt19937& random, std::size_t longest) {
  HashWriter out;
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, random() % (longest + 1));
    out.raw(piece.data(), piece.size());
    bytes.remove_prefix(piece.size());
  }
  return std::move(out).finish();
}

TEST(HashWriter, IsTheHashOfAllBytesHoweverTheyCome) {
  std::mt19937 random(7);
  for (const std::size_t size : {0, 1, 16, 240, 241, 4095, 4096, 4097, 8192, 30000}) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    for (const std::size_t longest : {1, 7, 300, 5000, 40000}) {
      EXPECT_EQ(hash_in_pieces(bytes, random, longest), hash128(bytes)) << size << " " << longest;
    }
  }
}

/// With the writing functions of ByteWriter, over the border of its buffer, too.
TEST(HashWriter, WritesFieldsAsAFileHasThem) {
  const Attributes attributes = {
      {"axis", Ints{1, 2}},          {"scale", 0.5},
      {"text", std::string("some")}, {"type", DType::Float16},
      {"values", Floats{1.5, 2.5}},  {"words", Texts{"", "some", "more"}}};
  const auto write = [&](auto& out) {
    for (int i = 0; i < 200; ++i) {
      out.value(static_cast<std::int16_t>(i));
      out.value(i % 2 == 0);
      out.text(std::string(static_cast<std::size_t>(i), 'x'));
      out.ints({i, -i});
      out.attributes(attributes);
      out.list(std::vector<int>{1, 2, 3}, [&](int item) { out.value(item); });
    }
  };
  constexpr std::string_view kMagic = "TESTFILE";
  ByteWriter file(kMagic, 1);
  write(file);
  const std::string bytes = std::move(file).finish();
  HashWriter hashed;
  hashed.raw(kMagic.data(), kMagic.size());
  hashed.value(std::uint32_t{1});
  write(hashed);
  const std::string_view covered = std::string_view(bytes).substr(0, bytes.size() - 8);
  EXPECT_EQ(std::move(hashed).finish(), hash128(covered));
}

}  // namespace
}  // namespace pando::testing
