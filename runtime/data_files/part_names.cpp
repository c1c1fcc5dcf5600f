#include "runtime/data_files/part_names.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <glob.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>

#include "dsl/base/data_file.h"
#include "dsl/base/suggest.h"

namespace hetsynth {
namespace {

namespace fs = std::filesystem;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

size_t end_of_digits(std::string_view text, size_t begin) {
  while (begin < text.size() && is_digit(text[begin])) ++begin;
  return begin;
}

/// "train-", 00003, "-of-", 00008, ".csv".
struct NumberedName {
  std::string before, number, link, count, after;

  /// The name of another part of the set.
  std::string part(int64_t index) const {
    return fmt::format("{}{:0{}}{}{}{}", before, index, number.size(), link, count, after);
  }
};

/// Nothing if the name does not say how many parts there are.
std::optional<NumberedName> numbered(const std::string& path) {
  const size_t folder = path.rfind('/') + 1;  // 0 if there is none
  for (const std::string link : {"-of-", "_of_"}) {
    const size_t at = path.rfind(link);
    if (at == std::string::npos || at <= folder) continue;
    const size_t count = at + link.size(), end = end_of_digits(path, count);
    size_t begin = at;
    while (begin > folder && is_digit(path[begin - 1])) --begin;
    // No one has more parts than nine digits count.
    if (begin == at || end == count || at - begin > 9 || end - count > 9) continue;
    return NumberedName{path.substr(0, begin), path.substr(begin, at - begin), link, path.substr(count, end - count),
                        path.substr(end)};
  }
  return {};
}

int64_t value_of(const std::string& digits) {
  int64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

/// The parts of one set that are there.
struct Numbers {
  NumberedName name;
  std::map<int64_t, std::string> paths;
};

void check_numbers(const Numbers& set, const std::string& named, const std::string& pattern) {
  const int64_t count = value_of(set.name.count);
  // Parts are counted from 0, but by those who write 1-of-8 to 8-of-8 from 1.
  const int64_t first = !set.paths.contains(0) && set.paths.contains(count) ? 1 : 0;
  constexpr size_t most_named = 4;
  constexpr int64_t most_looked_for = 1'000'000;
  std::vector<std::string> missing;
  for (int64_t i = first; i < first + std::min(count, most_looked_for) && missing.size() <= most_named; ++i) {
    const std::string path = set.name.part(i);
    if (set.paths.contains(i) || (!pattern.empty() && fnmatch(pattern.c_str(), path.c_str(), FNM_PATHNAME) != 0))
      continue;
    missing.push_back(fs::path(path).filename().string());
  }
  if (missing.empty()) return;
  const bool more = missing.size() > most_named;
  if (more) missing.pop_back();
  throw data_error(
      named, "parts of the data are missing",
      fmt::format("{} parts, from {} to {}", count, fs::path(set.name.part(first)).filename().string(),
                  fs::path(set.name.part(first + count - 1)).filename().string()),
      fmt::format("{} of them, without {}{}", set.paths.size(), quoted_list(missing), more ? " and others" : ""),
      "fetch or write them again; to train on some of them, name these with a pattern in quotation marks");
}

}  // namespace

bool has_wildcard(const std::string& path) { return path.find_first_of("*?[") != std::string::npos; }

std::vector<std::string> paths_of_pattern(const std::string& pattern) {
  glob_t found{};
  const int result = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<std::string> out;
  if (result == 0) out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (out.empty())
    throw data_error(pattern, "the pattern names no file", "", "",
                     "name existing data with --data, as 'FOLDER/train-*.jsonl' in quotation marks");
  std::ranges::sort(out, part_before);
  return out;
}

bool part_before(const std::string& a, const std::string& b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
      ++i, ++j;
      continue;
    }
    const size_t end_a = end_of_digits(a, i), end_b = end_of_digits(b, j);
    const size_t from_a = std::min(a.find_first_not_of('0', i), end_a);
    const size_t from_b = std::min(b.find_first_not_of('0', j), end_b);
    if (end_a - from_a != end_b - from_b) return end_a - from_a < end_b - from_b;
    if (const int order = a.compare(from_a, end_a - from_a, b, from_b, end_b - from_b); order != 0) return order < 0;
    i = end_a, j = end_b;
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;  // they differ in zeros before a number, or not at all
}

std::string series_of(const std::string& name) {
  const auto digits_as_sign = [](const std::string& text) {
    std::string out;
    for (const char c : text) {
      if (!is_digit(c)) {
        out += c;
      } else if (!out.ends_with('#')) {
        out += '#';
      }
    }
    return out;
  };
  if (const auto parts = numbered(name))
    return digits_as_sign(parts->before) + "#" + parts->link + parts->count + parts->after;
  return digits_as_sign(name);
}

std::string name_of_whole(const std::string& stem) {
  const auto parts = numbered(stem);
  std::string out = parts && parts->after.empty() ? parts->before : stem;
  if (out.size() == stem.size())
    while (!out.empty() && is_digit(out.back())) out.pop_back();
  const auto without_sign = [&] {
    const bool sign = !out.empty() && std::string_view("-_.").find(out.back()) != std::string_view::npos;
    if (sign) out.pop_back();
    return sign;
  };
  if (out.size() == stem.size() || !without_sign()) return "";
  for (const std::string_view word : {"part", "shard"}) {
    const std::string before = out;
    if (!out.ends_with(word)) continue;
    out.resize(out.size() - word.size());
    if (!without_sign()) out = before;
  }
  return out;
}

void check_parts_are_whole(const std::vector<std::string>& paths, const std::string& named,
                           const std::string& pattern) {
  std::map<std::string, std::map<std::string, Numbers>>
      sets;  // by name without numbers, then by how many parts it says
  for (const std::string& path : paths) {
    const auto name = numbered(path);
    if (!name) continue;
    Numbers& set = sets[name->before + name->link + name->after][name->count];
    set.name = *name;
    set.paths.emplace(value_of(name->number), path);
  }
  for (const auto& [name, by_count] : sets) {
    if (by_count.size() > 1) {
      const Numbers& first = by_count.begin()->second;
      const Numbers& second = std::next(by_count.begin())->second;
      throw data_error(named, "parts of two sets of data are mixed", first.paths.begin()->second,
                       second.paths.begin()->second,
                       fmt::format("name the parts of one, as '{}*{}{}{}' in quotation marks", first.name.before,
                                   first.name.link, first.name.count, first.name.after));
    }
    check_numbers(by_count.begin()->second, named, pattern);
  }
}

}  // namespace hetsynth
