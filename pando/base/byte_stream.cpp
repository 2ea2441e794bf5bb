#include "pando/base/byte_stream.hpp"

#include <bit>

#include "pando/base/error.hpp"
#include "pando/base/hash.hpp"

namespace pando {
namespace {

static_assert(std::endian::native == std::endian::little, "binary files are little-endian");

constexpr std::size_t kMagicBytes = 8;

}  // namespace

ByteWriter::ByteWriter(std::string_view magic, std::uint32_t version) : bytes_(magic) {
  internal_check(magic.size() == kMagicBytes, "a file magic has 8 characters");
  value(version);
}

void ByteWriter::raw(const void* data, std::size_t size) {
  bytes_.append(static_cast<const char*>(data), size);
}

std::string ByteWriter::finish() && {
  value(hash64(bytes_));
  return std::move(bytes_);
}

ByteReader::ByteReader(std::string_view bytes, std::string_view magic, std::uint32_t version,
                       std::string what)
    : rest_(bytes), what_(std::move(what)) {
  if (bytes.substr(0, kMagicBytes) != magic.substr(0, bytes.size()) || bytes.empty()) {
    throw Error(ErrorCode::CorruptFile,
                str_cat("this is not ", what_, ": wanted a file that starts with '", magic, "'"));
  }
  if (bytes.size() < kMagicBytes + sizeof version + sizeof(std::uint64_t)) {
    throw Error(ErrorCode::CorruptFile,
                str_cat(what_, " is truncated: it has ", bytes.size(), " bytes"));
  }
  rest_.remove_prefix(kMagicBytes);
  const auto given = value<std::uint32_t>();
  // Before the checksum, whose place another version may have changed.
  if (given != version) {
    throw Error(ErrorCode::CorruptFile,
                str_cat(what_, " has version ", given, "; this build of Pando reads version ",
                        version, given > version ? ": use a newer build" : ": write it again"));
  }
  const std::string_view covered = bytes.substr(0, bytes.size() - sizeof(std::uint64_t));
  std::uint64_t hash = 0;
  std::memcpy(&hash, bytes.data() + covered.size(), sizeof hash);
  if (hash != hash64(covered)) {
    throw Error(ErrorCode::CorruptFile,
                str_cat(what_, " is truncated or corrupt: its checksum does not match"));
  }
  rest_.remove_suffix(sizeof hash);
}

DType ByteReader::dtype() { return enumerator(DType::Complex128); }

std::string ByteReader::text() {
  const auto size = value<std::uint64_t>();
  return std::string(raw(size));
}

Ints ByteReader::ints() {
  const auto count = value<std::uint64_t>();
  if (count > rest_.size() / sizeof(std::int64_t)) corrupt("a list longer than the file");
  Ints values(count);
  raw(count * sizeof(std::int64_t)).copy(reinterpret_cast<char*>(values.data()), std::string::npos);
  return values;
}

AttributeValue ByteReader::attribute_value() {
  switch (value<std::uint8_t>()) {
    case 0:
      return value<bool>();
    case 1:
      return value<std::int64_t>();
    case 2:
      return value<double>();
    case 3:
      return text();
    case 4:
      return dtype();
    case 5:
      return ints();
    case 6:
      return list([&] { return value<double>(); });
    case 7:
      return list([&] { return text(); });
    default:
      corrupt("an unknown type of attribute");
  }
}

Attributes ByteReader::attributes() {
  Attributes result;
  const auto count = value<std::uint64_t>();
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string name = text();
    result.set(std::move(name), attribute_value());
  }
  return result;
}

void ByteReader::finish() const {
  if (!rest_.empty()) corrupt("bytes after the end");
}

void ByteReader::corrupt(const std::string& found) const {
  throw Error(ErrorCode::CorruptFile, str_cat(what_, " is corrupt: it has ", found));
}

}  // namespace pando
