#include "dsl/base/excerpt.h"

#include <fmt/format.h>

#include <fstream>

namespace hetsynth {
namespace {

constexpr size_t longest_line = 400;  // a generated line of a plan would fill the terminal

/// Spaces as wide as the text: tabs stay tabs, a character of several UTF-8 bytes counts once.
std::string blank(std::string_view text) {
  std::string out;
  for (char c : text)
    if (c == '\t')
      out += '\t';
    else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80)
      out += ' ';
  return out;
}

}  // namespace

std::string source_excerpt(const SourceLocation& where) {
  if (!where.known() || where.line < 1) return "";
  std::ifstream in(where.file, std::ios::binary);
  std::string line;
  for (int at = 0; at < where.line; ++at)
    if (!std::getline(in, line)) return "";
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
  if (line.empty() || line.size() > longest_line || line.find('\0') != std::string::npos) return "";
  std::string text = fmt::format("{:>5} | {}", where.line, line);
  if (where.column >= 1 && size_t(where.column) <= line.size() + 1)
    text += fmt::format("\n{:>5} | {}^", "", blank(std::string_view(line).substr(0, size_t(where.column) - 1)));
  return text;
}

Diagnostic with_excerpts(Diagnostic diagnostic) {
  if (diagnostic.detail.empty()) diagnostic.detail = source_excerpt(diagnostic.where);
  for (Diagnostic::Note& note : diagnostic.notes)
    if (note.detail.empty()) note.detail = source_excerpt(note.where);
  return diagnostic;
}

}  // namespace hetsynth
