#include "runtime/weights/rules_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>

#include "dsl/base/error.h"

namespace hetsynth {

void refuse_rule(const char* tag, const std::string& file, int line, const std::string& message,
                 const std::string& expected, const std::string& found, const std::string& mend) {
  throw UserError({{file, line}, tag, message, expected, found, mend});
}

std::vector<std::string> names_in(const std::string& pattern) {
  std::vector<std::string> out;
  for (size_t at = pattern.find('{'); at != std::string::npos; at = pattern.find('{', at + 1)) {
    const size_t end = pattern.find('}', at);
    if (end == std::string::npos) return {""};
    out.push_back(pattern.substr(at + 1, end - at - 1));
  }
  return out;
}

std::string short_list(const std::vector<std::string>& names) {
  constexpr size_t most_listed = 12;
  std::string out =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + int64_t(std::min(names.size(), most_listed)), ", "));
  if (names.size() > most_listed) out += fmt::format(" and {} more", names.size() - most_listed);
  return out;
}

}  // namespace hetsynth
