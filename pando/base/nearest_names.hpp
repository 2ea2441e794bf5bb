// Names like one that does not exist, for errors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pando {

/// A phrase: `the nearest names are 'a', 'b'`, at most three of `known` that differ little from
/// `name` (edit distance, letters of both cases are equal); else all, if they are few; else how
/// many there are.
std::string nearest_names(std::string_view name, const std::vector<std::string>& known);

}  // namespace pando
