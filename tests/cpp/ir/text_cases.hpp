// Cases of passes as text: a program before and after.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace pando::testing {

struct TextCase {
  std::string pass;
  std::string title;
  std::string before;
  std::string after;
};

/// FOLDER/PASS.txt in the folder of the tests: lines `==== title` separate cases; each is a
/// program, a line `---- after` and what the pass makes of it. What stands before the first title
/// begins every program.
inline std::vector<TextCase> read_text_cases(const std::string& folder) {
  std::vector<TextCase> cases;
  for (const auto& entry : std::filesystem::directory_iterator(PANDO_TEST_DATA "/" + folder)) {
    if (entry.path().extension() != ".txt") continue;
    std::ifstream file(entry.path());
    bool is_after = false;
    const std::size_t earlier = cases.size();
    std::string beginning;
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("==== ")) {
        cases.push_back({entry.path().stem().string(), line.substr(5), beginning, ""});
        is_after = false;
      } else if (line == "---- after") {
        is_after = true;
      } else if (cases.size() == earlier) {
        beginning += line + "\n";
      } else {
        (is_after ? cases.back().after : cases.back().before) += line + "\n";
      }
    }
  }
  return cases;
}

}  // namespace pando::testing
