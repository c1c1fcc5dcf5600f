// "Did you mean": the nearest of the words that would have been right.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hetsynth {

/// The candidate with the least edit distance to `word`, letters compared without case; empty if none is near. The
/// first of equals wins.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// "did you mean \"bandwidth\"?", or `otherwise` if no candidate is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates,
                         std::string_view otherwise = "");

/// "\"a\", \"b\", \"c\"", at most `limit` words.
std::string quoted_list(std::span<const std::string> words, size_t limit = 12);

/// A user's text for a message: quoted, cut to 60 bytes, control characters shown as '?'.
std::string quote(std::string_view text);

/// Bytes of a file of whatever kind: all that is no printable ASCII becomes '?'.
std::string in_ascii(std::string_view bytes);

}  // namespace hetsynth
