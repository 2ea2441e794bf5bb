// The container of Pando's binary files: magic, version, length-prefixed sections and a checksum.
//
//   8 bytes magic | u32 version | sections | u64 XXH3 hash of everything before it
//   section: u32 tag | u64 bytes | contents
//
// Integers are little-endian. Text is u64 bytes, then the characters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "pando/base/attributes.hpp"
#include "pando/base/field_writer.hpp"

namespace pando {

class ByteWriter : public FieldWriter<ByteWriter> {
 public:
  /// `magic`: 8 characters.
  ByteWriter(std::string_view magic, std::uint32_t version);

  template <class T>
  void value(T v) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&v), sizeof v);
  }
  void raw(const void* data, std::size_t size);
  template <class Work>
  void section(std::uint32_t tag, Work work) {
    value(tag);
    const std::size_t at = bytes_.size();
    value(std::uint64_t{0});
    work();
    const std::uint64_t size = bytes_.size() - at - sizeof size;
    std::memcpy(bytes_.data() + at, &size, sizeof size);
  }
  /// Appends the checksum.
  std::string finish() &&;

 private:
  std::string bytes_;
};

/// Reads what ByteWriter wrote. Every read is checked: Error for data that ends early, a wrong
/// magic, a newer version or a wrong checksum. `what` names the kind of file in messages.
class ByteReader {
 public:
  ByteReader(std::string_view bytes, std::string_view magic, std::uint32_t version,
             std::string what);

  template <class T>
  T value() {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    if constexpr (std::is_same_v<T, bool>) {
      return value<std::uint8_t>() != 0;
    } else {
      T v{};
      raw(sizeof v).copy(reinterpret_cast<char*>(&v), sizeof v);
      return v;
    }
  }
  /// An enum whose values are 0 .. last.
  template <class E>
  E enumerator(E last) {
    const auto v = value<std::underlying_type_t<E>>();
    if (v > static_cast<std::underlying_type_t<E>>(last)) corrupt("an unknown enumerator");
    return static_cast<E>(v);
  }
  DType dtype();
  std::string text();
  std::string_view raw(std::size_t size) {
    if (size > rest_.size()) corrupt("data that ends early");
    const std::string_view result = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return result;
  }
  Ints ints();
  Attributes attributes();
  template <class Read>
  auto list(Read read) {
    const auto count = value<std::uint64_t>();
    // Every item has at least one byte.
    if (count > rest_.size()) corrupt("a list longer than the file");
    std::vector<decltype(read())> items;
    // A false count reserves no more memory than there are bytes left.
    items.reserve(std::min<std::uint64_t>(count, rest_.size() / sizeof(decltype(read()))));
    for (std::uint64_t i = 0; i < count; ++i) items.push_back(read());
    return items;
  }
  template <class Work>
  void section(std::uint32_t tag, Work work) {
    const auto given = value<std::uint32_t>();
    if (given != tag) corrupt("a section in the wrong place");
    const auto size = value<std::uint64_t>();
    if (size > rest_.size()) corrupt("a section longer than the file");
    const std::size_t end = rest_.size() - size;
    work();
    if (rest_.size() != end) corrupt("a section of the wrong length");
  }
  /// Throws Error when something is left.
  void finish() const;
  [[noreturn]] void corrupt(const std::string& found) const;

 private:
  AttributeValue attribute_value();

  std::string_view rest_;
  std::string what_;
};

}  // namespace pando
