// Hashes of bytes (XXH3): fast and well mixed, but no protection against forgery.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "pando/base/field_writer.hpp"

namespace pando {

struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  /// 32 lower-case hexadecimal digits.
  std::string hex() const;
  bool operator==(const Hash128&) const = default;
};

std::uint64_t hash64(std::string_view bytes);
Hash128 hash128(std::string_view bytes);

/// hash128 of fields that are written one after the other. Keeps none of them: hashing a large Ir
/// needs no memory of its size.
class HashWriter : public FieldWriter<HashWriter> {
 public:
  HashWriter();
  ~HashWriter();
  HashWriter(const HashWriter&) = delete;
  HashWriter& operator=(const HashWriter&) = delete;

  template <class T>
  void value(T v) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    if (used_ + sizeof v > buffer_.size()) flush();
    std::memcpy(buffer_.data() + used_, &v, sizeof v);
    used_ += sizeof v;
  }
  void raw(const void* data, std::size_t size) {
    if (size > buffer_.size() - used_) return raw_large(data, size);
    if (size > 0) std::memcpy(buffer_.data() + used_, data, size);
    used_ += size;
  }
  /// Where the section ends follows from what is in it.
  template <class Work>
  void section(std::uint32_t tag, Work work) {
    value(tag);
    work();
  }
  Hash128 finish() &&;

 private:
  struct State;
  void flush();
  void raw_large(const void* data, std::size_t size);

  std::unique_ptr<State> state_;
  std::size_t used_ = 0;
  std::array<char, 4096> buffer_;
};

}  // namespace pando
