// Many texts in one piece of memory.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "pando/base/error.hpp"

namespace pando {

/// A list of texts that is made, copied, stored and freed as two arrays, however many they are.
/// Together they may have 4 GiB.
class TextTable {
 public:
  using Index = std::uint32_t;

  TextTable() = default;
  /// As `bytes()` and `ends()` gave them. Throws Error if the ends are not ascending to the last
  /// byte.
  TextTable(std::string bytes, std::vector<std::uint32_t> ends)
      : bytes_(std::move(bytes)), ends_(std::move(ends)) {
    std::uint32_t begin = 0;
    for (const std::uint32_t end : ends_) {
      if (end < begin) throw Error("a table of texts has a text of a negative length");
      begin = end;
    }
    if (begin != bytes_.size()) throw Error("a table of texts has another size than its texts");
  }

  Index add(std::string_view text) { return add_joined(text); }
  /// The text of which these are the parts.
  template <class... Parts>
  Index add_joined(const Parts&... parts) {
    const std::size_t size = (std::string_view(parts).size() + ...);
    if (size > std::numeric_limits<std::uint32_t>::max() - bytes_.size()) {
      throw Error(str_cat("wanted texts of at most 4 GiB in all; given ", bytes_.size(),
                          " bytes and another text of ", size));
    }
    (bytes_.append(std::string_view(parts)), ...);
    ends_.push_back(static_cast<std::uint32_t>(bytes_.size()));
    return static_cast<Index>(ends_.size() - 1);
  }
  std::size_t size() const { return ends_.size(); }
  /// Valid until another text is added.
  std::string_view operator[](Index index) const {
    const std::size_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(bytes_).substr(begin, ends_[index] - begin);
  }

  const std::string& bytes() const { return bytes_; }
  const std::vector<std::uint32_t>& ends() const { return ends_; }
  bool operator==(const TextTable&) const = default;

 private:
  std::string bytes_;
  std::vector<std::uint32_t> ends_;
};

}  // namespace pando
