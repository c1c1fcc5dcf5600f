#include "dsl/base/suggest.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace hetsynth {
namespace {

char lower(char c) { return char(std::tolower(static_cast<unsigned char>(c))); }

/// Edit distance in which two neighbours that changed places count once ("bandwdith"): the optimal string alignment
/// distance.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  constexpr size_t longest_word = 64;  // longer ones are no typing errors, and the distance is quadratic
  if (word.empty() || word.size() > longest_word) return "";
  std::string best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > longest_word) continue;
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates, std::string_view otherwise) {
  const std::string best = nearest(word, candidates);
  return best.empty() ? std::string(otherwise) : "did you mean \"" + best + "\"?";
}

std::string quoted_list(std::span<const std::string> words, size_t limit) {
  std::string text;
  for (size_t i = 0; i < std::min(words.size(), limit); ++i) text += (i ? ", " : "") + quote(words[i]);
  if (words.size() > limit) text += ", ...";
  return text;
}

std::string quote(std::string_view text) {
  constexpr size_t longest = 60;
  std::string result = "\"";
  for (const char c : text.substr(0, longest)) result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  if (text.size() > longest) {
    // Do not leave half of a UTF-8 sequence at the cut.
    while ((static_cast<unsigned char>(result.back()) & 0xC0) == 0x80) result.pop_back();
    if (static_cast<unsigned char>(result.back()) >= 0xC0) result.pop_back();
    result += "...";
  }
  return result + "\"";
}

std::string in_ascii(std::string_view bytes) {
  std::string out(bytes);
  std::ranges::replace_if(
      out, [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

}  // namespace hetsynth
