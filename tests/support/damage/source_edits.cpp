#include "tests/support/damage/source_edits.h"

#include <algorithm>
#include <cctype>
#include <regex>
#include <utility>

namespace hetsynth::test {

size_t own_part(const std::string& text) { return text.find("//   "); }

std::vector<Place> numbers(const std::string& text) {
  std::vector<Place> out;
  for (size_t i = own_part(text); i < text.size(); ++i) {
    if (text.compare(i, 2, "//") == 0 || text[i] == '#') i = text.find('\n', i);
    bool word_before =
        std::isalnum(static_cast<unsigned char>(text[i - 1])) || text[i - 1] == '_' || text[i - 1] == '.';
    if (!std::isdigit(static_cast<unsigned char>(text[i])) || word_before) continue;
    size_t end = i;
    while (std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
    bool integer = text[end] != '.' && text[end] != 'e' && text[end] != 'f';
    if (integer) out.push_back({i, end - i});
    i = end;
  }
  return out;
}

std::string line_around(const std::string& text, size_t at) {
  size_t begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

std::string edited(const std::string& text, const SourceEdit& edit) {
  return text.substr(0, edit.place.at) + edit.to + text.substr(edit.place.at + edit.place.length);
}

std::string description(const std::string& text, const SourceEdit& edit) {
  const auto line = std::count(text.begin(), text.begin() + long(edit.place.at), '\n') + 1;
  const size_t column = edit.place.at - text.rfind('\n', edit.place.at);
  return "line " + std::to_string(line) + ", column " + std::to_string(column) + ", " +
         text.substr(edit.place.at, edit.place.length) + " -> " + edit.to + ": " + line_around(text, edit.place.at);
}

std::vector<SourceEdit> edits_of(const std::string& text) {
  const std::pair<const char*, const char*> exchanges[] = {
      {" == ", " <= "},         {" < ", " <= "},          {" < ", " == "},         {"max_f32(", "min_f32("},
      {"min_f32(", "max_f32("}, {"max_f64(", "min_f64("}, {"min_f64(", "max_f64("}};
  std::vector<SourceEdit> out;
  for (const auto& [from, to] : exchanges)
    for (size_t at = text.find(from, own_part(text)); at != std::string::npos; at = text.find(from, at + 1))
      if (line_around(text, at).find("for (") == std::string::npos) out.push_back({{at, std::string(from).size()}, to});
  for (const Place& place : numbers(text))
    out.push_back({place, std::to_string(std::stoll(text.substr(place.at, place.length)) + 1)});
  static const std::regex real("[^A-Za-z0-9_.]([0-9]+\\.[0-9]+(e[+-]?[0-9]+)?)f?");
  for (std::sregex_iterator i(text.begin() + long(own_part(text)), text.end(), real), end; i != end; ++i)
    out.push_back({{own_part(text) + size_t(i->position(1)), size_t(i->length(1))},
                   std::to_string(std::stod((*i)[1]) * 1.25 + 0.5)});
  return out;
}

}  // namespace hetsynth::test
