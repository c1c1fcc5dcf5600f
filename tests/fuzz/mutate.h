// Random damage to a text, of the kinds that readers of formats stumble over.
#pragma once
#include <random>
#include <string>

namespace hetsynth::testing {

/// The text with one to four changes: bytes, numbers, words, lines, brackets; removed, doubled, moved, or replaced by
/// extremes.
std::string mutate(std::string text, std::mt19937_64& random);

}  // namespace hetsynth::testing
