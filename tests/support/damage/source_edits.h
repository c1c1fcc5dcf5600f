// Places in the generated text of a cpu device at which it can be damaged.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace hetsynth::test {

/// The part of the text behind the helper functions: kernels and step.
size_t own_part(const std::string& text);
std::string line_around(const std::string& text, size_t at);

struct Place {
  size_t at, length;
};
/// Integers of kernels and step, those in comments and strings left out.
std::vector<Place> numbers(const std::string& text);

struct SourceEdit {
  Place place;
  std::string to;
};
std::string edited(const std::string& text, const SourceEdit& edit);
std::string description(const std::string& text, const SourceEdit& edit);
/// Every integer one larger, every other number a quarter larger and more, every comparison another, but those that
/// loops count by.
std::vector<SourceEdit> edits_of(const std::string& text);

}  // namespace hetsynth::test
